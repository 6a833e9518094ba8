// What a model said of a text, kept compactly to compare other models with.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/eval/hashes.hpp"
#include "colibri/eval/log_softmax.hpp"
#include "colibri/eval/text_windows.hpp"
#include "colibri/io/atomic_writer.hpp"
#include "colibri/io/byte_reader.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/model/model.hpp"

namespace colibri::eval {

/// What a file of base logits says of itself. The file, little-endian:
///
/// | bytes | what |
/// | --- | --- |
/// | 8 | "COLILOGP" |
/// | u32 | version, 1 |
/// | u32 | vocabulary V: log probabilities of a row |
/// | u32 | tokens of a window W |
/// | u32 | first position that is scored F |
/// | u64 | windows N |
/// | u64 | hash of the vocabulary's tokens |
/// | u64 | hash of the text's tokens and W |
/// | u64 | hash of the model's metadata and list of tensors |
/// | u32 | 1: computed with F32 activations throughout, else 0 |
/// | u32 | bytes of the model's title T |
/// | T | the title |
/// | 4 N W | tokens, i32 |
/// | N (W - 1 - F) rows | of each scored token, in order |
///
/// A row, 12 + 2 V bytes: f32 t, the likeliest token's log probability; f32 s, a step; i32 the likeliest token; V times u16 c. The log
/// probability of token i is t - s c[i]. The steps reach down to the least likely token, or, where that is further, to 24 below t:
/// then 65535 stands for e^-24 times the likeliest and all that is rarer.
struct base_header {
    std::uint32_t vocabulary = 0;
    std::uint32_t window = 0;
    std::uint32_t first_scored = 0;
    std::uint64_t windows = 0;
    std::uint64_t vocabulary_hash = 0;
    std::uint64_t text_hash = 0;
    std::uint64_t model_hash = 0;
    bool exact = false;
    std::string title;

    [[nodiscard]] std::uint64_t row_bytes() const noexcept { return 12 + 2 * std::uint64_t{vocabulary}; }
    [[nodiscard]] std::uint64_t rows() const noexcept { return windows * (window - 1 - first_scored); }
    [[nodiscard]] std::uint64_t tokens_offset() const noexcept { return 64 + title.size(); }
    [[nodiscard]] std::uint64_t rows_offset() const noexcept { return tokens_offset() + 4 * windows * window; }
    [[nodiscard]] std::uint64_t file_bytes() const noexcept { return rows_offset() + rows() * row_bytes(); }
};

/// Natural units that the steps of a row reach down at most.
inline constexpr float base_depth = 24.0f;

/// Packs one row: `out` has base_header::row_bytes() bytes. Allocates nothing.
inline void pack_row(std::span<const float> logits, std::byte* out) noexcept {
    const auto likeliest = static_cast<std::int32_t>(simd::argmax(logits.data(), logits.size()));
    const float most = logits[static_cast<std::size_t>(likeliest)];
    float least = most;
    for (const float x : logits) least = std::min(least, x);
    const float step = std::min(most - least, base_depth) / 65535.0f;
    const float top = static_cast<float>(static_cast<double>(most) - log_norm(logits));
    std::memcpy(out, &top, 4);
    std::memcpy(out + 4, &step, 4);
    std::memcpy(out + 8, &likeliest, 4);
    const float scale = step > 0.0f ? 1.0f / step : 0.0f;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const auto code = static_cast<std::uint16_t>(std::min((most - logits[i]) * scale + 0.5f, 65535.0f));
        std::memcpy(out + 12 + 2 * i, &code, 2);
    }
}

/// A row as it is used: log probabilities whose exponentials sum to 1.
struct base_row {
    std::vector<float> log_p;     ///< of each token; of rare ones `floor`, whatever they are
    float floor = 0.0f;           ///< log probability that stands for itself and all below; without rare ones below any
    text::token_id likeliest = 0;
};

