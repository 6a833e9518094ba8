// SHA-256 of bytes that come in pieces.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace colibri {

/// The hash of FIPS 180-4 with 256 bits. Tells whether bytes are the same; allocates nothing.
class sha256 {
public:
    using digest = std::array<std::uint8_t, 32>;

    /// Adds bytes at the end.
    void update(std::span<const std::byte> bytes) noexcept {
        length_ += bytes.size();
        if (filled_ != 0) {
            const std::size_t now = std::min(bytes.size(), block_.size() - filled_);
            std::memcpy(block_.data() + filled_, bytes.data(), now);
            filled_ += now;
            bytes = bytes.subspan(now);
            if (filled_ < block_.size()) return;
            compress(block_.data());
            filled_ = 0;
        }
        for (; bytes.size() >= block_.size(); bytes = bytes.subspan(block_.size())) compress(bytes.data());
        if (!bytes.empty()) std::memcpy(block_.data(), bytes.data(), bytes.size());
        filled_ = bytes.size();
    }

    /// The hash of all bytes so far; the object can't be used afterwards.
    [[nodiscard]] digest finish() noexcept {
        const std::uint64_t bits = length_ * 8;
        static constexpr std::byte padding[64] = {std::byte{0x80}};
        // One bit, zeros, and the length in the last 8 bytes of a block.
        update(std::span(padding).first(filled_ < 56 ? 56 - filled_ : 120 - filled_));
        std::byte tail[8];
        for (unsigned i = 0; i < 8; ++i) tail[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
        update(tail);
        digest out{};
        for (std::size_t i = 0; i < out.size(); ++i) {
            out[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
        }
        return out;
    }

    [[nodiscard]] static digest of(std::span<const std::byte> bytes) noexcept {
        sha256 hash;
        hash.update(bytes);
        return hash.finish();
    }

private:
    void compress(const std::byte* block) noexcept;

    std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::byte, 64> block_{};
    std::size_t filled_ = 0;
    std::uint64_t length_ = 0;
};

/// 64 lower-case hexadecimal digits.
[[nodiscard]] inline std::string hex_text(const sha256::digest& digest) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    for (const std::uint8_t byte : digest) (out += hex[byte >> 4]) += hex[byte & 15];
    return out;
}

namespace detail {

/// Fractions of the cube roots of the first 64 primes.
inline constexpr std::array<std::uint32_t, 64> sha256_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace detail

inline void sha256::compress(const std::byte* block) noexcept {
    std::uint32_t w[64];
    for (unsigned i = 0; i < 16; ++i) {
        std::uint32_t word = 0;
        std::memcpy(&word, block + 4 * i, 4);
        w[i] = __builtin_bswap32(word);
    }
    for (unsigned i = 16; i < 64; ++i) {
        const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (unsigned i = 0; i < 64; ++i) {
        const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                                 detail::sha256_constants[i] + w[i];
        const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const std::uint32_t sums[] = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += sums[i];
}

}  // namespace colibri
