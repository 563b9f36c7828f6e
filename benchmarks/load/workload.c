#include "workload.h"

#include <stdio.h>
#include <string.h>

#include "fail.h"

#define ROUND_HOLE "@@@@@@@@"
#define ROUND_HOLES 8

static const char ID_HOLE[] = "00000000-0000-4000-8000-000000000000";

struct template {
    char *text;
    size_t size;
    size_t id, mark;
    size_t rounds[ROUND_HOLES];
    int round_count;
};

struct workload {
    struct template *templates;
    size_t count, largest;
    uint32_t nonce;
    uint64_t made;       /* events of all sessions: the last 48 bits of an id */
    uint64_t *positions; /* events so far, by session */
};

static void put_hex(char *out, uint64_t value, int digits) {
    for (int i = digits - 1; i >= 0; i--, value >>= 4) out[i] = "0123456789abcdef"[value & 15];
}

static void find_holes(struct template *t, size_t line) {
    const char *id = strstr(t->text, ID_HOLE), *mark = strchr(t->text, MARK);
    if (!id || !mark) fail("workload line %zu has no hole for an id or a mark", line);
    t->id = (size_t)(id - t->text);
    t->mark = (size_t)(mark - t->text);
    for (const char *p = t->text; (p = strstr(p, ROUND_HOLE)); p += sizeof ROUND_HOLE - 1) {
        if (t->round_count == ROUND_HOLES) fail("workload line %zu has too many rounds", line);
        t->rounds[t->round_count++] = (size_t)(p - t->text);
    }
}

struct workload *workload_read(const char *path, uint32_t nonce, int sessions) {
    struct workload *w = take(calloc(1, sizeof *w));
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    if (!file) fail("cannot read the workload %s", path);
    while ((size = getline(&line, &room, file)) > 0) {
        if (line[size - 1] == '\n') line[--size] = 0;
        if (!size) continue;
        w->templates = take(realloc(w->templates, (w->count + 1) * sizeof *w->templates));
        struct template *t = &w->templates[w->count++];
        *t = (struct template){.text = take(strdup(line)), .size = (size_t)size};
        find_holes(t, w->count);
        if (t->size > w->largest) w->largest = t->size;
    }
    if (!w->count) fail("the workload %s is empty", path);
    free(line);
    fclose(file);
    w->nonce = nonce;
    w->positions = take(calloc((size_t)sessions, sizeof *w->positions));
    return w;
}

size_t workload_largest(const struct workload *w) { return w->largest; }

size_t workload_next(struct workload *w, int session, uint64_t time_ns, char *out) {
    uint64_t position = w->positions[session]++;
    const struct template *t = &w->templates[position % w->count];
    memcpy(out, t->text, t->size);
    put_hex(out + t->id, w->nonce, 8);
    put_hex(out + t->id + 24, ++w->made, 12);
    put_hex(out + t->mark + 1, time_ns, MARK_DIGITS);
    for (int i = 0; i < t->round_count; i++) put_hex(out + t->rounds[i], position / w->count, 8);
    return t->size;
}
