/* CPU time and memory of the processes under measurement, by name (`hub`, `redis`). */
#ifndef WATCH_H
#define WATCH_H

#include <stdint.h>

#define WATCH_NAMES 4
#define WATCH_PIDS 32

struct watched {
    const char *name;
    int pids[WATCH_PIDS];
    int count;
};

struct watch {
    struct watched all[WATCH_NAMES];
    int count;
};

/* Add `name:pid,pid,…`; the text must outlive the watch. */
void watch_add(struct watch *w, char *text);

/* User and system time on a CPU in nanoseconds, of all threads of all processes of that name. */
uint64_t watch_cpu_ns(const struct watched *w);

/* Memory in bytes: the proportional set size, so that pages shared by workers count once. */
uint64_t watch_memory(const struct watched *w);

/* The same time of the generator itself. */
uint64_t own_cpu_ns(void);

#endif
