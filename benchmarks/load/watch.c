#include "watch.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "fail.h"

void watch_add(struct watch *w, char *text) {
    char *pids = strchr(text, ':');
    if (!pids || w->count == WATCH_NAMES) fail("cannot watch %s", text);
    *pids++ = 0;
    struct watched *watched = &w->all[w->count++];
    *watched = (struct watched){.name = text};
    for (char *pid = strtok(pids, ","); pid; pid = strtok(NULL, ",")) {
        if (watched->count == WATCH_PIDS) fail("too many processes to watch");
        watched->pids[watched->count++] = atoi(pid);
    }
}

static uint64_t read_number(const char *path, const char *format) {
    unsigned long long number = 0;
    char line[256];
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file) && sscanf(line, format, &number) != 1) {
    }
    fclose(file);
    return number;
}

/* schedstat counts nanoseconds, where stat counts ticks of 10 ms. */
static uint64_t process_cpu_ns(int pid) {
    char path[300];
    uint64_t total = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    if (!threads) fail("process %d is gone", pid);
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, entry->d_name);
        total += read_number(path, "%llu");
    }
    closedir(threads);
    return total;
}

uint64_t watch_cpu_ns(const struct watched *w) {
    uint64_t total = 0;
    for (int i = 0; i < w->count; i++) total += process_cpu_ns(w->pids[i]);
    return total;
}

uint64_t watch_memory(const struct watched *w) {
    uint64_t kilobytes = 0;
    for (int i = 0; i < w->count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/smaps_rollup", w->pids[i]);
        kilobytes += read_number(path, "Pss: %llu");
    }
    return kilobytes * 1024;
}

uint64_t own_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}
