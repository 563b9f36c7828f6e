/* Loopback TCP for both sides of the generator. */
#ifndef NET_H
#define NET_H

#include <stddef.h>

/* Connect to 127.0.0.1:port with TCP_NODELAY; the socket is non-blocking afterwards. */
int net_connect(int port);

/* Send all of it, waiting while the peer does not read. Returns 0, or -1 when the peer is gone. */
int net_send(int fd, const char *bytes, size_t size);

#endif
