#include "colibri/quant/file_diff.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/made_gguf.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {


std::string floats(const std::vector<float>& numbers) { return made::bytes_of(numbers); }

quant::file_diff compare(const gguf::file& a, const gguf::file& b, unsigned threads = 2) {
    thread_pool pool(threads);
    return quant::diff_files(a, b, pool).value();
}

}  // namespace

TEST_CASE("equal models have no difference, however they are cut and ordered") {
    const scratch::folder folder;
    gguf::metadata meta, cut;
    meta.set("k", 1);
    cut.set("split.count", 1);
    cut.set("k", 1);
    const auto a = gguf::file::open(made::gguf(folder.path() / "a", meta, {{"x", dtype::f32, {9}}, {"y", dtype::q8_k, {256}}})).value();
    const auto b = gguf::file::open(made::gguf(folder.path() / "b", cut, {{"y", dtype::q8_k, {256}}, {"x", dtype::f32, {9}}})).value();
    const auto found = compare(a, b);
    CHECK(found.same());
    CHECK(found.same_keys == 1);
    CHECK(found.same_tensors == 2);
}

TEST_CASE("keys and tensors that one model lacks, other values, shapes and types") {
    const scratch::folder folder;
    gguf::metadata one, two;
    one.set("same", "s");
    one.set("changed", 1);
    one.set("only.a", true);
    two.set("only.b", 2.5);
    two.set("changed", 1u);  // another type is another value
    two.set("same", "s");
    const auto a = gguf::file::open(made::gguf(folder.path() / "a", one,
                                               {{"only.a", dtype::f32, {1}}, {"shape", dtype::f32, {2, 3}}, {"bytes", dtype::q8_k, {256}, std::string(292, 'a')}}))
                       .value();
    const auto b = gguf::file::open(made::gguf(folder.path() / "b", two,
                                               {{"shape", dtype::f32, {3, 2}}, {"bytes", dtype::q8_k, {256}, std::string(292, 'b')}, {"only.b", dtype::f32, {1}}}))
                       .value();
    const auto found = compare(a, b);
    REQUIRE(found.keys.size() == 3);
    CHECK(found.keys[0].key == "changed");
    CHECK(found.keys[1].key == "only.a");
    CHECK(found.keys[1].b == nullptr);
    CHECK(found.keys[2].key == "only.b");
    CHECK(found.keys[2].a == nullptr);
    REQUIRE(found.tensors.size() == 4);
    CHECK(found.tensors[0].b == nullptr);
    CHECK(found.tensors[1].a->name == "shape");
    CHECK(!found.tensors[1].values);
    CHECK(found.tensors[2].a->name == "bytes");  // differ, but nobody can decode them
    CHECK(!found.tensors[2].values);
    CHECK(found.tensors[3].a == nullptr);
}

TEST_CASE("differences of values have their figures") {
    const scratch::folder folder;
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const auto a = gguf::file::open(made::gguf(folder.path() / "a", {}, {{"t", dtype::f32, {8}, floats({1, 2, 3, 4, nan, nan, infinity, 0})}})).value();
    const auto b = gguf::file::open(made::gguf(folder.path() / "b", {}, {{"t", dtype::f32, {8}, floats({1, 2.5f, 3, 1, nan, 0, -infinity, -0.0f})}})).value();
    const auto found = compare(a, b);
    REQUIRE(found.tensors.size() == 1);
    const auto& values = *found.tensors[0].values;
    CHECK(values.differing == 4);
    CHECK(values.one_sided == 2);
    CHECK(values.largest == 3.0);
    CHECK(values.rms == doctest::Approx(std::sqrt(9.25 / 8)));
    CHECK(values.rms_a == doctest::Approx(std::sqrt(30.0 / 8)));
}

TEST_CASE("tensors of different types are compared by value, with the same bits for any number of threads") {
    const scratch::folder folder;
    std::vector<float> numbers(256 * 5000);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
    std::string halves;
    double squares = 0, largest = 0;
    for (const float x : numbers) {
        const std::uint16_t bits = f32_to_f16(x);
        halves.append(reinterpret_cast<const char*>(&bits), 2);
        const double difference = std::fabs(static_cast<double>(x) - static_cast<double>(f16_to_f32(bits)));
        squares += difference * difference;
        largest = std::max(largest, difference);
    }
    const auto a = gguf::file::open(made::gguf(folder.path() / "a", {}, {{"t", dtype::f32, {256, 5000}, floats(numbers)}})).value();
    const auto b = gguf::file::open(made::gguf(folder.path() / "b", {}, {{"t", dtype::f16, {256, 5000}, halves}})).value();
    const auto one = compare(a, b, 1), three = compare(a, b, 3);
    REQUIRE(one.tensors.size() == 1);
    REQUIRE(one.tensors[0].values);
    CHECK(one.tensors[0].values->largest == largest);
    // The sums are taken in another order: 10^6 additions, each off by at most 2^-53 of the sum.
    CHECK(one.tensors[0].values->rms == doctest::Approx(std::sqrt(squares / static_cast<double>(numbers.size()))).epsilon(1e-9));
    CHECK(one.tensors[0].values->rms == three.tensors[0].values->rms);
    CHECK(one.tensors[0].values->rms_a == three.tensors[0].values->rms_a);
}
