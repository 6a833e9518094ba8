#include "colibri/quant/panel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "colibri/quant/rows.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

constexpr std::size_t widths[] = {32, 64, 224, 256, 288, 576, 2048};

std::vector<std::byte> random_bytes(std::size_t n, unsigned seed) {
    std::mt19937 bits(seed);
    std::vector<std::byte> out(n);
    for (auto& b : out) b = static_cast<std::byte>(bits() >> 24);
    return out;
}

/// Bits of the code in row r, column c (0..31) of a run's planes, read as the layout is described.
template <class F>
unsigned stored_code(const std::byte* run, std::size_t r, std::size_t c) {
    using layout = panel_layout<F>;
    const auto plane = [&](const std::byte* p, std::size_t bits) {
        const std::size_t word = c / 4;  // with 8 vectors of 4 columns, the one that has the column
        const std::size_t vectors = bits;
        const auto byte = std::to_integer<unsigned>(p[word % vectors * 64 + r * 4 + c % 4]);
        return bits == 8 ? byte : byte >> (word / vectors * bits) & ((1u << bits) - 1);
    };
    const unsigned low = plane(run, layout::low_bits);
    if constexpr (layout::high_bits == 0) return low;
    else return low | plane(run + layout::low_vectors * 64, layout::high_bits) << layout::low_bits;
}

/// What a stored code stands for in F.
template <class F>
int meaning(unsigned code) {
    if constexpr (panel_layout<F>::recoded) return panel_values<F>[code];
    switch (F::type) {
        case dtype::q8_0: return static_cast<std::int8_t>(code);
        case dtype::q4_0: return static_cast<int>(code) - 8;
        case dtype::q5_0: return static_cast<int>(code) - 16;
        case dtype::q6_k: return static_cast<int>(code) - 32;
        case dtype::q3_k: return static_cast<int>(code) - 4;
        case dtype::iq4_nl:
        case dtype::iq4_xs: return iq4_values[code];
        case dtype::nvfp4:
        case dtype::mxfp4: return mxfp4_values[code];
        case dtype::q1_0: return static_cast<int>(code) * 2 - 1;
        case dtype::q2_0:
        case dtype::tq2_0: return static_cast<int>(code) - 1;
        default: return static_cast<int>(code);
    }
}

template <class Fn>
void for_each_code_format(Fn&& fn) {
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F> id) {
        if constexpr (code_format<F>) {
            CAPTURE(std::string(name(F::type)));
            fn(id);
        }
    });
}

}  // namespace

TEST_CASE("panel: which types have panels, and their sizes") {
    CHECK(has_panels(dtype::q4_0));
    CHECK(has_panels(dtype::iq4_xs));
    for (const auto type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_k, dtype::i8}) {
        CHECK(!has_panels(type));
        CHECK(panel_bytes(type, 256) == 0);
    }
    // Where no scale is widened a panel has the size of its rows but for the last 64 bytes.
    for (const auto type : {dtype::q4_0, dtype::q5_1, dtype::q8_0, dtype::mxfp4, dtype::q2_k, dtype::q6_k, dtype::nvfp4,
                            dtype::q1_0, dtype::q2_0, dtype::tq2_0}) {
        for (const std::size_t k : {256u, 2048u}) {
            CHECK(panel_bytes(type, k) == round_up(16 * row_bytes(type, k).value(), std::size_t{64}));
        }
    }
    CHECK(panel_bytes(dtype::q4_k, 256) == 2048 + 64 + 256);
    CHECK(panel_bytes(dtype::q3_k, 256) == 1856);
    CHECK(panel_bytes(dtype::q4_0, 288) == 9 * 288 + 32);
}

