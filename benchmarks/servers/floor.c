/* The floor: the least that a fan-out over loopback TCP costs, one send() a delivery.
 *
 * One thread on epoll, the same paths and the same bytes on the wire as the hub, and nothing else:
 * no access control, no numbers, no validation, no storage but the joined frames that a replay
 * sends again. A viewer that does not read makes everybody wait.
 *
 *   POST /v1/sessions/<name>/events   one event, an array or NDJSON, one event a line
 *   GET  /v1/sessions/<name>/sse      ?from=now: live only; else what was published, then live
 *   GET  /v1/sessions/<name>/ws       live only, as the text messages of a WebSocket
 *   GET  /livez
 *
 * Usage: floor PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_ROOM (1 << 20)
#define KEEP_BYTES (64u << 20) /* frames kept for replays, of all sessions together */
#define SESSION_SLOTS 65536
#define NAME_ROOM 129
#define MAX_DESCRIPTORS 65536

struct bytes {
    char *at;
    size_t size, room;
};

struct session {
    char name[NAME_ROOM];
    int *viewers;
    int count, room;
    bool websockets; /* some viewer speaks it */
    struct bytes kept;
};

/* A request that has not arrived whole, or the session a viewer watches. */
struct connection {
    struct bytes pending;
    struct session *watches;
    bool websocket;
};

static struct session *sessions[SESSION_SLOTS];
static struct connection *connections[MAX_DESCRIPTORS];
static char input[READ_ROOM];
static struct bytes frame, message;
static size_t kept_bytes;

static void append(struct bytes *b, const char *bytes, size_t size) {
    if (b->size + size > b->room) {
        b->room = (b->size + size) * 2;
        if (!(b->at = realloc(b->at, b->room))) exit(1);
    }
    memcpy(b->at + b->size, bytes, size);
    b->size += size;
}

static void send_all(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes += sent;
            size -= (size_t)sent;
        } else if (sent < 0 && errno == EAGAIN) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else {
            return; /* gone: the read side will say so */
        }
    }
}

static struct session *session_of(const char *name, size_t size) {
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    for (unsigned slot = hash % SESSION_SLOTS;; slot = (slot + 1) % SESSION_SLOTS) {
        if (!sessions[slot]) {
            if (!(sessions[slot] = calloc(1, sizeof **sessions))) exit(1);
            memcpy(sessions[slot]->name, name, size);
        }
        if (!strncmp(sessions[slot]->name, name, size) && !sessions[slot]->name[size])
            return sessions[slot];
    }
}

/* An event in a message of the hub's size, or nothing where nobody listens that way. */
static void make_message(const char *event, size_t size) {
    static const char head[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"session.event\",\"params\":{\"session_id\":"
        "\"bench-00000000-0\",\"cursor\":\"abcdefgh.10000.100000.abcde\",\"event\":";
    size_t payload = sizeof head - 1 + size + 2;
    unsigned char start[] = {0x81, 127, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < 8; i++) start[2 + i] = (unsigned char)((uint64_t)payload >> (56 - 8 * i));
    message.size = 0;
    append(&message, (const char *)start, sizeof start);
    append(&message, head, sizeof head - 1);
    append(&message, event, size);
    append(&message, "}}", 2);
}

/* An event in a frame of the hub's size, in a chunk of its own. */
static void deliver(struct session *s, const char *event, size_t size) {
    static const char head[] =
        "event: assistant.message_delta\nid: abcdefgh.10000.100000.abcde\ndata: ";
    char chunk[16];
    size_t payload = sizeof head - 1 + size + 2;
    frame.size = 0;
    append(&frame, chunk, (size_t)snprintf(chunk, sizeof chunk, "%zx\r\n", payload));
    append(&frame, head, sizeof head - 1);
    append(&frame, event, size);
    append(&frame, "\n\n\r\n", 4);
    if (s->websockets) make_message(event, size);
    for (int i = 0; i < s->count; i++) {
        const struct bytes *sent = connections[s->viewers[i]]->websocket ? &message : &frame;
        send_all(s->viewers[i], sent->at, sent->size);
    }
    if (kept_bytes + frame.size > KEEP_BYTES) return;
    append(&s->kept, frame.at, frame.size);
    kept_bytes += frame.size;
}

static void publish(int fd, struct session *s, const char *body, size_t size) {
    static const char answer[] = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    for (const char *end = body + size; body < end;) {
        const char *line_end = memchr(body, '\n', (size_t)(end - body));
        const char *last = line_end ? line_end : end;
        const char *first = *body == '[' ? body + 1 : body;
        const char *stop = last;
        if (stop > first && (stop[-1] == ',' || stop[-1] == ']')) stop--;
        if (stop > first) deliver(s, first, (size_t)(stop - first));
        body = last + 1;
    }
    send_all(fd, answer, sizeof answer - 1);
}

static void add_viewer(int fd, struct session *s) {
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 4;
        if (!(s->viewers = realloc(s->viewers, (size_t)s->room * sizeof(int)))) exit(1);
    }
    s->viewers[s->count++] = fd;
    connections[fd]->watches = s;
}