/// Unpacks a row and makes it sum to 1 again, as rounding by up to half a step would otherwise show in a divergence to first
/// order. Errors: bad_value.
[[nodiscard]] inline result<void> unpack_row(std::span<const std::byte> bytes, base_row& out) {
    float top = 0.0f, step = 0.0f;
    std::memcpy(&top, bytes.data(), 4);
    std::memcpy(&step, bytes.data() + 4, 4);
    std::memcpy(&out.likeliest, bytes.data() + 8, 4);
    const std::size_t n = (bytes.size() - 12) / 2;
    out.log_p.resize(n);
    // Log probabilities of the likeliest of n tokens are -log n or more; rounding may lift them a little above 0.
    if (!(top <= 0.01f && top >= -24.0f) || !(step >= 0.0f && step <= 0.001f) || out.likeliest < 0 ||
        static_cast<std::size_t>(out.likeliest) >= n) {
        return error{errc::bad_value, "a row of base logits has impossible values; the file is damaged"};
    }
    const bool deep = step == base_depth / 65535.0f;
    std::size_t rare = 0;
    for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t code = 0;
        std::memcpy(&code, bytes.data() + 12 + 2 * i, 2);
        out.log_p[i] = -step * static_cast<float>(code);
        rare += deep && code == 65535 ? 1 : 0;
    }
    // A large vocabulary has many rare tokens: counted as e^-24 each they would have more than they all have in truth.
    const float lowest = -step * 65535.0f;
    const double sum = sum_exp(out.log_p, 0.0f) - static_cast<double>(rare) * std::exp(static_cast<double>(lowest));
    const auto norm = static_cast<float>(std::log(std::max(sum, 1.0)));  // the likeliest alone is 1
    for (float& x : out.log_p) x -= norm;
    out.floor = deep ? lowest - norm : -std::numeric_limits<float>::infinity();
    return {};
}

/// Writes a file of base logits, window by window; it appears when it is complete.
class base_writer {
public:
    /// Errors: those of atomic_writer (also: the disk is too full).
    [[nodiscard]] static result<base_writer> create(const std::filesystem::path& path, const model& m, const text_windows& text, bool exact) {
        base_header h;
        h.vocabulary = m.params().vocabulary;
        h.window = text.size;
        h.first_scored = text.first_scored();
        h.windows = text.count;
        h.vocabulary_hash = hash_of(m.tokenizer());
        h.text_hash = text.hash();
        h.model_hash = hash_of(m.file());
        h.exact = exact;
        h.title = m.title();
        write_options options;
        options.expected_size = h.file_bytes();
        auto out = atomic_writer::create(path, options);
        if (!out) return std::move(out).error();
        base_writer made(*std::move(out), h);
        std::string head = "COLILOGP";
        for (const std::uint32_t n : {1u, h.vocabulary, h.window, h.first_scored}) gguf::detail::append_number(head, n);
        for (const std::uint64_t n : {h.windows, h.vocabulary_hash, h.text_hash, h.model_hash}) gguf::detail::append_number(head, n);
        for (const std::uint32_t n : {exact ? 1u : 0u, static_cast<std::uint32_t>(h.title.size())}) gguf::detail::append_number(head, n);
        head += h.title;
        if (auto ok = made.out_.write(head); !ok) return std::move(ok).error();
        if (auto ok = made.out_.write(std::as_bytes(std::span(text.tokens))); !ok) return std::move(ok).error();
        return made;
    }

    [[nodiscard]] const base_header& header() const noexcept { return header_; }
    /// The next rows, packed. Errors: io.
    [[nodiscard]] result<void> write(std::span<const std::byte> rows) { return out_.write(rows); }
    /// Errors: invalid_argument (rows are missing), io.
    [[nodiscard]] result<void> finish() {
        if (out_.written() != header_.file_bytes()) {
            return error{errc::invalid_argument, concat(out_.written(), " of ", header_.file_bytes(), " bytes were written")};
        }
        return out_.commit();
    }

private:
    base_writer(atomic_writer out, base_header header) : out_(std::move(out)), header_(std::move(header)) {}

    atomic_writer out_;
    base_header header_;
};

/// Reads a file of base logits.
class base_reader {
public:
    /// Reads header and tokens; everything is checked against the file's size first. Errors: not_found, not_a_file (no such file of ours),
    /// bad_version, bad_count, truncated (or too long), bad_value, io.
    [[nodiscard]] static result<base_reader> open(const std::filesystem::path& path) {
        auto file = file_reader::open(path);
        if (!file) return std::move(file).error();
        base_reader out;
        out.file_ = *std::move(file);
        if (auto ok = out.read_header(); !ok) return std::move(ok).error().within(quoted(path.string()));
        return out;
    }

