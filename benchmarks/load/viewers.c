#include "viewers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "net.h"
#include "request.h"
#include "source.h"
#include "websocket.h"
#include "workload.h"

#define OPENING_AT_ONCE 64
#define HEAD_ROOM 4096
#define READ_ROOM (256 * 1024)

enum state { CLOSED, AWAIT_HEAD, AWAIT_FRAME, READY };

struct viewer {
    int fd;
    enum state state;
    int digits;     /* of a mark that the last read cut, still to come */
    uint64_t mark;
    char *head;     /* only until it is complete */
    size_t head_size;
    struct ws_reader frames;
};

static char buffer[READ_ROOM];

struct viewers viewers_new(const struct viewer_plan *plan, int epoll) {
    struct viewers v = {.plan = *plan, .epoll = epoll};
    v.all = take(calloc((size_t)plan->count + 1, sizeof *v.all));
    return v;
}

static void open_one(struct viewers *v, int index) {
    struct viewer *viewer = &v->all[index];
    char request[HEAD_ROOM];
    size_t size = request_head(request, sizeof request, v->plan.request, v->plan.prefix,
                               index % v->plan.sessions);
    memcpy(request + size, "\r\n", 2);
    *viewer = (struct viewer){.fd = net_connect(v->plan.port), .state = AWAIT_HEAD};
    viewer->head = take(malloc(HEAD_ROOM));
    if (net_send(viewer->fd, request, size + 2)) fail("the server closed a viewer's connection");
    source_add(v->epoll, viewer->fd, SOURCE_VIEWER, (uint32_t)index);
}

void viewers_open(struct viewers *v, int limit) {
    while (v->opened < limit && v->opened - v->ready < OPENING_AT_ONCE) open_one(v, v->opened++);
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Marks are counted and timed once all their digits are here. One clock reading a read: what one
 * recv brought arrived together. */
static void scan(struct viewers *v, struct viewer *viewer, const char *bytes, size_t size) {
    const char *end = bytes + size;
    uint64_t now = 0;
    while (bytes < end) {
        if (!viewer->digits) {
            bytes = memchr(bytes, MARK, (size_t)(end - bytes));
            if (!bytes) return;
            bytes++;
            viewer->digits = MARK_DIGITS;
            viewer->mark = 0;
        }
        for (; viewer->digits && bytes < end; viewer->digits--, bytes++) {
            int digit = hex_value(*bytes);
            if (digit < 0) fail("a mark was changed on its way");
            viewer->mark = viewer->mark << 4 | (uint64_t)digit;
        }
        if (viewer->digits) return;
        v->delivered++;
        if (!now) now = now_ns();
        histogram_add(&v->latency, now > viewer->mark ? now - viewer->mark : 0);
    }
}

static void take_body(struct viewers *v, struct viewer *viewer, const char *bytes, size_t size) {
    const char *end = bytes + size;
    v->bytes += size;
    if (!v->plan.hello) {
        scan(v, viewer, bytes, size);
        return;
    }
    for (size_t piece; (piece = ws_payload(&viewer->frames, &bytes, end));)
        scan(v, viewer, bytes - piece, piece);
}

/* Each line of the hello is a message of its own; an empty one says nothing. */
static void greet(const struct viewers *v, const struct viewer *viewer, int session) {
    char text[HEAD_ROOM], frame[HEAD_ROOM + 14];
    for (const char *line = v->plan.hello; *line;) {
        size_t length = strcspn(line, "\n");
        snprintf(text, sizeof text, "%.*s", (int)length, line);
        size_t size = request_head(frame, HEAD_ROOM, text, v->plan.prefix, session) - 2;
        memcpy(text, frame, size);
        if (size && net_send(viewer->fd, frame, ws_text(frame, text, size)))
            fail("the server closed a viewer's connection");
        line += length + (line[length] == '\n');
    }
}

static void set_ready(struct viewers *v, struct viewer *viewer) {
    viewer->state = READY;
    v->ready++;
}

static void read_head(struct viewers *v, uint32_t index, const char *bytes, size_t size) {
    struct viewer *viewer = &v->all[index];
    size_t room = HEAD_ROOM - 1 - viewer->head_size, taken = size < room ? size : room;
    memcpy(viewer->head + viewer->head_size, bytes, taken);
    viewer->head_size += taken;
    viewer->head[viewer->head_size] = 0;
    char *end = strstr(viewer->head, "\r\n\r\n");
    if (!end && viewer->head_size == HEAD_ROOM - 1) fail("a viewer's response has an endless head");
    if (!end) return;
    int status = 0;
    if (sscanf(viewer->head, "HTTP/1.1 %d", &status) != 1 || status != v->plan.status)
        fail("a viewer was refused: %.300s", viewer->head);
    size_t before = viewer->head_size - taken;
    size_t used = (size_t)(end + 4 - viewer->head) - before;
    free(viewer->head);
    viewer->head = NULL;
    viewer->state = AWAIT_FRAME;
    if (v->plan.hello) greet(v, viewer, (int)index % v->plan.sessions);
    if (!v->plan.await_frame || size > used) set_ready(v, viewer);
    take_body(v, viewer, bytes + used, size - used);
}

void viewers_read(struct viewers *v, uint32_t index) {
    struct viewer *viewer = &v->all[index];
    ssize_t size = recv(viewer->fd, buffer, sizeof buffer, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        if (viewer->state != READY) fail("the server closed a viewer before its first frame");
        close(viewer->fd);
        viewer->state = CLOSED;
        v->closed++;
        return;
    }
    if (viewer->state == AWAIT_HEAD) {
        read_head(v, index, buffer, (size_t)size);
        return;
    }
    if (viewer->state == AWAIT_FRAME) set_ready(v, viewer);
    take_body(v, viewer, buffer, (size_t)size);
}

void viewers_close(struct viewers *v) {
    for (int i = 0; i < v->opened; i++) {
        if (v->all[i].state != CLOSED) close(v->all[i].fd);
        free(v->all[i].head);
        v->all[i] = (struct viewer){0};
    }
    v->opened = v->ready = 0;
}
