// Time that this process has computed, which other load on the machine doesn't lengthen.
#pragma once

#include <doctest/doctest.h>
#include <time.h>

inline double processor_seconds() {
    ::timespec now{};
    REQUIRE(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
