#include "websocket.h"

#include <string.h>

#define FINAL_TEXT 0x81
#define MASKED 0x80
#define TWO_BYTES 126
#define EIGHT_BYTES 127

static int length_bytes(unsigned char second) {
    int length = second & 0x7f;
    return length == TWO_BYTES ? 2 : length == EIGHT_BYTES ? 8 : 0;
}

static uint64_t big_endian(const unsigned char *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

static void read_head(struct ws_reader *reader, unsigned char byte) {
    reader->head[reader->head_size++] = byte;
    if (reader->head_size < 2) return;
    int more = length_bytes(reader->head[1]);
    if (reader->head_size < 2 + more) return;
    reader->left = more ? big_endian(reader->head + 2, more) : reader->head[1] & 0x7f;
    reader->head_size = 0;
}

size_t ws_payload(struct ws_reader *reader, const char **bytes, const char *end) {
    while (!reader->left && *bytes < end) read_head(reader, (unsigned char)*(*bytes)++);
    size_t here = (size_t)(end - *bytes);
    size_t size = reader->left < here ? (size_t)reader->left : here;
    reader->left -= size;
    *bytes += size;
    return size;
}

/* The mask is all zeros, which a server takes off like any other. */
size_t ws_text(char *out, const char *text, size_t size) {
    size_t used = 0;
    out[used++] = (char)FINAL_TEXT;
    if (size < TWO_BYTES) {
        out[used++] = (char)(MASKED | size);
    } else {
        out[used++] = (char)(MASKED | TWO_BYTES);
        out[used++] = (char)(size >> 8);
        out[used++] = (char)size;
    }
    memset(out + used, 0, 4);
    memcpy(out + used + 4, text, size);
    return used + 4 + size;
}
