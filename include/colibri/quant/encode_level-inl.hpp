// One turn of the loop in encode_levels.hpp: what encoders do, for the level that the COLIBRI_LEVEL_ macros describe,
// if there is one.

#include "colibri/quant/lanes-inl.hpp"
#include "colibri/quant/search_codes-inl.hpp"
#include "colibri/quant/search-inl.hpp"
#include "colibri/quant/search_super-inl.hpp"
#include "colibri/quant/search_shapes-inl.hpp"

#ifdef COLIBRI_LEVEL
namespace colibri::quant::detail::COLIBRI_LEVEL {

/// What encode_levels.hpp chooses by the CPU.
struct functions {
    /// Blocks of F by its search.
    template <class F>
    static void search_blocks(const float* x, const float* importance, std::size_t blocks, F* out) noexcept {
        searching_encoder<F>::encode(x, importance, blocks, out);
    }

    /// Blocks by the format's own `encode`, which becomes part of this function and so of its level.
    template <class F>
    [[gnu::flatten]] static void encode_each(const float* x, std::size_t blocks, F* out) noexcept {
        for (std::size_t b = 0; b < blocks; ++b) out[b] = F::encode(x + b * F::block_size);
    }

    /// Half floats (two bytes each, at any address) to floats, as `f16_to_f32` but without branches.
    static void widen_halves(const std::byte* in, std::size_t n, float* out) noexcept {
        using whole = lane_mask::part;
        typedef std::uint16_t halves __attribute__((vector_size(COLIBRI_LEVEL_BYTES / 2)));
        const std::size_t tail = n % lanes::width;
        for (std::size_t i = 0; i < n - tail; i += lanes::width) {
            halves stored;
            std::memcpy(&stored, in + 2 * i, sizeof stored);
            const whole bits = __builtin_convertvector(stored, whole);
            const whole size = bits & 0x7fff;
            const whole quiet = size > 0x7c00 ? ~size & 0x200 : whole{};  // the bit that makes a NaN quiet, if it isn't set
            const whole normal = ((size | quiet) << 13) + (size < 0x7c00 ? whole{} + (112 << 23) : whole{} + (224 << 23));
            const whole tiny = reinterpret_cast<whole>(__builtin_convertvector(size, lanes::part) * 0x1p-24f);
            const whole value = (size < 0x400 ? tiny : normal) | (bits & 0x8000) << 16;
            std::memcpy(out + i, &value, sizeof value);
        }
        for (std::size_t i = n - tail; i < n; ++i) {
            std::uint16_t half;
            std::memcpy(&half, in + 2 * i, sizeof half);
            out[i] = f16_to_f32(half);
        }
    }

    /// Largest magnitude as a bit pattern; at least `infinity_bits` if there is an infinity or a NaN.
    [[nodiscard]] static std::uint32_t largest_bits(const float* x, std::size_t n) noexcept {
        constexpr std::size_t step = 2 * lanes::count;
        std::int32_t tops[step] = {};
        const std::size_t tail = n % step;
        for (std::size_t i = 0; i < n - tail; i += step) {
            std::int32_t bits[step];
            std::memcpy(bits, x + i, sizeof bits);
            for (std::size_t k = 0; k < step; ++k) {
                const std::int32_t magnitude = bits[k] & 0x7fffffff;
                tops[k] = magnitude > tops[k] ? magnitude : tops[k];
            }
        }
        std::int32_t top = 0;
        for (const std::int32_t of_lane : tops) top = of_lane > top ? of_lane : top;
        for (std::size_t i = n - tail; i < n; ++i) {
            const std::int32_t magnitude = std::bit_cast<std::int32_t>(x[i]) & 0x7fffffff;
            top = magnitude > top ? magnitude : top;
        }
        return static_cast<std::uint32_t>(top);
    }
};

}  // namespace colibri::quant::detail::COLIBRI_LEVEL
#endif
