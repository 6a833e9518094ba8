// Reports of long work to whoever shows them.
#pragma once

#include <cstdint>
#include <functional>

namespace colibri {

/// How far some work is. `done` and `total` are in the unit that the function says (bytes, tokens).
struct progress {
    std::uint64_t done = 0;
    std::uint64_t total = 0;
};

/// Called now and then from the thread that works; returning false asks the work to stop (it ends with errc::canceled).
/// An empty function means nobody watches.
using progress_fn = std::function<bool(const progress&)>;

}  // namespace colibri