static void watch(int fd, struct session *s, bool live_only) {
    static const char answer[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        "transfer-encoding: chunked\r\n\r\n";
    send_all(fd, answer, sizeof answer - 1);
    if (!live_only) send_all(fd, s->kept.at, s->kept.size);
    add_viewer(fd, s);
}

/* The generator does not check the accept key; what it sends afterwards is never a whole head. */
static void watch_messages(int fd, struct session *s) {
    static const char answer[] =
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    send_all(fd, answer, sizeof answer - 1);
    connections[fd]->websocket = s->websockets = true;
    add_viewer(fd, s);
}

static void handle(int fd, const char *head, size_t head_size, const char *body, size_t size) {
    const char *line_end = memmem(head, head_size, "\r\n", 2);
    const char *name = memmem(head, (size_t)(line_end - head), "/sessions/", 10);
    if (!name) {
        send_all(fd, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 38);
        return;
    }
    name += 10;
    size_t length = strcspn(name, "/? ");
    struct session *s = session_of(name, length < NAME_ROOM ? length : NAME_ROOM - 1);
    if (*head == 'P')
        publish(fd, s, body, size);
    else if (!strncmp(name + length, "/ws", 3))
        watch_messages(fd, s);
    else
        watch(fd, s, memmem(head, (size_t)(line_end - head), "from=now", 8) != NULL);
}

/* Handle the whole requests in `bytes`; returns how much of it they were. */
static size_t handle_all(int fd, const char *bytes, size_t size) {
    size_t used = 0;
    for (;;) {
        const char *request = bytes + used, *end = memmem(request, size - used, "\r\n\r\n", 4);
        if (!end) return used;
        size_t head = (size_t)(end + 4 - request), body = 0;
        for (const char *line = request; line < end;) {
            if (!strncasecmp(line, "content-length:", 15)) body = strtoul(line + 15, NULL, 10);
            line = (const char *)memmem(line, (size_t)(end + 2 - line), "\r\n", 2) + 2;
        }
        if (size - used < head + body) return used;
        handle(fd, request, head, request + head, body);
        used += head + body;
    }
}

static void hang_up(int fd) {
    struct session *s = connections[fd]->watches;
    for (int i = 0; s && i < s->count; i++)
        if (s->viewers[i] == fd) s->viewers[i--] = s->viewers[--s->count];
    free(connections[fd]->pending.at);
    free(connections[fd]);
    connections[fd] = NULL;
    close(fd);
}

static void receive(int fd) {
    struct bytes *pending = &connections[fd]->pending;
    ssize_t size = recv(fd, input, sizeof input, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        hang_up(fd);
        return;
    }
    const char *bytes = input;
    size_t count = (size_t)size;
    if (pending->size) {
        append(pending, input, count);
        bytes = pending->at;
        count = pending->size;
    }
    size_t used = handle_all(fd, bytes, count), left = count - used;
    if (pending->size) {
        memmove(pending->at, pending->at + used, left);
        pending->size = left;
    } else if (left) {
        append(pending, bytes + used, left);
    }
}

static void accept_all(int listener, int epoll) {
    for (int fd, on = 1; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (fd >= MAX_DESCRIPTORS || !(connections[fd] = calloc(1, sizeof **connections))) exit(1);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096)) {
        fprintf(stderr, "floor: cannot listen on port %d: %s\n", port, strerror(errno));
        exit(1);
    }
    return fd;
}

int main(int count, char **words) {
    struct epoll_event event = {.events = EPOLLIN}, events[256];
    struct rlimit limit;
    if (count != 2) {
        fprintf(stderr, "usage: floor PORT\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int listener = listen_on(atoi(words[1])), epoll = epoll_create1(0);
    event.data.fd = listener;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                accept_all(listener, epoll);
            else
                receive(events[i].data.fd);
        }
    }
}
