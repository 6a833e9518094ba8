#include "colibri/quant/format_list.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace colibri;
using namespace colibri::quant;

static_assert(weight_formats::size == 28);
static_assert(is_supported(dtype::f32) && is_supported(dtype::q4_k) && is_supported(dtype::mxfp4));
static_assert(!is_supported(dtype::q8_k), "an intermediate format, not one of weights");
static_assert(is_supported(dtype::iq1_s) && !is_supported(dtype::i32) && !is_supported(static_cast<dtype>(4)));

// What each format is, as kernels see it.
static_assert(float_format<f32> && float_format<f16> && float_format<bf16> && !float_format<q8_0>);
static_assert(code_format<q4_0> && !minimum_format<q4_0> && !super_format<q4_0> && !code_format<f16>);
static_assert(minimum_format<q4_1> && minimum_format<q5_1> && !minimum_format<q4_k>);
static_assert(super_format<q3_k> && !super_minimum_format<q3_k> && super_format<iq4_xs> && super_format<q6_k>);
static_assert(super_format<iq1_s> && super_format<iq3_s> && super_format<nvfp4>);
static_assert(code_format<q1_0> && !super_format<tq2_0> && !super_format<q2_0>);
static_assert(super_minimum_format<q2_k> && super_minimum_format<q4_k> && super_minimum_format<q5_k>);
static_assert(encodable_format<q8_0> && encodable_format<bf16> && encodable_format<mxfp4> && !encodable_format<q4_k>);

namespace {

struct wrong_size {
    static constexpr dtype type = dtype::q4_0;
    static constexpr std::size_t block_size = 32;
    std::uint8_t bytes[19];
    void decode(float*) const noexcept {}
};
static_assert(!block_format<wrong_size>, "a format whose size contradicts the table must not pass");

}  // namespace

TEST_CASE("visit_format finds the struct of every listed type") {
    std::size_t count = 0;
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        const auto found =
            visit_format(F::type, []<class G>(std::type_identity<G>) { return std::string(name(G::type)); });
        REQUIRE(found);
        CHECK(*found == name(F::type));
        ++count;
    });
    CHECK(count == weight_formats::size);
}

TEST_CASE("visit_format agrees with the table for every type that GGUF defines") {
    for (const auto& row : dtype_table) {
        CAPTURE(std::string(row.name));
        const auto bytes = visit_format(row.type, []<class F>(std::type_identity<F>) { return sizeof(F); });
        CHECK(bool(bytes) == is_supported(row.type));
        if (bytes) {
            CHECK(*bytes == row.block_bytes);
        } else {
            CHECK(bytes.error().code == errc::unsupported);
            CHECK(bytes.error().message.find(row.name) != std::string::npos);
        }
    }
}

TEST_CASE("visit_format passes results on and makes one of void") {
    const auto failed = visit_format(dtype::q8_0, [](auto) -> result<int> { return error{errc::limit, "as asked"}; });
    static_assert(std::is_same_v<decltype(failed), const result<int>>);
    CHECK(failed.error().code == errc::limit);

    bool called = false;
    const result<void> done = visit_format(dtype::q8_0, [&](auto) { called = true; });
    CHECK(done);
    CHECK(called);
}

TEST_CASE("an undefined type number is named by its number") {
    const auto missing = visit_format(static_cast<dtype>(4711), [](auto) { return 0; });
    REQUIRE(!missing);
    CHECK(missing.error().code == errc::unsupported);
    CHECK(missing.error().message.find("4711") != std::string::npos);
}
