/* What an epoll event is about: the kind in the upper half of the datum, the index in the lower. */
#ifndef SOURCE_H
#define SOURCE_H

#include <stdint.h>
#include <sys/epoll.h>

#include "fail.h"

enum source { SOURCE_VIEWER, SOURCE_LINK, SOURCE_TIMER };

static inline void source_add(int epoll, int fd, enum source kind, uint32_t index) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | index};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll refuses a descriptor");
}

#endif
