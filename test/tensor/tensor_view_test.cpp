#include "colibri/tensor/tensor_view.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/tensor/tensor_ref.hpp"

using namespace colibri;

namespace {

shape dims(std::initializer_list<std::uint64_t> sizes) { return shape::make(sizes).value(); }

}  // namespace

TEST_CASE("a tensor knows its rows, and a slice is one matrix of a stack") {
    auto memory = aligned_buffer::allocate(3 * 5 * 2 * 18).value();
    const tensor_ref t = tensor_ref::make(dtype::q4_0, dims({64, 5, 3}), {memory.data(), memory.size()}).value();
    CHECK(t.type() == dtype::q4_0);
    CHECK(t.columns() == 64);
    CHECK(t.rows() == 15);
    CHECK(t.slices() == 3);
    CHECK(t.row_bytes() == 36);
    CHECK(t.bytes() == memory.size());
    CHECK(t.row(14).data() == memory.data() + 14 * 36);
    CHECK(t.row(14).size() == 36);

    const tensor_ref expert = t.slice(2);
    CHECK(expert.dims() == dims({64, 5}));
    CHECK(expert.bytes() == 5 * 36);
    CHECK(expert.data() == memory.data() + 2 * 5 * 36);
    CHECK(t.slice(0).data() == t.data());

    const tensor_ref moved = expert.at(memory.data());
    CHECK(moved.data() == memory.data());
    CHECK(moved.dims() == expert.dims());
}

TEST_CASE("four dimensions: slices count both outer ones") {
    std::vector<float> memory(2 * 3 * 4 * 5);
    const auto bytes = std::as_bytes(std::span(memory));
    const tensor_ref t = tensor_ref::make(dtype::f32, dims({2, 3, 4, 5}), bytes).value();
    CHECK(t.slices() == 20);
    CHECK(t.slice(19).data() == bytes.data() + 19 * 24);
    CHECK(t.slice(19).rows() == 3);
}

TEST_CASE("a tensor whose bytes don't fit its shape is refused by kind") {
    auto memory = aligned_buffer::allocate(144).value();
    const std::span<const std::byte> bytes(memory.data(), memory.size());
    CHECK(tensor_ref::make(dtype::q4_k, dims({256}), bytes));
    CHECK(tensor_ref::make(dtype::q4_k, dims({255}), bytes).error().code == errc::bad_shape);
    CHECK(tensor_ref::make(dtype::q4_k, dims({256, 2}), bytes).error().code == errc::truncated);
    CHECK(tensor_ref::make(dtype::q4_0, dims({32}), bytes).error().code == errc::bad_count);
    CHECK(tensor_ref::make(dtype::f32, dims({4}), {}).error().code == errc::truncated);
    CHECK(tensor_ref::make(static_cast<dtype>(5), dims({4}), bytes).error().code == errc::unsupported);
    const std::uint64_t many = std::uint64_t{1} << 62;
    CHECK(tensor_ref::make(dtype::f32, dims({many}), bytes).error().code == errc::overflow);
    CHECK(tensor_ref::make(dtype::f32, dims({1, many}), bytes).error().code == errc::overflow);
    CHECK(tensor_ref::make(dtype::f32, dims({2}), bytes.subspan(2, 8)).error().code == errc::bad_alignment);
    CHECK(tensor_ref::make(dtype::q8_0, dims({32}), bytes.subspan(1, 34)).error().code == errc::bad_alignment);
    CHECK(tensor_ref::make(dtype::q8_0, dims({32}), bytes.subspan(2, 34)));
}

TEST_CASE("types that can't be computed with can still be carried") {
    auto memory = aligned_buffer::allocate(292).value();
    const tensor_ref t = tensor_ref::make(dtype::q8_k, dims({256}), {memory.data(), memory.size()}).value();
    const auto refused = with_view(t, [](auto view) { return view.rows; });
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::unsupported);
    CHECK(refused.error().message.find("Q8_K") != std::string::npos);
}

