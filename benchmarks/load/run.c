#include "run.h"

#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "source.h"

#define EVENTS_A_TURN 128
#define OPEN_TIMEOUT_S 60

static void raise_descriptor_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

struct run run_new(const struct options *options) {
    struct run r = {.options = *options, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    raise_descriptor_limit();
    r.fan = options->viewers.count / options->viewers.sessions;
    r.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    source_add(r.epoll, r.timer, SOURCE_TIMER, 0);
    struct workload *workload =
        workload_read(options->workload, (uint32_t)options->nonce, options->viewers.sessions);
    r.viewers = viewers_new(&options->viewers, r.epoll);
    r.publisher = publisher_new(&options->publisher, workload, r.epoll);
    return r;
}

void run_publish(struct run *r, bool on) {
    r->publishing = on;
    r->pace_ns = now_ns();
    r->scheduled = 0;
}

static void submit(struct run *r, uint64_t first_ns, uint64_t step_ns) {
    publisher_submit(&r->publisher, r->next_session, first_ns, step_ns);
    r->next_session = (r->next_session + 1) % r->options.publisher.sessions;
}

static void wake_at(struct run *r, uint64_t at_ns) {
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / NS_PER_S),
                                           .tv_nsec = (long)(at_ns % NS_PER_S)}};
    timerfd_settime(r->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* A request is due when its last event is. Latency counts from the time an event was due, so a
 * server that makes the publisher wait pays for it. */
static void publish_at_rate(struct run *r) {
    double step_ns = 1e9 / r->options.rate;
    uint64_t batch = (uint64_t)r->options.publisher.batch;
    for (;;) {
        uint64_t first_ns = r->pace_ns + (uint64_t)((double)r->scheduled * step_ns);
        uint64_t due_ns = first_ns + (uint64_t)((double)(batch - 1) * step_ns), now = now_ns();
        if (due_ns > now) {
            wake_at(r, due_ns);
            return;
        }
        if (!r->publisher.idle) return;
        histogram_add(&r->lag, now - due_ns);
        submit(r, first_ns, (uint64_t)step_ns);
        r->scheduled += batch;
    }
}

static bool window_is_open(const struct run *r) {
    uint64_t wanted = run_expected(r) + (uint64_t)(r->options.publisher.batch * r->fan);
    return wanted <= r->viewers.delivered + (uint64_t)(r->options.window * r->fan);
}

static void publish(struct run *r) {
    if (r->options.rate > 0) {
        publish_at_rate(r);
        return;
    }
    while (r->publisher.idle && (!r->options.window || window_is_open(r))) submit(r, now_ns(), 0);
}

void run_turn(struct run *r, int wait_ms) {
    struct epoll_event events[EVENTS_A_TURN];
    int count = epoll_wait(r->epoll, events, EVENTS_A_TURN, wait_ms);
    for (int i = 0; i < count; i++) {
        uint32_t index = (uint32_t)events[i].data.u64;
        switch ((enum source)(events[i].data.u64 >> 32)) {
            case SOURCE_VIEWER: viewers_read(&r->viewers, index); break;
            case SOURCE_LINK: publisher_read(&r->publisher, index); break;
            case SOURCE_TIMER: {
                uint64_t expirations;
                if (read(r->timer, &expirations, sizeof expirations) < 0) break;
            }
        }
    }
    if (r->publishing) publish(r);
}

void run_for(struct run *r, double seconds) {
    uint64_t end = now_ns() + seconds_ns(seconds);
    for (uint64_t now; (now = now_ns()) < end;) {
        uint64_t left_ms = (end - now) / 1000000 + 1;
        run_turn(r, left_ms < 50 ? (int)left_ms : 50);
    }
}

void run_open(struct run *r, int count) {
    uint64_t end = now_ns() + seconds_ns(OPEN_TIMEOUT_S);
    while (r->viewers.ready < count) {
        viewers_open(&r->viewers, count);
        run_turn(r, 50);
        if (now_ns() > end) fail("%d of %d viewers were ready in time", r->viewers.ready, count);
    }
}

uint64_t run_expected(const struct run *r) {
    return (r->publisher.submitted - r->publisher.refused) * (uint64_t)r->fan;
}
