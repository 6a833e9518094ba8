#include "colibri/gguf/tensor_info.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace colibri;

TEST_CASE("the type table is in order, with names that are found again") {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < dtype_table.size(); ++i) {
        const auto& row = dtype_table[i];
        if (i != 0) CHECK(static_cast<unsigned>(row.type) > static_cast<unsigned>(dtype_table[i - 1].type));
        CHECK(names.insert(row.name).second);
        CHECK(name(row.type) == row.name);
        CHECK(find_dtype(static_cast<std::uint32_t>(row.type))->block_bytes == row.block_bytes);
        CHECK(row.block_size != 0);
    }
    for (const unsigned gone : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 97u, 255u, 0x80000000u})
        CHECK(!find_dtype(gone));
    CHECK(name(static_cast<dtype>(4)) == "?");
}

TEST_CASE("sizes of tensors, and shapes that none can have") {
    using gguf::tensor_bytes;
    CHECK(tensor_bytes(dtype::f32, {8, 16, 1, 1}, 2).value() == 512);
    CHECK(tensor_bytes(dtype::f32, {1, 1, 1, 1}, 0).value() == 4);
    CHECK(tensor_bytes(dtype::q4_k, {256, 3, 2, 1}, 3).value() == 6 * 144);
    CHECK(tensor_bytes(dtype::q4_0, {576, 49152, 1, 1}, 2).value() == 576 / 32 * 18 * std::uint64_t{49152});
    const auto refused = [](dtype type, std::array<std::uint64_t, 4> dims, errc code) {
        auto got = tensor_bytes(type, dims, 2);
        REQUIRE(!got);
        CHECK(got.error().code == code);
        CHECK(!got.error().message.empty());
    };
    constexpr std::uint64_t most = ~std::uint64_t{0} >> 1;
    refused(dtype::q4_0, {31, 1, 1, 1}, errc::bad_shape);
    refused(dtype::q4_k, {32, 8, 1, 1}, errc::bad_shape);
    refused(dtype::f32, {0, 1, 1, 1}, errc::bad_shape);
    refused(dtype::f32, {8, 0, 1, 1}, errc::bad_shape);
    refused(dtype::f32, {most + 1, 1, 1, 1}, errc::bad_shape);
    refused(dtype::f32, {most, 1, 1, 1}, errc::overflow);
    CHECK(tensor_bytes(dtype::i8, {most, 1, 1, 1}, 1).value() == most);
    refused(dtype::i8, {most, 2, 1, 1}, errc::overflow);
    refused(dtype::i8, {std::uint64_t{1} << 32, std::uint64_t{1} << 32, 1, 1}, errc::overflow);
    refused(dtype::i8, {3, 6148914691236517206, 1, 1}, errc::overflow);
    refused(static_cast<dtype>(4), {32, 1, 1, 1}, errc::bad_type);
}

TEST_CASE("a tensor's rows") {
    gguf::tensor_info info;
    info.type = dtype::q8_0;
    info.n_dims = 3;
    info.dims = {64, 5, 2, 1};
    info.bytes = gguf::tensor_bytes(info.type, info.dims, info.n_dims).value();
    CHECK(info.elements() == 640);
    CHECK(info.rows() == 10);
    CHECK(info.row_bytes() == 68);
    CHECK(gguf::shape_text(info) == "[64, 5, 2]");
    info.n_dims = 0;
    CHECK(gguf::shape_text(info) == "[]");
}

TEST_CASE("types that can't be read are named with what to do") {
    const auto says = [](std::uint32_t number, std::string_view word) {
        return gguf::unknown_dtype_text(number).find(word) != std::string::npos;
    };
    CHECK(says(4, "Q4_2"));
    CHECK(says(5, "convert the model again"));
    CHECK(says(31, "Q4_0 file"));
    CHECK(says(37, "IQ4_NL file"));
    for (const std::uint32_t number : {97u, 133u, 137u, 144u, 202u, 335u}) {
        CHECK(says(number, "ik_llama.cpp"));
        CHECK(says(number, "type " + std::to_string(number)));
    }
    CHECK(says(60, "type 60 is unknown"));
    CHECK(says(0x80000000u, "type 2147483648 is unknown"));
}
