/* Durations in logarithmic buckets of about 3 %: 32 a power of two, from 1 microsecond up. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>
#include <string.h>

#define HISTOGRAM_BUCKETS 1024

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
    uint64_t max_ns;
};

static inline void histogram_clear(struct histogram *h) { memset(h, 0, sizeof *h); }

static inline void histogram_add(struct histogram *h, uint64_t ns) {
    uint64_t us = ns / 1000;
    unsigned bucket = (unsigned)us;
    if (us >= 32) {
        unsigned power = 63u - (unsigned)__builtin_clzll(us);
        bucket = (power - 4) * 32 + (unsigned)((us >> (power - 5)) & 31);
    }
    h->counts[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1]++;
    h->total++;
    if (ns > h->max_ns) h->max_ns = ns;
}

/* Milliseconds below which `share` (0..1) of the samples lie; -1 without samples. */
static inline double histogram_ms(const struct histogram *h, double share) {
    uint64_t wanted = (uint64_t)((double)h->total * share), seen = 0;
    for (unsigned b = 0; h->total && b < HISTOGRAM_BUCKETS; b++) {
        seen += h->counts[b];
        if (seen <= wanted && seen < h->total) continue;
        if (b < 32) return b / 1e3;
        uint64_t base = 1ull << (b / 32 + 4);
        return (double)(base + (base >> 5) * (b % 32)) / 1e3;
    }
    return -1;
}

#endif
