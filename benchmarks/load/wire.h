/* How a publisher's request is written and its answer recognised. HTTP today; another protocol is
 * another `struct wire`. */
#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>

enum form { FORM_ONE, FORM_ARRAY, FORM_NDJSON };

struct wire {
    /* Write the request that carries `body` to `out`; returns its size. `head` is the text that
     * benchmarks/load.py gave, with the session already in its place. */
    size_t (*request)(char *out, size_t room, const char *head, const char *body, size_t size);

    /* Size of the first answer in `bytes`, 0 while it is not complete; `ok` tells what it says. */
    size_t (*answer)(const char *bytes, size_t size, int *ok);
};

extern const struct wire wire_http;

#endif
