// Grids and the blocks that point into them, put together by hand; the golden data has the many.
#include "colibri/quant/iq_grids.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include "colibri/quant/format_list.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

constexpr std::uint16_t half_eight = 0x4800;  // 8.0
constexpr std::uint16_t half_one = 0x3c00;    // 1.0

template <class F>
constexpr std::array<float, F::block_size> values(const F& block) {
    std::array<float, F::block_size> out{};
    block.decode(out.data());
    return out;
}

// The first points of each grid hold the smallest magnitudes, the last one the largest.
static_assert(iq2_xxs_grid[0] == 0x0808080808080808u && iq2_xxs_grid[1] == 0x080808080808082bu);
static_assert(iq2_s_grid[1023] == 0x2b2b2b2b2b2b2b2bu && iq3_s_grid[0] == 0x01010101u);
static_assert(iq3_xxs_grid[0] == 0x04040404u && iq1_grid[0] == 0xffffffffffffffffu && iq1_grid[2047] == 0x0101010101010101u);
static_assert(even_signs(0) == 0 && even_signs(1) == 0x81 && even_signs(3) == 3 && even_signs(127) == 0xff);

constexpr iq2_xxs an_iq2_xxs = [] {
    iq2_xxs b{half_eight, {}};
    b.qs[8 + 2] = 1;             // run 1, its third eight: 43 first, then eights
    b.qs[8 + 5] = 0b0100'0000;   // bit 14 of the sign bits: the third eight's first sign, so its eighth is minus too
    b.qs[8 + 7] = 0b0010'0000;   // s = 2
    return b;
}();
static_assert(values(an_iq2_xxs)[48] == -43 * 5 && values(an_iq2_xxs)[49] == 8 * 5 && values(an_iq2_xxs)[55] == -8 * 5);
static_assert(values(an_iq2_xxs)[0] == 8);

constexpr iq2_xs an_iq2_xs = [] {
    iq2_xs b{half_eight, {}, {}};
    b.qs[3] = 1 | 0b11 << 9;  // weights 24 to 31, run 1
    b.scales[0] = 0xf0;
    return b;
}();
static_assert(values(an_iq2_xs)[24] == -43 * 31 && values(an_iq2_xs)[25] == -8 * 31 && values(an_iq2_xs)[31] == 8 * 31);

constexpr iq2_s an_iq2_s = [] {
    iq2_s b{half_eight, {}, {}, {}, {}};
    b.qs[31] = 0xff;
    b.qh[7] = 0b11'00'00'00;  // point 1023
    b.sign_bits[31] = 0x80;
    b.scales[7] = 0x10;
    return b;
}();
static_assert(values(an_iq2_s)[255] == -43 * 3 && values(an_iq2_s)[248] == 43 * 3 && values(an_iq2_s)[247] == 8 * 3);

constexpr iq3_xxs an_iq3_xxs = [] {
    iq3_xxs b{half_one, {}, {}};
    b.points[10] = 255;  // weights 40 to 43: run 1, its second eight, first half
    b.signs_scales[4] = 0x80;  // bit 7: the second eight's first sign
    b.signs_scales[7] = 0x10;
    return b;
}();
static_assert(an_iq3_xxs.point(10) == iq3_xxs_grid[255] && an_iq3_xxs.sub_scale(1) == 3 && an_iq3_xxs.sub_scale(0) == 1);
static_assert(values(an_iq3_xxs)[40] == -0.75f * static_cast<float>(iq3_xxs_grid[255] & 255));
static_assert(values(an_iq3_xxs)[44] == 3 && values(an_iq3_xxs)[47] == -3 && values(an_iq3_xxs)[0] == 1);

constexpr iq3_s an_iq3_s = [] {
    iq3_s b{half_one, {}, {}, {}, {}};
    b.qs[9] = 0xff;  // weights 36 to 39, run 1: point 511
    b.qh[1] = 0b10;
    b.sign_bits[4] = 0b0010'0000;  // weight 37
    b.scales[0] = 0x20;
    return b;
}();
static_assert(an_iq3_s.point(9) == iq3_s_grid[511] && an_iq3_s.code(37) == -static_cast<int>(iq3_s_grid[511] >> 8 & 255));
static_assert(values(an_iq3_s)[32] == 5 && values(an_iq3_s)[0] == 1);

constexpr iq1_s an_iq1_s = [] {
    iq1_s b{half_eight, {}, {}};
    b.qs[6] = 0xff;  // weights 48 to 55, run 1: point 2047
    b.qh[1] = 7 << 6 | 3 << 12 | 0x8000;
    return b;
}();
static_assert(values(an_iq1_s)[48] == 7 * 7 && values(an_iq1_s)[32] == -9 * 7 && values(an_iq1_s)[0] == -7);

constexpr iq1_m an_iq1_m = [] {
    iq1_m b{{}, {}, {}};
    b.qs[3] = 0xff;  // weights 24 to 31, run 1: point 2047, shifted down
    b.qh[1] = 0xf0;
    b.scales[0] = 2 << 3;      // run 1: 5
    b.scales[2] = 0x8000;      // d = 0x4800, eight
    b.scales[3] = 0x4000;
    return b;
}();
static_assert(values(an_iq1_m)[24] == 7 * 5 && values(an_iq1_m)[16] == -7 * 5 && values(an_iq1_m)[0] == -7);

}  // namespace

TEST_CASE("points of a grid are in order") {
    for (std::size_t i = 1; i < iq1_grid.size(); ++i) {
        bool larger = false;  // in order of the last weight first
        for (std::size_t k = 8; k-- > 0;) {
            const int a = grid_value(iq1_grid[i - 1], k);
            const int b = grid_value(iq1_grid[i], k);
            if (a != b) {
                larger = b > a;
                break;
            }
        }
        if (!larger) CHECK_MESSAGE(larger, "point " << i);
    }
}
