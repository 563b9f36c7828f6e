/* Ends the run with one line on stderr: a benchmark that cannot measure must not print figures. */
#ifndef FAIL_H
#define FAIL_H

#include <stdio.h>
#include <stdlib.h>

#define fail(...)                     \
    do {                              \
        fprintf(stderr, "load: ");    \
        fprintf(stderr, __VA_ARGS__); \
        fprintf(stderr, "\n");        \
        exit(1);                      \
    } while (0)

static inline void *take(void *memory) {
    if (!memory) fail("out of memory");
    return memory;
}

#endif
