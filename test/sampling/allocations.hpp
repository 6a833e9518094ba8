// How much a test program allocates.
#pragma once

#include <cstddef>

namespace sampling_test {

/// Calls of operator new in this program so far.
[[nodiscard]] std::size_t allocations() noexcept;

}  // namespace sampling_test
