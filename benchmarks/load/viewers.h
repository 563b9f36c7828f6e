/* N connections that receive. What they speak is decided by the request they send and the status
 * they expect; of what arrives only the marks are read, in whatever frame they stand. */
#ifndef VIEWERS_H
#define VIEWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

struct viewer_plan {
    int port;
    int count;
    int sessions;         /* viewer i watches session i % sessions */
    const char *request;  /* head of the request, without the blank line; {session} is replaced */
    const char *prefix;   /* names of sessions are prefix and number */
    int status;           /* of an accepted request */
    bool await_frame;     /* ready with the first byte of the body, not with the head */
    const char *hello;    /* WebSocket: messages to send first, one a line; NULL for another protocol */
};

struct viewers {
    struct viewer_plan plan;
    struct viewer *all;
    int epoll;
    int opened, ready, closed;
    uint64_t delivered;  /* marks seen */
    uint64_t bytes;      /* of bodies */
    struct histogram latency;
};

struct viewers viewers_new(const struct viewer_plan *plan, int epoll);

/* Open more connections, at most `limit` in all and 64 not yet ready at a time. */
void viewers_open(struct viewers *v, int limit);

/* Take what has arrived on one connection; `index` as the epoll source has it. */
void viewers_read(struct viewers *v, uint32_t index);

/* Close all of them; they may be opened again. */
void viewers_close(struct viewers *v);

#endif
