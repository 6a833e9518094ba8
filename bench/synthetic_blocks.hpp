// Random weights written directly in quantised form: rows of blocks whose codes are random bytes, at the speed of a disk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "colibri/core/half.hpp"
#include "colibri/quant/q4_k.hpp"
#include "colibri/quant/q6_k.hpp"

namespace synthetic {

/// Reproducible numbers of one row: nearly normal, deviation 1; or 64 random bits.
class row_noise {
public:
    explicit row_noise(std::uint64_t seed) : state_((seed + 1) * 0x9e3779b97f4a7c15u) {}
    float operator()() noexcept {
        const std::uint64_t bits = next();
        // The sum of four 16-bit parts: close enough to a bell, and one step of the generator.
        const std::uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        return (static_cast<float>(sum) - 131070.0f) / 37836.5f;
    }
    [[nodiscard]] std::uint64_t next() noexcept {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }
    void fill(std::span<std::uint8_t> bytes) noexcept {
        for (std::size_t i = 0; i < bytes.size(); i += 8) {
            const std::uint64_t bits = next();
            std::memcpy(bytes.data() + i, &bits, std::min<std::size_t>(8, bytes.size() - i));
        }
    }

private:
    std::uint64_t state_;
};

/// What the first `lead` weights of a row are: like the rest, a constant, or zero. An embedding whose rows begin with a constant puts
/// the same direction into every token, on which a router can lean; an output row that begins with zeros doesn't see it.
enum class row_start : std::uint8_t { noise, constant, zero };
inline constexpr std::size_t lead = 32;
/// The constant, in deviations of the rest: two steps of 63 against random codes (deviation 4.61) times scales 8 to 15 (11.73).
inline constexpr float lead_value = 2.0f * 63.0f / (4.6098f * 11.7260f);

/// A block of weights with mean 0 and deviation `sd`: uniform codes, scales 8 to 15, minimums in the codes' middle.
[[nodiscard]] inline colibri::quant::q4_k random_q4_k(row_noise& noise, float sd, row_start start) noexcept {
    colibri::quant::q4_k out;
    const float d = sd / (4.6098f * 11.7260f);
    out.d = colibri::f32_to_f16(d);
    out.dmin = colibri::f32_to_f16(7.5f * d);
    noise.fill(out.qs);
    std::uint64_t bits = noise.next();
    std::memset(&out.scales, 0, sizeof out.scales);
    for (std::size_t run = 0; run < 8; ++run, bits >>= 3) {
        const auto scale = static_cast<std::uint8_t>(8 + (bits & 7));
        if (run < 4) out.scales.bytes[run] = out.scales.bytes[run + 4] = scale;
        else out.scales.bytes[run + 4] = static_cast<std::uint8_t>(scale | scale << 4);  // below 16: no upper bits
    }
    if (start != row_start::noise) {  // run 0: scale and minimum in the low six bits of bytes 0 and 4, codes in the low halves
        out.scales.bytes[0] = start == row_start::constant ? 63 : 0;
        out.scales.bytes[4] = 0;
        for (std::size_t i = 0; i < lead; ++i) out.qs[i] = static_cast<std::uint8_t>((out.qs[i] & 0xf0) | 2);
    }
    return out;
}

/// A block of weights with mean 0 and deviation `sd`: uniform codes (deviation 18.47), scales 4 to 7 of both signs (5.61).
[[nodiscard]] inline colibri::quant::q6_k random_q6_k(row_noise& noise, float sd, row_start start) noexcept {
    colibri::quant::q6_k out;
    out.d = colibri::f32_to_f16(sd / (18.4730f * 5.6125f));
    noise.fill(out.ql);
    noise.fill(out.qh);
    std::uint64_t bits = noise.next();
    for (auto& scale : out.scales) {
        const int size = 4 + static_cast<int>(bits & 3);
        scale = static_cast<std::int8_t>((bits & 4) != 0 ? -size : size);
        bits >>= 3;
    }
    if (start == row_start::zero) out.scales[0] = out.scales[1] = 0;
    return out;
}

}  // namespace synthetic
