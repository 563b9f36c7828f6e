"""`python -m sessionwire`: the command line."""

from __future__ import annotations

from sessionwire.cli import main

if __name__ == "__main__":
    main()
