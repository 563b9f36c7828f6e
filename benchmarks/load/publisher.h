/* Keep-alive connections that publish, one request outstanding on each. */
#ifndef PUBLISHER_H
#define PUBLISHER_H

#include <stddef.h>
#include <stdint.h>

#include "histogram.h"
#include "wire.h"
#include "workload.h"

struct publisher_plan {
    int port;
    int connections;
    int sessions;
    int batch;           /* events a request */
    enum form form;
    const char *request; /* head of the request; {session} is replaced */
    const char *prefix;
};

struct publisher {
    struct publisher_plan plan;
    const struct wire *wire;
    struct workload *workload;
    struct link *links;
    int epoll, idle;
    uint64_t submitted, acked, refused; /* events */
    uint64_t requests;
    struct histogram answer; /* from sending a request to its answer */
};

struct publisher publisher_new(const struct publisher_plan *plan, struct workload *workload,
                               int epoll);

/* Publish `batch` events of one session in one request; there must be an idle connection. The
 * i-th event is marked with first_ns + i * step_ns. */
void publisher_submit(struct publisher *p, int session, uint64_t first_ns, uint64_t step_ns);

/* Take what has arrived on one connection. */
void publisher_read(struct publisher *p, uint32_t index);

#endif
