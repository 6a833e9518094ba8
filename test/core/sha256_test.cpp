#include "colibri/core/sha256.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace colibri;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

TEST_CASE("the vectors that the standard's authors published") {
    const auto hash = [](std::string_view text) { return hex_text(sha256::of(bytes_of(text))); };
    CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    CHECK(hash(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("pieces don't matter, around every length that padding treats differently") {
    std::mt19937 random(3);
    for (std::size_t size = 0; size < 300; ++size) {
        std::string text(size, '\0');
        for (char& c : text) c = static_cast<char>(random());
        sha256 hash;
        for (std::string_view left = text; !left.empty();) {
            const std::size_t now = std::min<std::size_t>(left.size(), random() % 140);
            hash.update(bytes_of(left.substr(0, now)));
            left.remove_prefix(now);
        }
        CHECK(hash.finish() == sha256::of(bytes_of(text)));
    }
}
