/* What a client needs of RFC 6455: text messages out, and the payloads of what comes in. */
#ifndef WEBSOCKET_H
#define WEBSOCKET_H

#include <stddef.h>
#include <stdint.h>

/* Where a reader stands in the frames of one connection. */
struct ws_reader {
    unsigned char head[10];
    int head_size;
    uint64_t left; /* of the payload of the frame that is being read */
};

/* Take the next piece of payload off `*bytes` and give its size, 0 when all is used up; the piece
 * ends where `*bytes` then begins. A length may look like a mark, so heads are never searched. */
size_t ws_payload(struct ws_reader *reader, const char **bytes, const char *end);

/* Write one text message to `out`, which has 14 bytes more room than `size`; returns its size. */
size_t ws_text(char *out, const char *text, size_t size);

#endif
