#include "colibri/text/nfc.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace colibri::text;

namespace {

std::string utf8(std::u32string_view codes) {
    std::string out;
    for (const char32_t code : codes) append_utf8(out, code);
    return out;
}

}  // namespace

TEST_CASE("text is normalised as UAX #15 says") {
    const std::pair<std::u32string, std::u32string> cases[] = {
        {U"e\u0301", U"\u00e9"},
        {U"\u212b", U"\u00c5"},  // a singleton
        {U"A\u030a", U"\u00c5"},
        {U"\u0958", U"\u0915\u093c"},  // excluded from composition
        {U"\u1100\u1161", U"\uac00"},  // Hangul
        {U"\u1100\u1161\u11a8", U"\uac01"},
        {U"\uac00\u11a8", U"\uac01"},
        {U"\uac01\u11a8", U"\uac01\u11a8"},  // a syllable takes one final consonant
        {U"s\u0307\u0323", U"\u1e69"},       // marks change places
        {U"s\u0323\u0307", U"\u1e69"},
        {U"a\u0315\u0300\u05ae\u0062", U"\u00e0\u05ae\u0315b"},
        {U"a\u0300\u0301", U"\u00e0\u0301"},  // the second one is blocked
        {U"a\u0327\u0308", U"\u00e4\u0327"},  // this one isn't: another class stands between
        {U"\u0308a", U"\u0308a"},             // a mark before any starter
        {U"\u09c7\u09be", U"\u09cb"},         // two starters that compose
        {U"\u09c7x\u09be", U"\u09c7x\u09be"},
        {U"\u0344", U"\u0308\u0301"},                        // marks that decompose
        {U"\U0001d157\U0001d165", U"\U0001d157\U0001d165"},  // excluded
        {U"\ufa0c\uf900", U"\u5140\u8c48"},                  // compatibility ideographs
    };
    for (const auto& one : cases) {
        const std::string from = utf8(one.first), to = utf8(one.second);
        CAPTURE(from);
        CHECK(to_nfc(from) == to);
        CHECK(to_nfc(to) == to);
    }
}

TEST_CASE("what is surely NFC does not change, for every code point alone and behind a letter") {
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
        if (code == 0xD800) code = 0xE000;
        for (const std::string& text : {utf8({&code, 1}), "a" + utf8({&code, 1})}) {
            const std::string whole = [&] {  // by the long way, whatever the short cut says
                std::u32string codes;
                for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).size) {
                    detail::append_decomposed(codes, decode_utf8(text, at).value);
                }
                detail::compose(codes);
                return utf8(codes);
            }();
            if (to_nfc(text) != whole) FAIL("U+" << static_cast<unsigned>(code));
            if (is_surely_nfc(text) && whole != text) FAIL("surely, but no: U+" << static_cast<unsigned>(code));
        }
    }
}

TEST_CASE("bytes that are not UTF-8 stay and separate") {
    CHECK(to_nfc("e\xFF\xCC\x81") == "e\xFF\xCC\x81");
    CHECK(to_nfc("e\xCC\x81\xFF") == "\xC3\xA9\xFF");
    CHECK(to_nfc("\xE2\x82\xCC\x81") == "\xE2\x82\xCC\x81");
}
