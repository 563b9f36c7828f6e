/* The command line of the generator; benchmarks/load.py is its only caller. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "publisher.h"
#include "viewers.h"
#include "watch.h"

struct options {
    struct viewer_plan viewers;
    struct publisher_plan publisher;
    struct watch watch;
    const char *workload;
    int nonce;
    int baseline; /* memory per viewer is the growth from this many viewers to all of them */
    int window;   /* events outstanding in a closed loop; 0: see rate */
    double rate;  /* events a second in an open loop; 0: as fast as the connections answer */
    double settle_s, warm_s, measure_s, drain_s;
    int preload;  /* events to publish before anybody watches */
    int rounds;   /* > 0: measure that many replays of the preloaded events, nothing live */
    int announce; /* descriptor that gets one byte when measuring begins; 0: none */
};

struct options options_read(int count, char **words);

#endif
