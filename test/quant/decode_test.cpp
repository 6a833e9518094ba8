// Blocks put together by hand from the layout's description; the golden data has the many.
#include "colibri/quant/decode.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "colibri/quant/format_list.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

constexpr std::uint16_t half_one = 0x3c00;      // 1.0
constexpr std::uint16_t half_two = 0x4000;      // 2.0
constexpr std::uint16_t half_quarter = 0x3400;  // 0.25

template <class F>
constexpr std::array<float, F::block_size> values(const F& block) {
    std::array<float, F::block_size> out{};
    block.decode(out.data());
    return out;
}

constexpr q4_0 a_q4_0 = [] {
    q4_0 b{half_two, {}};
    b.qs[0] = 0xf0;   // weight 0: code -8, weight 16: code 7
    b.qs[15] = 0x9a;  // weight 15: code 2, weight 31: code 1
    return b;
}();
static_assert(values(a_q4_0)[0] == -16 && values(a_q4_0)[16] == 14);
static_assert(values(a_q4_0)[15] == 4 && values(a_q4_0)[31] == 2);

constexpr q4_1 a_q4_1 = [] {
    q4_1 b{half_two, half_quarter, {}};
    b.qs[3] = 0x5f;
    return b;
}();
static_assert(values(a_q4_1)[3] == 30.25f && values(a_q4_1)[19] == 10.25f && values(a_q4_1)[0] == 0.25f);

constexpr q5_0 a_q5_0 = [] {
    q5_0 b{half_one, {}, {}};
    b.qs[9] = 0x21;
    b.qh[1] = 0x02;  // weight 9
    b.qh[3] = 0x80;  // weight 31
    return b;
}();
static_assert(values(a_q5_0)[9] == 1 && values(a_q5_0)[25] == -14 && values(a_q5_0)[31] == 0 &&
              values(a_q5_0)[0] == -16);

constexpr q5_1 a_q5_1 = [] {
    q5_1 b{half_one, half_two, {}, {}};
    b.qs[0] = 0x0f;
    b.qh[0] = 0x01;
    return b;
}();
static_assert(values(a_q5_1)[0] == 33 && values(a_q5_1)[1] == 2);

constexpr q8_0 a_q8_0 = [] {
    q8_0 b{half_quarter, {}};
    b.qs[0] = -128;
    b.qs[31] = 127;
    return b;
}();
static_assert(values(a_q8_0)[0] == -32 && values(a_q8_0)[31] == 31.75f);

constexpr q2_k a_q2_k = [] {
    q2_k b{};
    b.d = half_one;
    b.dmin = half_two;
    b.scales[9] = 0x35;          // weights 144..159: scale 5, minimum 3
    b.qs[32 + 17] = 0b00001100;  // second half, byte 17: weight 128+17 code 0, 128+49 code 3
    b.scales[11] = 0x01;         // weights 176..191
    return b;
}();
static_assert(values(a_q2_k)[145] == -6 && values(a_q2_k)[177] == 3 && values(a_q2_k)[0] == 0);

constexpr q3_k a_q3_k = [] {
    q3_k b{};
    b.d = half_one;
    b.scales[0] = 0xe1;           // low bits: run 0: 1, run 8: 14
    b.scales[8] = 0b10'01'10'11;  // upper bits: runs 0, 4, 8, 12: 3, 2, 1, 2
    b.qs[0] = 0b01'00'00'10;      // weights 0, 32, 64, 96: 2, 0, 0, 1
    b.hmask[0] = 0b0000'0001;     // weight 0 only
    return b;
}();
static_assert(a_q3_k.sub_scale(0) == 17 && a_q3_k.sub_scale(8) == -2 && a_q3_k.sub_scale(4) == 0);
static_assert(a_q3_k.sub_scale(12) == 0 && a_q3_k.sub_scale(1) == -32);
static_assert(values(a_q3_k)[0] == 34 && values(a_q3_k)[96] == a_q3_k.sub_scale(6) * -3 && values(a_q3_k)[128] == 8);

