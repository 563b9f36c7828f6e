"""The servers that the hub is measured beside; each answers the hub's own paths."""