TEST_CASE("with_view gives the typed matrix") {
    auto memory = aligned_buffer::allocate(6 * 2 * 144).value();
    const tensor_ref t = tensor_ref::make(dtype::q4_k, dims({512, 3, 2}), {memory.data(), memory.size()}).value();
    bool ran = false;
    with_view(t, [&]<class F>(tensor_view<F> view) {
        CHECK(F::type == dtype::q4_k);
        CHECK(view.rows == 6);
        CHECK(view.columns == 512);
        CHECK(view.blocks_per_row() == 2);
        CHECK(view.row_bytes() == 288);
        CHECK(reinterpret_cast<const std::byte*>(view.row(5)) == memory.data() + 5 * 288);
        const auto part = view.row_range(2, 3);
        CHECK(part.rows == 3);
        CHECK(part.row(0) == view.row(2));
        ran = true;
    }).value();
    CHECK(ran);
}

TEST_CASE("view_as gives the matrix in the format that is asked for, or says which one it has") {
    std::vector<float> memory = {1, 2, 3, 4, 5, 6};
    const tensor_ref t = tensor_ref::make(dtype::f32, dims({3, 2}), std::as_bytes(std::span(memory))).value();
    const auto view = view_as<quant::f32>(t).value();
    CHECK(view.row(1)[2].value() == 6);
    const auto refused = view_as<quant::f16>(t);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::bad_type);
    CHECK(refused.error().message.find("F32") != std::string::npos);
    CHECK(refused.error().message.find("F16") != std::string::npos);
}

TEST_CASE("a tensor of panels: each slice has its own, and rows can't be seen in place") {
    const auto shape_of = dims({64, 21, 3});
    const std::size_t bytes = tensor_ref::panels_bytes(dtype::q4_0, shape_of).value();
    CHECK(bytes == 3 * 2 * quant::panel_bytes(dtype::q4_0, 64));
    auto memory = aligned_buffer::allocate(bytes).value();
    const std::span<const std::byte> all(memory.data(), bytes);
    const tensor_ref t = tensor_ref::make_panels(dtype::q4_0, shape_of, all).value();
    CHECK(t.layout() == layout::panels);
    CHECK(t.rows() == 63);
    CHECK(t.row_bytes() == 36);
    CHECK(t.bytes() == bytes);
    CHECK(t.slice_panels() == 2);
    CHECK(t.panel(1) == memory.data() + t.panel_bytes());
    CHECK(t.slice(2).data() == t.panel(4));
    CHECK(t.slice(2).bytes() == 2 * t.panel_bytes());
    CHECK(t.slice(2).layout() == layout::panels);
    CHECK(view_as<quant::q4_0>(t).error().code == errc::unsupported);
    CHECK(with_view(t, [](auto view) { return view.rows; }).error().code == errc::unsupported);

    CHECK(tensor_ref().layout() == layout::file);
    CHECK(tensor_ref::make_panels(dtype::q4_0, shape_of, all.first(bytes - 64)).error().code == errc::truncated);
    CHECK(tensor_ref::make_panels(dtype::q4_0, dims({64, 16}), all).error().code == errc::bad_count);
    CHECK(tensor_ref::make_panels(dtype::q4_0, dims({64}), all.subspan(32, quant::panel_bytes(dtype::q4_0, 64))).error().code ==
          errc::bad_alignment);
    CHECK(tensor_ref::panels_bytes(dtype::f32, shape_of).error().code == errc::unsupported);
    CHECK(tensor_ref::panels_bytes(dtype::q8_k, dims({256})).error().code == errc::unsupported);
    CHECK(tensor_ref::panels_bytes(dtype::q4_0, dims({63})).error().code == errc::bad_shape);
    CHECK(tensor_ref::panels_bytes(dtype::q8_0, dims({32, std::uint64_t{1} << 58})).error().code == errc::overflow);
}
