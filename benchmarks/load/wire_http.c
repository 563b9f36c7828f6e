#include <string.h>
#include <strings.h>

#include "fail.h"
#include "wire.h"

static size_t write_request(char *out, size_t room, const char *head, const char *body,
                            size_t size) {
    int used = snprintf(out, room, "%sContent-Length: %zu\r\n\r\n", head, size);
    if (used < 0 || (size_t)used + size > room) fail("a request is too large");
    memcpy(out + used, body, size);
    return (size_t)used + size;
}

/* Value of a header, or NULL; names are compared without case. */
static const char *header(const char *head, size_t size, const char *name) {
    size_t length = strlen(name);
    for (const char *line = head; (line = memmem(line, size - (size_t)(line - head), "\r\n", 2));) {
        line += 2;
        if ((size_t)(line - head) + length >= size) return NULL;
        if (!strncasecmp(line, name, length) && line[length] == ':') return line + length + 1;
    }
    return NULL;
}

static size_t read_answer(const char *bytes, size_t size, int *ok) {
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end + 4 - bytes), total = head;
    const char *length = header(bytes, head, "content-length");
    *ok = size > 9 && bytes[9] == '2';
    if (length) {
        total = head + strtoul(length, NULL, 10);
    } else if (header(bytes, head, "transfer-encoding")) {
        const char *last = memmem(bytes + head, size - head, "\r\n0\r\n\r\n", 7);
        if (!last) return 0;
        total = (size_t)(last + 7 - bytes);
    }
    return size >= total ? total : 0;
}

const struct wire wire_http = {.request = write_request, .answer = read_answer};
