/* The head of an HTTP request: a text whose {session} becomes the name of a session. */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdio.h>
#include <string.h>

#include "fail.h"

/* Write `text` and a line end; returns the size. The blank line that ends a head is not written. */
static inline size_t request_head(char *out, size_t room, const char *text, const char *prefix,
                                  int session) {
    static const char hole[] = "{session}";
    const char *at = strstr(text, hole);
    int size = at ? snprintf(out, room, "%.*s%s%d%s\r\n", (int)(at - text), text, prefix, session,
                             at + sizeof hole - 1)
                  : snprintf(out, room, "%s\r\n", text);
    if (size < 0 || (size_t)size + 128 > room) fail("a request head is too long");
    return (size_t)size;
}

#endif
