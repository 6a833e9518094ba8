// How tensors are cut, and how values are turned.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "colibri/quantize/convert_values.hpp"
#include "colibri/quantize/piece.hpp"

using namespace colibri;

namespace {

quantize::planned_tensor planned(std::array<std::uint64_t, 4> dims, std::vector<std::uint32_t> slices = {}) {
    quantize::planned_tensor out;
    out.source.dims = out.target.dims = dims;
    out.slices = std::move(slices);
    return out;
}

}  // namespace

TEST_CASE("pieces cover every value of every tensor once and in order") {
    const std::uint64_t most = quantize::piece_values;
    const std::vector<quantize::planned_tensor> tensors = {
        planned({1, 1, 1, 1}), planned({4096, 300, 1, 1}), planned({most, 2, 1, 1}), planned({2 * most + 256, 3, 1, 1}), planned({96, 10, 7, 2}),
        planned({64, 100000, 1, 1}), planned({5, 1, 1, 1}, {4, 2, 0, 1, 3}), planned({64, 3, 1, 1}, {2, 0, 1}), planned({32, 5, 3, 1}, {1, 2, 0})};
    const quantize::piece_list pieces(tensors);
    std::size_t tensor = 0;
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < pieces.size(); ++i) {
        const auto one = pieces[i];
        const auto& shape = pieces.shape(one.tensor);
        REQUIRE(one.tensor == tensor);
        REQUIRE(one.first == next);
        REQUIRE(one.values > 0);
        REQUIRE(one.values <= most);
        REQUIRE(one.column == one.first % shape.columns);
        REQUIRE((one.values % shape.columns == 0 || one.column + one.values <= shape.columns));
        // Never over the border of a slice, and from where the slice is.
        const std::uint64_t slice_values = shape.rows * shape.columns;
        const std::uint64_t slice = one.first / slice_values;
        REQUIRE((one.first + one.values - 1) / slice_values == slice);
        const auto& slices = tensors[tensor].slices;
        REQUIRE(one.source_first / slice_values == (slices.empty() ? slice : slices[slice]));
        REQUIRE(one.source_first % slice_values == one.first % slice_values);
        next += one.values;
        REQUIRE(one.ends_tensor == (next == tensors[tensor].source.elements()));
        if (!one.ends_tensor) continue;
        ++tensor;
        next = 0;
    }
    CHECK(tensor == tensors.size());
}

TEST_CASE("values are turned row by row, and what is no number is found") {
    constexpr std::uint64_t columns = 64;
    std::vector<float> in(3 * columns);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 37) - 11.5f;
    std::vector<float> scratch(columns);
    std::vector<std::byte> out(in.size() * 2);
    const auto convert = [&](dtype to, std::uint64_t bytes) {
        return quantize::convert_values({dtype::f32, to, std::as_bytes(std::span(in)), std::span(out).first(bytes), {}, columns, 0}, scratch);
    };
    CHECK_FALSE(convert(dtype::f16, 2 * in.size()));
    std::vector<float> back(in.size());
    REQUIRE(quant::decode_row(dtype::f16, out, back));
    CHECK(back == in);
    in[2 * columns + 5] = std::numeric_limits<float>::quiet_NaN();
    auto bad = convert(dtype::f16, 2 * in.size());
    REQUIRE(bad);
    CHECK(bad->index == 2 * columns + 5);
    CHECK(bad->what.code == errc::bad_value);
    in[70] = -std::numeric_limits<float>::infinity();
    bad = convert(dtype::q8_0, in.size() / 32 * 34);
    REQUIRE(bad);
    CHECK(bad->index == 70);
    in[70] = in[2 * columns + 5] = 0.0f;
    in[3] = -65520.0f;  // the least that isn't a half float
    bad = convert(dtype::f16, 2 * in.size());
    REQUIRE(bad);
    CHECK(bad->index == 3);
    CHECK(bad->what.message.find("too large for F16") != std::string::npos);
    in[3] = 65504.0f;
    CHECK_FALSE(convert(dtype::f16, 2 * in.size()));
    CHECK_FALSE(convert(dtype::bf16, 2 * in.size()));
}
