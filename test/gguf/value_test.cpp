#include "colibri/gguf/value.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace colibri;
using gguf::value;
using gguf::value_type;

namespace {

/// `of` written and read again.
value again(const value& of) {
    std::string bytes;
    of.encode(bytes);
    byte_reader in(std::as_bytes(std::span(bytes.data(), bytes.size())));
    auto out = value::decode(in, of.type());
    REQUIRE(out);
    REQUIRE(in.remaining() == 0);
    return *out;
}

/// A value of any type, arrays nested up to `depth` more levels.
value any_value(std::mt19937& random, int depth) {
    switch (random() % (depth > 0 ? 10 : 7)) {
        case 0: return value::of(static_cast<std::uint8_t>(random()));
        case 1: return value::of(static_cast<std::int64_t>(random()) - 1000000000);
        case 2: return value::of(static_cast<float>(random()) * 1e-5f);
        case 3: return value::of(random() % 2 == 0);
        case 4: return value::of(std::string(random() % 40, 'x'));
        case 5: {
            std::vector<std::uint16_t> numbers(random() % 20);
            for (auto& number : numbers) number = static_cast<std::uint16_t>(random());
            return value::array(std::span<const std::uint16_t>(numbers));
        }
        case 6: {
            std::vector<std::string> texts(random() % 20);
            for (auto& text : texts) text.assign(random() % 5, static_cast<char>('a' + random() % 26));
            return value::strings(texts);
        }
        default: {
            std::vector<value> inner;
            for (auto i = random() % 5; i != 0; --i) {
                value one = any_value(random, depth - 1);
                if (one.is_array()) inner.push_back(one);
            }
            return value::arrays(inner);
        }
    }
}

}  // namespace

TEST_CASE_TEMPLATE("numbers keep type and value", T, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                   std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, float, double) {
    for (const T number : {T{0}, T{1}, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()}) {
        const value made = value::of(number);
        CHECK(made.type() == gguf::value_type_of<T>);
        CHECK(made.element_type() == made.type());
        CHECK(made.size() == 1);
        CHECK(!made.is_array());
        CHECK(made.as<T>().value() == number);
        CHECK(again(made) == made);
        CHECK(made.element(0) == made);
    }
    CHECK(gguf::fixed_bytes(gguf::value_type_of<T>) == sizeof(T));
}

TEST_CASE("integers convert to every integer type that holds them, and to no other") {
    CHECK(value::of(std::uint8_t{200}).as<std::int64_t>().value() == 200);
    CHECK(value::of(std::int64_t{7}).as<std::uint8_t>().value() == 7);
    CHECK(value::of(std::uint64_t{1} << 63).as<std::uint64_t>().value() == std::uint64_t{1} << 63);
    const auto refused = [](auto got, errc code) {
        REQUIRE(!got);
        CHECK(got.error().code == code);
        return got.error().message;
    };
    CHECK(refused(value::of(-2).as<std::uint32_t>(), errc::bad_value) == "is -2, outside 0 to 4294967295");
    CHECK(refused(value::of(300u).as<std::uint8_t>(), errc::bad_value) == "is 300, outside 0 to 255");
    refused(value::of(std::uint64_t{1} << 63).as<std::int64_t>(), errc::bad_value);
    CHECK(refused(value::of(2.0f).as<int>(), errc::bad_type) == "must be a whole number, but is of type f32");
    refused(value::of(true).as<int>(), errc::bad_type);
    refused(value::of("2").as<int>(), errc::bad_type);
}

TEST_CASE("floats come from floats, and from integers that stay exact") {
    CHECK(value::of(0.5f).as<double>().value() == 0.5);
    CHECK(value::of(1e-5).as<float>().value() == 1e-5f);
    CHECK(std::isnan(value::of(std::nanf("")).as<double>().value()));
    CHECK(value::of(std::numeric_limits<double>::infinity()).as<float>().value() ==
          std::numeric_limits<float>::infinity());
    CHECK(value::of(1e300).as<float>().error().code == errc::bad_value);
    CHECK(value::of(10000).as<float>().value() == 10000.0f);
    CHECK(value::of(-(1 << 24)).as<float>().value() == -16777216.0f);
    CHECK(value::of((1 << 24) + 1).as<float>().error().code == errc::bad_value);
    CHECK(value::of((1 << 24) + 1).as<double>().value() == 16777217.0);
    CHECK(value::of(std::numeric_limits<std::int64_t>::min()).as<double>().error().code == errc::bad_value);
    CHECK(value::of(true).as<float>().error().code == errc::bad_type);
    CHECK(value::of("1").as<float>().error().code == errc::bad_type);
}