constexpr packed_scales a_scales = {{0b11'000001, 0, 0, 63, 0b01'000010, 0, 0, 0b10'111111, 0x75, 0, 0, 0xf0}};
static_assert(a_scales.scale(0) == 1 && a_scales.minimum(0) == 2);
static_assert(a_scales.scale(3) == 63 && a_scales.minimum(3) == 63);
static_assert(a_scales.scale(4) == (5 | 3 << 4) && a_scales.minimum(4) == (7 | 1 << 4));
static_assert(a_scales.scale(7) == 0 && a_scales.minimum(7) == (15 | 2 << 4));

constexpr q4_k a_q4_k = [] {
    q4_k b{};
    b.d = half_quarter;
    b.dmin = half_one;
    b.scales = a_scales;
    b.qs[1] = 0x4c;   // weights 1 and 33
    b.qs[96] = 0x21;  // weights 192 and 224
    return b;
}();
static_assert(values(a_q4_k)[1] == 0.25f * 1 * 12 - 2 && values(a_q4_k)[33] == 0);
static_assert(values(a_q4_k)[224] == -47 && values(a_q4_k)[128] == -23);

constexpr q5_k a_q5_k = [] {
    q5_k b{};
    b.d = half_quarter;
    b.dmin = half_one;
    b.scales = a_scales;
    b.qs[1] = 0x4c;
    b.qh[1] = 0b0001'0001;  // weights 1 and 129
    return b;
}();
static_assert(values(a_q5_k)[1] == 0.25f * 1 * 28 - 2 && values(a_q5_k)[129] == 0.25f * 53 * 16 - 23);

constexpr q6_k a_q6_k = [] {
    q6_k b{};
    b.d = half_one;
    b.scales[0] = -3;
    b.scales[15] = 2;
    b.ql[0] = 0x05;
    b.qh[0] = 0b00'00'00'11;   // weight 0: 5 + 48 - 32
    b.ql[127] = 0xa0;          // weight 255: low bits 10
    b.qh[63] = 0b10'00'00'00;  // weight 255: 10 + 32 - 32
    return b;
}();
static_assert(values(a_q6_k)[0] == -63 && values(a_q6_k)[255] == 20 && values(a_q6_k)[1] == 96);

constexpr iq4_nl a_iq4_nl = [] {
    iq4_nl b{half_two, {}};
    b.qs[2] = 0xf8;
    return b;
}();
static_assert(values(a_iq4_nl)[2] == 2 && values(a_iq4_nl)[18] == 226 && values(a_iq4_nl)[0] == -254);

constexpr iq4_xs a_iq4_xs = [] {
    iq4_xs b{};
    b.d = half_one;
    b.scales_l[3] = 0x70;                    // run 7: low bits 7
    b.scales_h = 0b11'00'00'00'00'00'00'00;  // run 7: upper bits 3
    b.qs[112] = 0x98;                        // weights 224 and 240
    return b;
}();
static_assert(values(a_iq4_xs)[224] == 23 && values(a_iq4_xs)[240] == 23 * 13 && values(a_iq4_xs)[0] == -32 * -127);

constexpr mxfp4 a_mxfp4 = [] {
    mxfp4 b{128, {}};
    b.qs[0] = 0xf7;
    b.qs[1] = 0x81;
    return b;
}();
static_assert(values(a_mxfp4)[0] == 12 && values(a_mxfp4)[16] == -12 && values(a_mxfp4)[1] == 1 &&
              values(a_mxfp4)[17] == 0);
static_assert(mxfp4{0, {}}.scale() == 0x1p-128f && mxfp4{1, {}}.scale() == 0x1p-127f &&
              mxfp4{2, {}}.scale() == 0x1p-126f);
static_assert(mxfp4{254, {}}.scale() == 0x1p126f && mxfp4{255, {}}.scale() == 0x1p127f);

constexpr q1_0 a_q1_0 = [] {
    q1_0 b{half_two, {}};
    b.qs[1] = 0x80;  // weight 15
    return b;
}();
static_assert(values(a_q1_0)[15] == 2 && values(a_q1_0)[7] == -2 && values(a_q1_0)[127] == -2);

constexpr q2_0 a_q2_0 = [] {
    q2_0 b{half_two, {}};
    b.qs[3] = 0b11'00'01'10;  // weights 15 to 12
    return b;
}();
static_assert(values(a_q2_0)[12] == 2 && values(a_q2_0)[13] == 0 && values(a_q2_0)[14] == -2 && values(a_q2_0)[15] == 4);

constexpr tq1_0 a_tq1_0 = [] {
    tq1_0 b{};
    b.d = half_two;
    b.qs[0] = 181;   // digits 2 0 1 0 0: 171/243, times 256 and rounded up
    b.qs[47] = 181;  // weights 175, 191, 207, 223, 239
    b.qh[3] = 181;   // weights 243, 247, 251, 255
    return b;
}();
static_assert(values(a_tq1_0)[0] == 2 && values(a_tq1_0)[32] == -2 && values(a_tq1_0)[64] == 0 && values(a_tq1_0)[128] == -2);
static_assert(values(a_tq1_0)[175] == 2 && values(a_tq1_0)[191] == -2 && values(a_tq1_0)[207] == 0);
static_assert(values(a_tq1_0)[243] == 2 && values(a_tq1_0)[247] == -2 && values(a_tq1_0)[251] == 0 && values(a_tq1_0)[255] == -2);

constexpr tq2_0 a_tq2_0 = [] {
    tq2_0 b{};
    b.d = half_two;
    b.qs[33] = 0b10'01'00'11;  // weights 225, 193, 161, 129
    return b;
}();
static_assert(values(a_tq2_0)[129] == 4 && values(a_tq2_0)[161] == -2 && values(a_tq2_0)[193] == 0 && values(a_tq2_0)[225] == 2);

constexpr nvfp4 a_nvfp4 = [] {
    nvfp4 b{{0x7f, 0x38, 0x01, 0xff}, {}};  // NaN, 1, the smallest, 480
    for (const std::size_t run : {0u, 8u, 16u, 24u}) b.qs[run] = 0x27;
    return b;
}();
static_assert(values(a_nvfp4)[0] == 0 && values(a_nvfp4)[16] == 6 && values(a_nvfp4)[24] == 1 && values(a_nvfp4)[17] == 0);
static_assert(values(a_nvfp4)[32] == 6 * 0x1p-9f && values(a_nvfp4)[48] == 6 * 480.0f);

constexpr q8_k a_q8_k = [] {
    q8_k b{};
    b.d = 0.5f;
    b.qs[255] = -3;
    return b;
}();
static_assert(values(a_q8_k)[255] == -1.5f);

}  // namespace

TEST_CASE("a block of zero bytes is zero or the code's zero point times a zero scale") {
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const F block{};
        for (const float v : values(block)) CHECK(std::abs(v) <= (F::type == dtype::mxfp4 ? 0x1p-124f : 0.0f));
    });
}

TEST_CASE("a scale that is NaN makes every weight NaN") {
    const std::uint16_t nan = 0x7e00;
    q6_k k6{};
    k6.d = nan;
    q2_k k2{};
    k2.dmin = nan;
    for (const float v : values(k6)) CHECK(std::isnan(v));
    for (const float v : values(k2)) CHECK(std::isnan(v));
    for (const float v : values(q4_0{nan, {}})) CHECK(std::isnan(v));
    for (const float v : values(q4_1{half_one, nan, {}})) CHECK(std::isnan(v));
}

TEST_CASE("the products in decoding are exact, so that fusing can't change a value") {
    // The widest case of each shape with minimums: an 11-bit scale, the largest integer scale, every code.
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
        const float d = f16_to_f32(static_cast<std::uint16_t>(bits));
        bool exact = true;
        for (int scale = 0; scale < 64; scale += 1) {
            const float run_scale = d * static_cast<float>(scale);
            const double wide = static_cast<double>(d) * scale * 31;
            exact = exact && static_cast<double>(run_scale * 31.0f) == wide;
        }
        if (!exact) CHECK_MESSAGE(exact, "scale bits " << bits);
    }
}
