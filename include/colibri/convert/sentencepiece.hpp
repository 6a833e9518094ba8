// tokenizer.model: the pieces of a SentencePiece model, read from its protobuf bytes.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/text/vocabulary.hpp"

namespace colibri::convert {

/// One piece; `type` has the numbers of GGUF's token types, which are SentencePiece's.
struct sentence_piece {
    std::string text;
    float score = 0.0f;
    text::token_type type = text::token_type::normal;
};

/// Most tokens that a vocabulary may have here; published ones have a sixteenth.
inline constexpr std::size_t max_pieces = std::size_t{1} << 22;

/// What a conversion needs of a SentencePiece model.
struct sentencepiece_model {
    enum class algorithm : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

    std::vector<sentence_piece> pieces;
    algorithm kind = algorithm::unigram;
    bool adds_space_prefix = true;         ///< add_dummy_prefix
    bool removes_extra_spaces = true;      ///< runs of spaces become one before anything else happens
    bool has_normalization_table = false;  ///< text is changed by a table of its own (NFKC and the like)
};

/// Reads a model's bytes. Unknown fields are skipped. Memory: about the size of `bytes`. Errors: truncated, bad_value,
/// bad_type, bad_count, limit, all with the byte offset.
[[nodiscard]] inline result<sentencepiece_model> read_sentencepiece(std::string_view bytes);

namespace detail {

/// Fields of one protobuf message, one after the other. A problem ends the message and is remembered.
class protobuf_reader {
public:
    protobuf_reader(std::string_view bytes, std::uint64_t base) : bytes_(bytes), base_(base) {}

    /// Goes to the next field; false at the end or after a problem.
    [[nodiscard]] bool next() {
        if (failed() || at_ >= bytes_.size()) return false;
        const std::uint64_t tag = varint();
        field_ = tag >> 3;
        wire_ = static_cast<unsigned>(tag & 7);
        if (failed()) return false;
        if (field_ == 0) return fail("a field has the number 0");
        switch (wire_) {
            case 0: number_ = varint(); break;
            case 1: text_ = take(8); break;
            case 2: text_ = take(varint()); break;
            case 5: text_ = take(4); break;
            default: return fail("a field has an unknown kind");
        }
        return !failed();
    }
    [[nodiscard]] std::uint64_t field() const noexcept { return field_; }
    [[nodiscard]] bool is_number() const noexcept { return wire_ == 0; }
    [[nodiscard]] bool is_text() const noexcept { return wire_ == 2; }
    [[nodiscard]] bool is_float() const noexcept { return wire_ == 5; }
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    [[nodiscard]] std::string_view text() const noexcept { return text_; }
    [[nodiscard]] float floating() const noexcept {
        float out = 0.0f;
        std::memcpy(&out, text_.data(), sizeof out);
        return out;
    }
    /// Where the bytes of a text field begin.
    [[nodiscard]] std::uint64_t text_offset() const noexcept { return base_ + at_ - text_.size(); }
    [[nodiscard]] std::uint64_t offset() const noexcept { return base_ + at_; }
    [[nodiscard]] bool failed() const noexcept { return !problem_.empty(); }
    [[nodiscard]] error problem() const { return error{errc::truncated, problem_, base_ + at_}; }

private:
    bool fail(std::string_view message) {
        problem_ = message;
        return false;
    }
    std::uint64_t varint() {
        std::uint64_t out = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (at_ >= bytes_.size()) break;
            const auto byte = static_cast<std::uint8_t>(bytes_[at_++]);
            out |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) return out;
        }
        fail("a number doesn't end");
        return 0;
    }
    std::string_view take(std::uint64_t count) {
        if (failed()) return {};
        if (count > bytes_.size() - at_) {
            fail(concat("a field of ", count, " bytes is cut off"));
            return {};
        }
        const auto out = bytes_.substr(at_, static_cast<std::size_t>(count));
        at_ += static_cast<std::size_t>(count);
        return out;
    }

    std::string_view bytes_, text_;
    std::uint64_t base_, field_ = 0, number_ = 0;
    std::size_t at_ = 0;
    unsigned wire_ = 0;
    std::string problem_;
};

[[nodiscard]] inline result<sentence_piece> read_piece(std::string_view bytes, std::uint64_t base) {
    sentence_piece out;
    protobuf_reader in(bytes, base);
    while (in.next()) {
        if (in.field() == 1 && in.is_text()) out.text = in.text();
        else if (in.field() == 2 && in.is_float()) out.score = in.floating();
        else if (in.field() == 3 && in.is_number()) {
            if (in.number() < 1 || in.number() > 6)
                return error{errc::bad_type, concat("a piece has the unknown type ", in.number()), in.offset()};
            out.type = static_cast<text::token_type>(in.number());
        }
    }
    if (in.failed()) return in.problem();
    if (std::isnan(out.score))
        return error{errc::bad_value, concat("the score of the piece ", quoted(out.text, 40), " is not a number"), base};
    return out;
}

/// Settings of a nested message: calls `take(reader)` for each field.
template <class Take>
[[nodiscard]] result<void> read_message(std::string_view bytes, std::uint64_t base, Take&& take) {
    protobuf_reader in(bytes, base);
    while (in.next()) take(in);
    if (in.failed()) return in.problem();
    return {};
}

}  // namespace detail

inline result<sentencepiece_model> read_sentencepiece(std::string_view bytes) {
    sentencepiece_model out;
    std::uint64_t kind = 1;
    detail::protobuf_reader in(bytes, 0);
    while (in.next()) {
        if (!in.is_text()) continue;
        result<void> done;
        if (in.field() == 1) {
            auto piece = detail::read_piece(in.text(), in.text_offset());
            if (!piece) return std::move(piece).error();
            if (out.pieces.size() >= max_pieces)
                return error{errc::limit, concat("there are more than ", max_pieces, " pieces"), in.offset()};
            out.pieces.push_back(std::move(*piece));
        } else if (in.field() == 2) {
            done = detail::read_message(in.text(), in.text_offset(), [&](const detail::protobuf_reader& field) {
                if (field.field() == 3 && field.is_number()) kind = field.number();
            });
        } else if (in.field() == 3) {
            done = detail::read_message(in.text(), in.text_offset(), [&](const detail::protobuf_reader& field) {
                if (field.field() == 2 && field.is_text()) out.has_normalization_table = !field.text().empty();
                if (field.field() == 3 && field.is_number()) out.adds_space_prefix = field.number() != 0;
                if (field.field() == 4 && field.is_number()) out.removes_extra_spaces = field.number() != 0;
            });
        }
        if (!done) return std::move(done).error();
    }
    if (in.failed()) return in.problem();
    if (out.pieces.empty()) return error{errc::bad_count, "there are no pieces; this is no SentencePiece model", 0};
    if (kind < 1 || kind > 4) return error{errc::bad_type, concat("the model is of the unknown kind ", kind), 0};
    out.kind = static_cast<sentencepiece_model::algorithm>(kind);
    return out;
}

}  // namespace colibri::convert
