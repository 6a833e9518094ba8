#include "colibri/convert/sentencepiece.hpp"

#include "convert/made_files.hpp"

using namespace colibri;
using convert::read_sentencepiece;

namespace {

std::string field(unsigned number, unsigned wire, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | wire)) + bytes;
}
std::string nested(unsigned number, const std::string& bytes) {
    return field(number, 2, std::string(1, static_cast<char>(bytes.size())) + bytes);
}
std::string number(unsigned field_number, char value) { return field(field_number, 0, std::string(1, value)); }
std::string floating(unsigned field_number, float value) {
    std::string raw(4, '\0');
    std::memcpy(raw.data(), &value, 4);
    return field(field_number, 5, raw);
}
std::string piece(const std::string& name, float score, char type) {
    return nested(1, nested(1, name) + floating(2, score) + number(3, type));
}

const std::string model = piece("<unk>", 0.0f, 2) + piece("<0x0A>", 0.0f, 6) + nested(1, nested(1, "ab") + floating(2, -1.5f)) +
                          nested(2, number(3, 2)) + nested(3, number(3, 0) + number(4, 0));

}  // namespace

TEST_CASE("sentencepiece: pieces, kind and normalisation") {
    const auto got = read_sentencepiece(model + number(9, 1) + field(10, 1, "12345678"));
    REQUIRE_MESSAGE(got, (got ? std::string() : got.error().text()));
    REQUIRE(got->pieces.size() == 3);
    CHECK(got->pieces[0].type == text::token_type::unknown);
    CHECK(got->pieces[1].type == text::token_type::byte);
    CHECK(got->pieces[2].text == "ab");
    CHECK(got->pieces[2].score == -1.5f);
    CHECK(got->pieces[2].type == text::token_type::normal);
    CHECK(got->kind == convert::sentencepiece_model::algorithm::bpe);
    CHECK(!got->adds_space_prefix);
    CHECK(!got->removes_extra_spaces);
    CHECK(!got->has_normalization_table);
    CHECK(read_sentencepiece(piece("a", 0, 1))->kind ==
          convert::sentencepiece_model::algorithm::unigram);  // the format's default
    CHECK(read_sentencepiece(piece("a", 0, 1) + nested(3, nested(2, "table")))->has_normalization_table);
}

TEST_CASE("sentencepiece: damage is refused") {
    CHECK(read_sentencepiece("").error().code == errc::bad_count);
    CHECK(read_sentencepiece(piece("a", 0, 7)).error().code == errc::bad_type);
    CHECK(read_sentencepiece(piece("a", 0, 0)).error().code == errc::bad_type);
    CHECK(read_sentencepiece(piece("a", std::nanf(""), 1)).error().code == errc::bad_value);
    CHECK(read_sentencepiece(piece("a", 0, 1) + nested(2, number(3, 9))).error().code == errc::bad_type);
    CHECK(read_sentencepiece(model + std::string(12, '\xff')).error().code == errc::truncated);  // a number without an end
    CHECK(read_sentencepiece(model + "\x0b").error().code == errc::truncated);                   // a kind that nobody uses
    CHECK(read_sentencepiece(field(1, 2, "\xff\xff\xff\xff\x7f") + "x").error().code == errc::truncated);
    std::size_t good = 0;
    for (std::size_t size = 0; size < model.size(); ++size) good += read_sentencepiece(model.substr(0, size)).has_value() ? 1 : 0;
    CHECK(good == 4);  // cut between messages, behind the first one
}
