/* Monotonic time in nanoseconds: the one clock of the generator, and the time inside the marks. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000ull

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t seconds_ns(double seconds) { return (uint64_t)(seconds * 1e9); }

#endif
