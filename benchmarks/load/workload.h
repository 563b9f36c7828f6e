/* The events to publish: templates made by benchmarks/workload.py, one JSON event a line, used in
 * turn by each session. Holes of fixed width are filled in place, so that an event costs a memcpy:
 *
 *   00000000-0000-4000-8000-000000000000   the event's id, unique over all runs
 *   `0000000000000000                      the mark: a backquote and its time, 16 hex digits
 *   @@@@@@@@                               the round of this session, for ids of messages and tools
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#define MARK '`'
#define MARK_DIGITS 16

struct workload;

/* Read the templates of a file; `nonce` (32 bits) keeps the ids of two runs apart. */
struct workload *workload_read(const char *path, uint32_t nonce, int sessions);

/* Size of the largest event. */
size_t workload_largest(const struct workload *w);

/* Write the next event of a session, marked with `time_ns`; returns its size. */
size_t workload_next(struct workload *w, int session, uint64_t time_ns, char *out);

#endif