TEST_CASE("panel: rows come back bit for bit, whatever their bytes, and nothing else is written") {
    for_each_code_format([&]<class F>(std::type_identity<F>) {
        for (const std::size_t k : widths) {
            if (k % F::block_size != 0) continue;
            CAPTURE(k);
            const std::size_t row = row_bytes(F::type, k).value();
            const std::size_t stride = row + 3;  // odd addresses too
            const std::size_t bytes = panel_bytes(F::type, k);
            for (std::size_t rows = 1; rows <= 16; ++rows) {
                CAPTURE(rows);
                const auto file = random_bytes(16 * stride, static_cast<unsigned>(k + rows));
                std::vector<std::byte> panel(bytes + 1, std::byte{0xa5});
                pack_panel(F::type, file.data(), stride, rows, k, panel.data());
                CHECK(panel[bytes] == std::byte{0xa5});
                for (std::size_t r = 0; r < rows; ++r) {
                    std::vector<std::byte> back(row + 1, std::byte{0x5a});
                    if constexpr (panel_layout<F>::recoded) {
                        unpack_panel_row(F::type, panel.data(), r, k, back.data());
                        CHECK(std::all_of(back.begin(), back.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
                        std::copy_n(file.begin() + static_cast<long>(r * stride), row, back.begin());
                    } else {
                        unpack_panel_row(F::type, panel.data(), r, k, back.data());
                        CHECK(std::equal(back.begin(), back.end() - 1, file.begin() + static_cast<long>(r * stride)));
                    }
                    CHECK(back[row] == std::byte{0x5a});
                    std::vector<float> expected(k), got(k);
                    decode_row(F::type, std::span(back).first(row), expected).value();
                    decode_panel_row(F::type, panel.data(), r, k, got.data());
                    CHECK(std::memcmp(got.data(), expected.data(), k * sizeof(float)) == 0);
                }
            }
        }
    });
}

TEST_CASE("panel: every byte value in every place of a block survives") {
    for_each_code_format([&]<class F>(std::type_identity<F>) {
        constexpr std::size_t k = 256;
        const std::size_t row = row_bytes(F::type, k).value();
        std::vector<std::byte> file(16 * row);
        std::vector<std::byte> panel(panel_bytes(F::type, k));
        std::vector<std::byte> back(row);
        for (unsigned base = 0; base < 256; base += 16) {
            for (std::size_t i = 0; i < file.size(); ++i) {
                file[i] = static_cast<std::byte>(base + i / row + i % row * 37);
            }
            pack_panel(F::type, file.data(), row, 16, k, panel.data());
            for (std::size_t r = 0; r < 16; ++r) {
                if constexpr (panel_layout<F>::recoded) {
                    std::vector<float> expected(k), got(k);
                    decode_row(F::type, std::span(file).subspan(r * row, row), expected).value();
                    decode_panel_row(F::type, panel.data(), r, k, got.data());
                    CHECK(std::memcmp(got.data(), expected.data(), k * sizeof(float)) == 0);
                } else {
                    unpack_panel_row(F::type, panel.data(), r, k, back.data());
                    CHECK(std::memcmp(back.data(), file.data() + r * row, row) == 0);
                }
            }
        }
    });
}

TEST_CASE("panel: codes and scales lie where the layout says") {
    for_each_code_format([&]<class F>(std::type_identity<F>) {
        using layout = panel_layout<F>;
        constexpr std::size_t k = F::block_size <= 64 ? 576 : F::block_size == 128 ? 640 : 512;
        const std::size_t row = row_bytes(F::type, k).value();
        const auto file = random_bytes(13 * row, 5);
        std::vector<std::byte> panel(panel_bytes(F::type, k), std::byte{0xff});
        pack_panel(F::type, file.data(), row, 13, k, panel.data());
        std::size_t chunk = 0;
        for (std::size_t first = 0; first < k; first += 256) {
            const std::size_t n = std::min<std::size_t>(256, k - first) / 32;
            const auto byte = [&](std::size_t offset) { return std::to_integer<unsigned>(panel[chunk + offset]); };
            const auto half = [&](std::size_t offset) { return byte(offset) | byte(offset + 1) << 8; };
            for (std::size_t r = 0; r < 13; ++r) {
                for (std::size_t b = 0; b < layout::blocks(n); ++b) {
                    F block;
                    std::memcpy(&block, file.data() + r * row + (first / F::block_size + b) * sizeof(F), sizeof(F));
                    for (std::size_t i = 0; i < F::block_size; ++i) {
                        const std::size_t run = (b * F::block_size + i) / 32;
                        const auto code = stored_code<F>(panel.data() + chunk + run * layout::run_codes, r, i % 32);
                        REQUIRE(meaning<F>(code) == block.code(i));
                    }
                    if constexpr (requires { block.e; }) CHECK(byte(layout::scale_offset(n) + b * 16 + r) == block.e);
                    else if constexpr (layout::scale_size == 2) {
                        CHECK(half(layout::scale_offset(n) + (b * 16 + r) * 2) == quant::detail::scale_bits(block));
                    }
                    if constexpr (requires { block.m; }) CHECK(half(layout::minimum_offset(n) + (b * 16 + r) * 2) == block.m);
                    if constexpr (requires { block.dmin; }) CHECK(half(layout::minimum_offset(n) + r * 2) == block.dmin);
                    if constexpr (super_format<F>) {
                        for (std::size_t j = 0; j < layout::sub_runs; ++j) {
                            const unsigned stored = byte(layout::sub_scale_offset(n) + (b * layout::sub_runs + j) * 16 + r);
                            if constexpr (F::type == dtype::q2_k) CHECK(stored == block.scales[j]);
                            else if constexpr (F::type == dtype::nvfp4) CHECK(stored == block.d[j]);
                            else CHECK(static_cast<std::int8_t>(stored) == block.sub_scale(j));
                            if constexpr (layout::has_sub_minimum) {
                                CHECK(byte(layout::sub_minimum_offset(n) + j * 16 + r) ==
                                      static_cast<unsigned>(block.sub_minimum(j)));
                            }
                        }
                    }
                }
            }
            // Rows 13 to 15 don't exist: zeros in every field.
            for (std::size_t i = 0; i < n * layout::run_codes; ++i) REQUIRE((i % 64 < 52 || byte(i) == 0));
            for (std::size_t i = layout::scale_offset(n); i < layout::sub_scale_offset(n); ++i) {
                const std::size_t at = i - layout::scale_offset(n);
                if constexpr (layout::scale_size != 0) REQUIRE((at / layout::scale_size % 16 < 13 || byte(i) == 0));
            }
            for (std::size_t i = layout::sub_scale_offset(n); i < layout::chunk_bytes(n); ++i) {
                REQUIRE(((i - layout::sub_scale_offset(n)) % 16 < 13 || byte(i) == 0));
            }
            chunk += layout::chunk_bytes(n);
        }
        for (; chunk < panel.size(); ++chunk) CHECK(panel[chunk] == std::byte{0});
    });
}
