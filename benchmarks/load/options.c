#include "options.h"

#include <string.h>

#include "fail.h"

enum kind { INTEGER, REAL, TEXT, FLAG, FORM, WATCH };

struct option {
    const char *name;
    enum kind kind;
    void *value;
};

static enum form read_form(const char *text) {
    static const char *names[] = {"one", "array", "ndjson"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) return (enum form)i;
    fail("unknown form %s", text);
}

static void read_value(const struct option *option, char *text) {
    switch (option->kind) {
        case INTEGER: *(int *)option->value = atoi(text); break;
        case REAL: *(double *)option->value = atof(text); break;
        case TEXT: *(const char **)option->value = text; break;
        case FLAG: *(bool *)option->value = atoi(text) != 0; break;
        case FORM: *(enum form *)option->value = read_form(text); break;
        case WATCH: watch_add(option->value, text); break;
    }
}

static void read_all(const struct option *known, int count, char **words) {
    for (int i = 1; i < count; i += 2) {
        const struct option *option = known;
        while (option->name && strcmp(option->name, words[i])) option++;
        if (!option->name || i + 1 == count) fail("unknown option or no value: %s", words[i]);
        read_value(option, words[i + 1]);
    }
}

struct options options_read(int count, char **words) {
    struct options o = {.settle_s = 0.3, .warm_s = 1, .drain_s = 10};
    o.viewers.sessions = o.publisher.batch = o.publisher.connections = 1;
    o.viewers.status = 200;
    const struct option known[] = {
        {"--port", INTEGER, &o.viewers.port},
        {"--viewers", INTEGER, &o.viewers.count},
        {"--sessions", INTEGER, &o.viewers.sessions},
        {"--prefix", TEXT, &o.viewers.prefix},
        {"--viewer-request", TEXT, &o.viewers.request},
        {"--viewer-status", INTEGER, &o.viewers.status},
        {"--await-frame", FLAG, &o.viewers.await_frame},
        {"--hello", TEXT, &o.viewers.hello},
        {"--publish-request", TEXT, &o.publisher.request},
        {"--connections", INTEGER, &o.publisher.connections},
        {"--batch", INTEGER, &o.publisher.batch},
        {"--form", FORM, &o.publisher.form},
        {"--workload", TEXT, &o.workload},
        {"--nonce", INTEGER, &o.nonce},
        {"--baseline", INTEGER, &o.baseline},
        {"--window", INTEGER, &o.window},
        {"--rate", REAL, &o.rate},
        {"--settle", REAL, &o.settle_s},
        {"--warm", REAL, &o.warm_s},
        {"--measure", REAL, &o.measure_s},
        {"--drain", REAL, &o.drain_s},
        {"--preload", INTEGER, &o.preload},
        {"--rounds", INTEGER, &o.rounds},
        {"--announce", INTEGER, &o.announce},
        {"--watch", WATCH, &o.watch},
        {0},
    };
    read_all(known, count, words);
    if (!o.viewers.port || !o.viewers.request || !o.publisher.request || !o.workload)
        fail("--port, --viewer-request, --publish-request and --workload are needed");
    if (o.viewers.count % o.viewers.sessions) fail("viewers must spread evenly over sessions");
    if (o.publisher.form == FORM_ONE && o.publisher.batch != 1) fail("a batch needs a form");
    o.publisher.port = o.viewers.port;
    o.publisher.sessions = o.viewers.sessions;
    o.publisher.prefix = o.viewers.prefix;
    return o;
}
