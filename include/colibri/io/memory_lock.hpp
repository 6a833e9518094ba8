// Memory that the kernel may not swap out or drop.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "colibri/core/error.hpp"

namespace colibri {

/// Locks the pages of `bytes` into memory until they are unmapped; reads them in first if they are a file's.
/// Errors: out_of_memory, with the limit that stands in the way; io.
[[nodiscard]] inline result<void> lock_memory(std::span<const std::byte> bytes) {
    if (bytes.empty() || ::mlock(bytes.data(), bytes.size()) == 0) return {};
    const int number = errno;
    if (number != ENOMEM && number != EAGAIN && number != EPERM) {
        return error{errc::io, concat("can't lock ", bytes.size(), " bytes in memory: system error ", number)};
    }
    struct ::rlimit limit {};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes.size()) {
        return error{errc::out_of_memory,
                     concat("can't lock ", bytes.size(), " bytes in memory: this user may lock ", limit.rlim_cur,
                            "; raise the limit (ulimit -l) or do without locking")};
    }
    return error{errc::out_of_memory, concat("can't lock ", bytes.size(),
                                             " bytes in memory: the machine has not enough free; do without locking")};
}

}  // namespace colibri
