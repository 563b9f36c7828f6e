/* Load generator: N viewers and a publisher against one server, on one thread.
 *
 * Live: opens the viewers, measures what an idle one costs in memory, publishes in a closed loop
 * (`--window`) or an open one (`--rate`), and measures deliveries, the server's CPU time and the
 * time from when an event was due to its arrival. Replay: publishes first, then times how long all
 * viewers take to get everything. Prints one JSON object. Figures are of the measured window but
 * for `expected`, `delivered_all` and `missing`, which count the whole run, drained to its end. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "run.h"

struct snapshot {
    uint64_t at_ns, delivered, acked, requests, bytes, own_ns;
    uint64_t cpu_ns[WATCH_NAMES];
};

static struct snapshot snap(const struct run *r) {
    struct snapshot s = {
        .delivered = r->viewers.delivered,
        .bytes = r->viewers.bytes,
        .acked = r->publisher.acked,
        .requests = r->publisher.requests,
        .own_ns = own_cpu_ns(),
        .at_ns = now_ns(),
    };
    for (int i = 0; i < r->options.watch.count; i++)
        s.cpu_ns[i] = watch_cpu_ns(&r->options.watch.all[i]);
    return s;
}

static void announce(const struct run *r) {
    if (r->options.announce && write(r->options.announce, "m", 1) != 1)
        fail("nobody hears that measuring begins");
}

static double seconds(uint64_t from, uint64_t to) { return (double)(to - from) / 1e9; }

static void print_cpu(const struct run *r, const struct snapshot *a, const struct snapshot *b) {
    printf("\"cpu_s\":{");
    for (int i = 0; i < r->options.watch.count; i++)
        printf("\"%s\":%.6f,", r->options.watch.all[i].name, seconds(a->cpu_ns[i], b->cpu_ns[i]));
    printf("\"generator\":%.6f}", seconds(a->own_ns, b->own_ns));
}

static void print_histogram(const char *name, const struct histogram *h) {
    printf("\"%s\":{\"samples\":%llu,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}", name,
           (unsigned long long)h->total, histogram_ms(h, 0.5), histogram_ms(h, 0.99),
           (double)h->max_ns / 1e6);
}

static bool all_answered(const struct run *r) {
    return r->publisher.idle == r->options.publisher.connections;
}

/* Every session is born with one event, so that it can be watched; viewers come after it. */
static void give_birth(struct run *r) {
    struct publisher *p = &r->publisher;
    p->plan.batch = 1;
    for (int born = 0; born < p->plan.sessions || !all_answered(r); run_turn(r, 50))
        for (; born < p->plan.sessions && p->idle; born++) publisher_submit(p, born, now_ns(), 0);
    if (p->refused) fail("a session could not be made");
    p->plan.batch = r->options.publisher.batch;
    p->submitted = p->acked = p->requests = 0;
}

static void open_and_weigh(struct run *r) {
    const struct options *o = &r->options;
    uint64_t before[WATCH_NAMES];
    run_open(r, o->baseline);
    run_for(r, o->settle_s);
    for (int i = 0; i < o->watch.count; i++) before[i] = watch_memory(&o->watch.all[i]);
    uint64_t start = now_ns();
    run_open(r, o->viewers.count);
    double open_s = seconds(start, now_ns());
    run_for(r, o->settle_s);
    int more = o->viewers.count - o->baseline;
    printf("\"viewers\":%d,\"opens_per_s\":%.1f,\"memory\":{", o->viewers.count,
           open_s > 0 ? more / open_s : 0);
    for (int i = 0; i < o->watch.count; i++) {
        double after = (double)watch_memory(&o->watch.all[i]);
        printf("%s\"%s\":%.0f", i ? "," : "", o->watch.all[i].name,
               more ? (after - (double)before[i]) / more : 0);
    }
    printf("}");
}

static void drain(struct run *r) {
    uint64_t end = now_ns() + seconds_ns(r->options.drain_s);
    while (now_ns() < end) {
        if (all_answered(r) && r->viewers.delivered >= run_expected(r)) return;
        run_turn(r, 10);
    }
}

static void measure_live(struct run *r) {
    run_publish(r, true);
    run_for(r, r->options.warm_s);
    histogram_clear(&r->viewers.latency);
    histogram_clear(&r->publisher.answer);
    histogram_clear(&r->lag);
    announce(r);
    struct snapshot a = snap(r);
    run_for(r, r->options.measure_s);
    struct snapshot b = snap(r);
    struct histogram latency = r->viewers.latency, answer = r->publisher.answer;
    run_publish(r, false);
    drain(r);
    printf(",\"seconds\":%.4f,\"delivered\":%llu,\"published\":%llu,\"requests\":%llu,"
           "\"bytes\":%llu,",
           seconds(a.at_ns, b.at_ns), (unsigned long long)(b.delivered - a.delivered),
           (unsigned long long)(b.acked - a.acked), (unsigned long long)(b.requests - a.requests),
           (unsigned long long)(b.bytes - a.bytes));
    print_histogram("latency_ms", &latency);
    printf(",");
    print_histogram("answer_ms", &answer);
    printf(",");
    print_histogram("lag_ms", &r->lag);
    printf(",");
    print_cpu(r, &a, &b);
}

static void preload(struct run *r) {
    struct publisher *p = &r->publisher;
    for (uint64_t wanted = (uint64_t)r->options.preload; p->submitted < wanted || !all_answered(r);
         run_turn(r, 50))
        while (p->idle && p->submitted < wanted) publisher_submit(p, 0, now_ns(), 0);
    if (p->acked != p->submitted) fail("not all events to replay were stored");
}

static void measure_replay(struct run *r) {
    uint64_t all = 0;
    preload(r);
    uint64_t each = r->publisher.acked * (uint64_t)r->options.viewers.count;
    announce(r);
    struct snapshot a = snap(r);
    printf("\"viewers\":%d,\"wall_ms\":[", r->options.viewers.count);
    for (int i = 0; i < r->options.rounds; i++) {
        uint64_t start = now_ns(), end = start + seconds_ns(r->options.drain_s);
        uint64_t before = r->viewers.delivered;
        viewers_open(&r->viewers, r->options.viewers.count);
        while (r->viewers.delivered - before < each && now_ns() < end) run_turn(r, 50);
        printf("%s%.3f", i ? "," : "", seconds(start, now_ns()) * 1e3);
        viewers_close(&r->viewers);
        all += each;
    }
    struct snapshot b = snap(r);
    printf("],\"delivered\":%llu,\"bytes\":%llu,", (unsigned long long)(b.delivered - a.delivered),
           (unsigned long long)(b.bytes - a.bytes));
    print_cpu(r, &a, &b);
    printf(",\"expected\":%llu", (unsigned long long)all);
}

int main(int count, char **words) {
    struct options options = options_read(count, words);
    struct run r = run_new(&options);
    signal(SIGPIPE, SIG_IGN);
    printf("{");
    if (options.rounds) {
        measure_replay(&r);
    } else {
        give_birth(&r);
        open_and_weigh(&r);
        if (options.measure_s > 0) measure_live(&r);
        printf(",\"expected\":%llu", (unsigned long long)run_expected(&r));
    }
    printf(",\"delivered_all\":%llu,\"refused\":%llu,\"closed\":%d}\n",
           (unsigned long long)r.viewers.delivered, (unsigned long long)r.publisher.refused,
           r.viewers.closed);
    return 0;
}