TEST_CASE("bools and texts convert from nothing else") {
    CHECK(value::of(true).as<bool>().value());
    CHECK(!value::of(false).as<bool>().value());
    CHECK(value::of(1u).as<bool>().error().message == "must be true or false, but is of type u32");
    const value text = value::of("zwölf");
    CHECK(text.as<std::string>().value() == "zwölf");
    CHECK(text.as<std::string_view>().value() == "zwölf");
    CHECK(text.text() == "zwölf");
    CHECK(value::of(1u).as<std::string>().error().message == "must be a text, but is of type u32");
    CHECK(value::of("").as<std::string>().value().empty());
}

TEST_CASE("arrays of numbers") {
    const std::vector<std::int32_t> numbers = {1, -2, 3};
    const value made = value::array(std::span<const std::int32_t>(numbers));
    CHECK(made.is_array());
    CHECK(made.element_type() == value_type::i32);
    CHECK(made.size() == 3);
    CHECK(made.to_vector<std::int64_t>().value() == std::vector<std::int64_t>{1, -2, 3});
    CHECK(made.to_vector<float>().value() == std::vector<float>{1, -2, 3});
    CHECK(made.to_vector<unsigned>().error().message == "element 1 is -2, outside 0 to 4294967295");
    CHECK(made.at<int>(1).value() == -2);
    CHECK(made.at<int>(3).error().code == errc::invalid_argument);
    CHECK(made.as<int>().error().message == "must be a single value, but is of type array");
    CHECK(made.to_vector<std::string>().error().code == errc::bad_type);
    CHECK(value::of(1).to_vector<int>().error().message == "must be an array, but is of type i32");
    CHECK(made.element(2) == value::of(3));
    CHECK(again(made) == made);
    const bool bools[] = {true, false};
    CHECK(value::array(std::span<const bool>(bools)).to_vector<bool>().value() == std::vector<bool>{true, false});
    CHECK(value::array(std::span<const float>()).to_vector<std::string>().value().empty());
}

TEST_CASE("arrays of texts, empty ones and ones with any bytes too") {
    const std::vector<std::string> texts = {
        "", "a", std::string("nul\0inside", 10), "\xff\xfe", std::string(100000, 'x'), ""};
    const value made = value::strings(texts);
    CHECK(made.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CHECK(made.text_at(i) == texts[i]);
        CHECK(made.at<std::string_view>(i).value() == texts[i]);
        CHECK(made.element(i) == value::of(texts[i]));
    }
    CHECK(made.to_vector<std::string>().value() == texts);
    CHECK(made.to_vector<int>().error().code == errc::bad_type);
    CHECK(again(made) == made);
    CHECK(again(made).text_at(4) == texts[4]);
}

TEST_CASE("arrays of arrays") {
    const float floats[] = {0.5f};
    const std::vector<std::string> texts = {"b", "cc"};
    const value inner[] = {value::array(std::span<const float>(floats)), value::strings(texts), value::arrays({})};
    const value made = value::arrays(inner);
    const value outer[] = {made, made};
    const value nested = value::arrays(outer);
    CHECK(nested.size() == 2);
    CHECK(nested.element_type() == value_type::array);
    CHECK(nested.element(1) == made);
    CHECK(nested.element(1).element(1).text_at(1) == "cc");
    CHECK(nested.element(0).element(2).size() == 0);
    CHECK(nested.at<int>(0).error().code == errc::bad_type);
    CHECK(again(nested) == nested);
}

TEST_CASE("any value comes back from its bytes, and no cut of them does") {
    std::mt19937 random(7);
    for (int round = 0; round < 500; ++round) {
        const value made = any_value(random, 4);
        REQUIRE(again(made) == made);
        std::string bytes;
        made.encode(bytes);
        if (bytes.size() > 300) continue;
        for (std::size_t size = 0; size < bytes.size(); ++size) {
            // A copy of the exact size, so that a sanitizer sees a read past its end.
            const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
            byte_reader in(std::as_bytes(std::span(cut)));
            REQUIRE(!value::decode(in, made.type()));
        }
    }
}

TEST_CASE("nesting has a limit") {
    const auto nested = [](unsigned depth) {
        value out = value::arrays({});  // depth 1
        for (unsigned i = 1; i < depth; ++i) out = value::arrays(std::span(&out, 1));
        std::string bytes;
        out.encode(bytes);
        byte_reader in(std::as_bytes(std::span(bytes.data(), bytes.size())));
        return value::decode(in, value_type::array);
    };
    CHECK(nested(gguf::max_array_depth - 1));
    auto refused = nested(gguf::max_array_depth);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::bad_value);
    CHECK(refused.error().message.find("depth") != std::string::npos);
}

TEST_CASE("names of types") {
    for (std::uint32_t number = 0; number < 13; ++number) {
        CHECK(gguf::is_value_type(number));
        CHECK(name(static_cast<value_type>(number)) != "?");
    }
    CHECK(!gguf::is_value_type(13));
    CHECK(gguf::is_integer(value_type::i8));
    CHECK(!gguf::is_integer(value_type::boolean));
    CHECK(!gguf::is_integer(value_type::f64));
    CHECK(!gguf::is_integer(value_type::string));
    CHECK(gguf::is_float(value_type::f64));
}
