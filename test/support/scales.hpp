// Scales of blocks of any format, for tests that fill blocks with random bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace test_support {

/// Makes a half float the scale of a block of codes. NVFP4, whose scales are bytes, gets exponents of ordinary size.
template <class F>
void set_scale(F& block, std::uint16_t half) {
    if constexpr (requires { block.half_scale(); }) {
        for (std::size_t i = 0; i < 4; ++i) {
            block.scales[i] = static_cast<std::uint16_t>((block.scales[i] & 0xfff) | (half >> (4 * i) & 15) << 12);
        }
    } else if constexpr (requires { block.d[0]; }) {
        for (auto& scale : block.d) scale = static_cast<std::uint8_t>(scale & 0x1f);
    } else {
        block.d = half;
    }
}

}  // namespace test_support