    [[nodiscard]] const base_header& header() const noexcept { return header_; }
    /// The windows that were evaluated.
    [[nodiscard]] const text_windows& text() const noexcept { return text_; }

    /// Whether a model can be compared: its vocabulary is the same. Errors: bad_count, bad_value.
    [[nodiscard]] result<void> check(const model& m) const {
        if (m.params().vocabulary != header_.vocabulary) {
            return error{errc::bad_count, concat("the base logits are of a model with ", header_.vocabulary, " tokens, and this one has ",
                                                 m.params().vocabulary, "; only models of one vocabulary can be compared")};
        }
        if (hash_of(m.tokenizer()) != header_.vocabulary_hash) {
            return error{errc::bad_value, "the base logits are of a model with other tokens; only models of one vocabulary can be compared"};
        }
        return {};
    }

    /// The row of a scored token, counted through all windows, packed: out.size() == row_bytes(). From several threads at once.
    /// Errors: truncated, io.
    [[nodiscard]] result<void> read(std::uint64_t row, std::span<std::byte> out) const {
        return file_->read_at(header_.rows_offset() + row * header_.row_bytes(), out);
    }

private:
    [[nodiscard]] result<void> read_header();

    std::unique_ptr<file_reader> file_;
    base_header header_;
    text_windows text_;
};

inline result<void> base_reader::read_header() {
    std::array<std::byte, 64> head{};
    const auto size = file_->size();
    if (size < head.size()) return error{errc::not_a_file, "this is no file of base logits (colibri eval divergence --save-base makes one)"};
    if (auto ok = file_->read_at(0, head); !ok) return ok;
    byte_reader in(head);
    if (in.text(8, "the magic").value_or(std::string_view()) != "COLILOGP") {
        return error{errc::not_a_file, "this is no file of base logits (colibri eval divergence --save-base makes one)"};
    }
    const auto u32 = [&] { return in.read<std::uint32_t>("the header").value_or(0u); };  // all 64 bytes are there
    const auto u64 = [&] { return in.read<std::uint64_t>("the header").value_or(0u); };
    if (const auto version = u32(); version != 1) {
        return error{errc::bad_version, concat("its version is ", version, ", and only 1 is known; make it again"), 8};
    }
    header_.vocabulary = u32();
    header_.window = u32();
    header_.first_scored = u32();
    header_.windows = u64();
    header_.vocabulary_hash = u64();
    header_.text_hash = u64();
    header_.model_hash = u64();
    header_.exact = u32() == 1;
    const std::uint32_t title = u32();
    if (header_.vocabulary == 0 || header_.vocabulary > (1u << 24) || header_.window < 4 || header_.window > (1u << 24) ||
        header_.first_scored != header_.window / 2 || header_.windows == 0 || title > 4096) {
        return error{errc::bad_count, "its header has impossible sizes; the file is damaged", 12};
    }
    // With these limits a window has less than 2^50 bytes, so a number of windows below `size` can't overflow the product's check.
    const std::uint64_t each = 4 * std::uint64_t{header_.window} +
                               std::uint64_t{header_.window - 1 - header_.first_scored} * header_.row_bytes();
    if (header_.windows > size / each) {
        return error{errc::truncated, concat("it should hold ", header_.windows, " windows, but ", size, " bytes are too few; it is incomplete"), size};
    }
    header_.title.resize(title);
    if (header_.file_bytes() != size) {
        return error{errc::truncated, concat("it should have ", header_.file_bytes(), " bytes, but has ", size, "; it is incomplete or damaged"), size};
    }
    if (auto ok = file_->read_at(64, std::as_writable_bytes(std::span(header_.title))); !ok) return ok;
    header_.title = escaped(header_.title);
    text_.size = header_.window;
    text_.count = static_cast<std::size_t>(header_.windows);
    text_.tokens.resize(text_.count * text_.size);
    if (auto ok = file_->read_at(64 + title, std::as_writable_bytes(std::span(text_.tokens))); !ok) return ok;
    for (const auto token : text_.tokens) {
        if (token < 0 || static_cast<std::uint32_t>(token) >= header_.vocabulary) {
            return error{errc::bad_value, concat("a token is ", token, ", outside the vocabulary of ", header_.vocabulary)};
        }
    }
    if (text_.hash() != header_.text_hash) return error{errc::bad_value, "its tokens don't fit its header; the file is damaged"};
    return {};
}

}  // namespace colibri::eval
