// Random numbers that are the same for the same seed on every machine.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <random>

#include "colibri/sampling/weight.hpp"

namespace colibri::sampling {

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021): 256 bits of state,
/// period 2^256 - 1. The state is filled by SplitMix64 (Steele, Lea, Flood, 2014), as its authors advise. `stream`
/// gives independent sequences for the same seed, one per step that draws. A std::uniform_random_bit_generator; but use
/// `uniform` and `below`, since the standard's distributions differ between libraries.
class generator {
public:
    using result_type = std::uint64_t;

    explicit constexpr generator(std::uint64_t seed, std::uint64_t stream = 0) noexcept {
        std::uint64_t counter = seed;
        for (std::uint64_t skip = 0; skip < stream; ++skip) counter = split_mix(counter);
        for (auto& word : state_) word = split_mix(counter);
    }

    /// A generator in the middle of its sequence; not all of `state` may be 0.
    explicit constexpr generator(const std::array<std::uint64_t, 4>& state) noexcept : state_(state) {}
    [[nodiscard]] constexpr const std::array<std::uint64_t, 4>& state() const noexcept { return state_; }

    /// 64 random bits.
    constexpr std::uint64_t operator()() noexcept {
        const std::uint64_t out = std::rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return out;
    }

    /// A multiple of 2^-53 in [0, 1), all equally likely.
    constexpr double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

    /// A whole number in [0, count), count > 0; no number is likelier than another by more than count / 2^64.
    constexpr std::uint64_t below(std::uint64_t count) noexcept {
        return static_cast<std::uint64_t>((static_cast<detail::uint128>((*this)()) * count) >> 64);
    }

    static constexpr std::uint64_t min() noexcept { return 0; }
    static constexpr std::uint64_t max() noexcept { return ~std::uint64_t{0}; }

private:
    static constexpr std::uint64_t split_mix(std::uint64_t& counter) noexcept {
        counter += 0x9e3779b97f4a7c15u;
        std::uint64_t z = counter;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    std::array<std::uint64_t, 4> state_{};
};

/// A seed nobody chose, short enough to be read and typed: 32 bits of the system's entropy, of the clock where there is
/// none.
[[nodiscard]] inline std::uint64_t random_seed() noexcept {
    try {
        return std::random_device{}();
    } catch (const std::exception&) {
        auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        return generator{now}() >> 32;
    }
}

}  // namespace colibri::sampling
