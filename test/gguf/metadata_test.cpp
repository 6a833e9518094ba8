#include "colibri/gguf/metadata.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace colibri;
using gguf::metadata;
using gguf::value;

TEST_CASE("keys keep their order and are found") {
    metadata meta;
    meta.set("z", 1u);
    meta.set("a", "text");
    meta.set("m", true);
    CHECK(meta.size() == 3);
    CHECK(meta.entries()[0].key == "z");
    CHECK(meta.entries()[1].key == "a");
    CHECK(meta.find("m")->as<bool>().value());
    CHECK(meta.find("q") == nullptr);
    CHECK(meta.contains("a"));
    meta.set("z", value::of(2.5));  // in place
    CHECK(meta.entries()[0].value == value::of(2.5));
    CHECK(meta.size() == 3);
    CHECK(!meta.insert("a", value::of(1)));
    CHECK(meta.get<std::string>("a").value() == "text");
    CHECK(meta.insert("b", value::of(1)));
    CHECK(meta.entries()[3].key == "b");
}

TEST_CASE("removing a key leaves the others where they were") {
    metadata meta;
    for (const char* key : {"a", "b", "c", "d"}) meta.set(key, key);
    CHECK(meta.remove("b"));
    CHECK(!meta.remove("b"));
    CHECK(meta.size() == 3);
    for (const char* key : {"a", "c", "d"}) CHECK(meta.get<std::string_view>(key).value() == key);
    CHECK(meta.find("b") == nullptr);
    meta.set("b", 1);
    CHECK(meta.entries()[3].key == "b");
}

TEST_CASE("what is missing or of another type is named") {
    metadata meta;
    meta.set("n", -1);
    meta.set("t", "text");
    const float floats[] = {1.0f, 2.5f};
    meta.set("f", value::array(std::span<const float>(floats)));
    auto missing = meta.get<unsigned>("llama.block\x1b_count");
    REQUIRE(!missing);
    CHECK(missing.error().code == errc::missing_key);
    CHECK(missing.error().message == "the metadata key 'llama.block\\x1b_count' is missing");
    auto negative = meta.get<unsigned>("n");
    REQUIRE(!negative);
    CHECK(negative.error().code == errc::bad_value);
    CHECK(negative.error().message == "the metadata key 'n' is -1, outside 0 to 4294967295");
    auto wrong = meta.get_or<unsigned>("t", 5);
    REQUIRE(!wrong);
    CHECK(wrong.error().code == errc::bad_type);
    CHECK(wrong.error().message == "the metadata key 't' must be a whole number, but is of type string");
    CHECK(meta.get_or<unsigned>("u", 5).value() == 5);
    CHECK(meta.get_or<std::string_view>("u", "none").value() == "none");
    CHECK(meta.get_array<double>("f").value() == std::vector<double>{1.0, 2.5});
    auto element = meta.get_array<int>("f");
    REQUIRE(!element);
    CHECK(element.error().message == "the metadata key 'f' element 0 must be a whole number, but is of type f32");
    CHECK(meta.get_array<int>("g").error().code == errc::missing_key);
    CHECK(meta.get_array<int>("n").error().code == errc::bad_type);
}

TEST_CASE("equal means the same keys with the same values in the same order") {
    metadata a;
    metadata b;
    a.set("x", 1);
    a.set("y", 2);
    b.set("x", 1);
    CHECK(!(a == b));
    b.set("y", 2);
    CHECK(a == b);
    b.set("y", 2u);
    CHECK(!(a == b));
    metadata c;
    c.set("y", 2);
    c.set("x", 1);
    CHECK(!(a == c));
    const metadata copy = a;
    CHECK(copy == a);
    CHECK(copy.get<int>("y").value() == 2);
}
