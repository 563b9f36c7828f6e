#include "publisher.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "net.h"
#include "request.h"
#include "source.h"

#define ANSWER_ROOM (64 * 1024)
#define HEAD_ROOM 4096
#define REFUSALS_SHOWN 3

struct link {
    int fd, events; /* events in the request outstanding, 0 when idle */
    uint64_t sent_ns;
    size_t size;
    char answer[ANSWER_ROOM];
};

static char *body, *request;
static size_t request_room;

static void open_link(struct publisher *p, uint32_t index) {
    p->links[index].fd = net_connect(p->plan.port);
    p->links[index].size = 0;
    source_add(p->epoll, p->links[index].fd, SOURCE_LINK, index);
}

struct publisher publisher_new(const struct publisher_plan *plan, struct workload *workload,
                               int epoll) {
    struct publisher p = {.plan = *plan, .wire = &wire_http, .workload = workload, .epoll = epoll};
    size_t body_room = (workload_largest(workload) + 2) * (size_t)plan->batch + 2;
    body = take(malloc(body_room));
    request_room = body_room + HEAD_ROOM;
    request = take(malloc(request_room));
    p.links = take(calloc((size_t)plan->connections, sizeof *p.links));
    p.idle = plan->connections;
    for (int i = 0; i < plan->connections; i++) open_link(&p, (uint32_t)i);
    return p;
}

/* Arrays have a line break after each comma too, so that the floor can split without parsing. */
static size_t write_body(struct publisher *p, int session, uint64_t first_ns, uint64_t step_ns) {
    size_t size = 0;
    if (p->plan.form == FORM_ARRAY) body[size++] = '[';
    for (int i = 0; i < p->plan.batch; i++) {
        if (i && p->plan.form == FORM_ARRAY) body[size++] = ',';
        if (i) body[size++] = '\n';
        size += workload_next(p->workload, session, first_ns + (uint64_t)i * step_ns, body + size);
    }
    if (p->plan.form == FORM_ARRAY) body[size++] = ']';
    if (p->plan.form == FORM_NDJSON) body[size++] = '\n';
    return size;
}

static struct link *idle_link(struct publisher *p) {
    for (int i = 0; i < p->plan.connections; i++)
        if (!p->links[i].events) return &p->links[i];
    fail("no idle connection to publish on");
}

void publisher_submit(struct publisher *p, int session, uint64_t first_ns, uint64_t step_ns) {
    struct link *link = idle_link(p);
    char head[HEAD_ROOM];
    request_head(head, sizeof head, p->plan.request, p->plan.prefix, session);
    size_t size = write_body(p, session, first_ns, step_ns);
    size = p->wire->request(request, request_room, head, body, size);
    link->events = p->plan.batch;
    link->sent_ns = now_ns();
    p->idle--;
    p->submitted += (uint64_t)link->events;
    p->requests++;
    if (net_send(link->fd, request, size)) fail("the server closed a publisher's connection");
}

static void answered(struct publisher *p, struct link *link, size_t size, int ok) {
    if (!ok && p->refused < REFUSALS_SHOWN)
        fprintf(stderr, "load: refused: %.*s\n", (int)(size < 400 ? size : 400), link->answer);
    if (!ok) p->refused += (uint64_t)link->events;
    if (ok) p->acked += (uint64_t)link->events;
    histogram_add(&p->answer, now_ns() - link->sent_ns);
    memmove(link->answer, link->answer + size, link->size - size);
    link->size -= size;
    link->events = 0;
    p->idle++;
}

void publisher_read(struct publisher *p, uint32_t index) {
    struct link *link = &p->links[index];
    ssize_t size = recv(link->fd, link->answer + link->size, ANSWER_ROOM - link->size, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        if (link->events) fail("the server closed a connection before it answered");
        close(link->fd);
        open_link(p, index);
        return;
    }
    link->size += (size_t)size;
    int ok = 0;
    size_t taken = p->wire->answer(link->answer, link->size, &ok);
    if (taken && link->events) answered(p, link, taken, ok);
    if (!taken && link->size == ANSWER_ROOM) fail("an answer is too large");
}
