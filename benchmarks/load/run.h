/* The parts of a run and the loop that moves them. */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>

#include "options.h"
#include "publisher.h"
#include "viewers.h"

struct run {
    struct options options;
    struct viewers viewers;
    struct publisher publisher;
    int epoll, timer;
    bool publishing;
    int fan;             /* viewers of each session */
    int next_session;
    uint64_t pace_ns;    /* open loop: when event 0 was due */
    uint64_t scheduled;  /* open loop: events given to a request so far */
    struct histogram lag;/* open loop: how late requests were sent */
};

struct run run_new(const struct options *options);

/* Begin or end publishing at the pace of the options. */
void run_publish(struct run *r, bool on);

/* Wait for something to happen, at most `wait_ms`, and handle it. */
void run_turn(struct run *r, int wait_ms);

/* Turn until `seconds` have passed. */
void run_for(struct run *r, double seconds);

/* Open viewers until `count` are ready. */
void run_open(struct run *r, int count);

/* Events accepted and not yet at all their viewers, times viewers. */
uint64_t run_expected(const struct run *r);

#endif
