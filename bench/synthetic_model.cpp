// Writes models of random weights, the same bytes every time, so that everybody can measure the same model without downloading one:
// a llama of 1.1 billion (the shape of TinyLlama) in one format, or a dense or a mixture-of-experts llama of any size, directly in
// the mixture of formats that quantisers make of Q4_K_M. See `usage`.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/number.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/quant/rows.hpp"
#include "synthetic_blocks.hpp"
#include "synthetic_router.hpp"

namespace {

using colibri::dtype;
using colibri::gguf::tensor_info;
using synthetic::row_noise;
using synthetic::row_start;

constexpr std::string_view usage =
    "usage: synthetic_model FILE [TYPE [LAYERS]]\n"
    "       synthetic_model FILE dense MEGABYTES\n"
    "       synthetic_model FILE moe MEGABYTES [SKEW [EXPERTS [USED]]]\n"
    "writes a llama of random weights: of 1.1 billion with 22 LAYERS, in one TYPE that Colibri encodes (f16 is the default);\n"
    "or of about so many millions of bytes in a mixture like Q4_K_M, dense or with EXPERTS (128) of which each token goes to\n"
    "USED (8). The expert of rank r is chosen about as 1 / r^SKEW (0, the default: all alike); ranks differ from layer to layer.\n";

/// Sizes of the model, and how its routers choose.
struct shape {
    std::uint32_t hidden = 2048, heads = 32, kv_heads = 4, feed_forward = 5632, vocabulary = 32000, layers = 22;
    std::uint32_t experts = 0, used = 0;
    float skew = 0.0f;
    std::optional<dtype> type = std::nullopt;  ///< of all matrices; none: the mixture

    [[nodiscard]] std::uint32_t head() const noexcept { return hidden / heads; }
    /// Q4_K_M gives every third layer, and the first and the last eighth, more bits for values and for what leads out.
    [[nodiscard]] bool more_bits(std::uint32_t layer) const noexcept {
        const std::uint32_t eighth = layers / 8;
        return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
    }
};

/// A vocabulary of SentencePiece's kind: the control tokens, the bytes, and pairs and triples of letters.
void set_vocabulary(colibri::gguf::metadata& meta, std::uint32_t size) {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types = {2, 3, 3};
    for (unsigned byte = 0; byte < 256; ++byte) {
        constexpr std::string_view digits = "0123456789ABCDEF";
        tokens.push_back(colibri::concat("<0x", digits.substr(byte / 16, 1), digits.substr(byte % 16, 1), ">"));
        types.push_back(6);
    }
    const std::string space = "\xE2\x96\x81";
    std::vector<std::string> parts = {space};
    for (char c = 'a'; c <= 'z'; ++c) parts.emplace_back(1, c);
    for (std::size_t from = 0; tokens.size() < size;) {
        const std::size_t end = parts.size();
        for (; from < end && tokens.size() < size; ++from) {
            tokens.push_back(parts[from]);
            types.push_back(1);
            for (char c = 'a'; c <= 'z'; ++c) parts.push_back(parts[from] + c);
        }
    }
    std::vector<float> scores(tokens.size(), 0.0f);
    for (std::size_t i = 259; i < tokens.size(); ++i) scores[i] = -static_cast<float>(i - 259);
    meta.set("tokenizer.ggml.model", "llama");
    meta.set("tokenizer.ggml.tokens", colibri::gguf::value::strings(tokens));
    meta.set("tokenizer.ggml.scores", colibri::gguf::value::array(std::span<const float>(scores)));
    meta.set("tokenizer.ggml.token_type", colibri::gguf::value::array(std::span<const std::int32_t>(types)));
    meta.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    meta.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
    meta.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
}

colibri::gguf::metadata make_metadata(const shape& s) {
    colibri::gguf::metadata meta;
    meta.set("general.architecture", "llama");
    meta.set("general.name", s.type ? "synthetic 1B" : s.experts == 0 ? "synthetic dense" : "synthetic mixture of experts");
    if (!s.type) meta.set("general.file_type", std::uint32_t{15});  // mostly Q4_K_M
    meta.set("llama.block_count", s.layers);
    meta.set("llama.context_length", std::uint32_t{32768});
    meta.set("llama.embedding_length", s.hidden);
    meta.set("llama.feed_forward_length", s.feed_forward);
    meta.set("llama.attention.head_count", s.heads);
    meta.set("llama.attention.head_count_kv", s.kv_heads);
    meta.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    meta.set("llama.rope.dimension_count", s.head());
    meta.set("llama.vocab_size", s.vocabulary);
    if (s.experts != 0) {
        meta.set("llama.expert_count", s.experts);
        meta.set("llama.expert_used_count", s.used);
    }
    set_vocabulary(meta, s.vocabulary);
    return meta;
}

/// All tensors with their types and sizes.
colibri::result<std::vector<tensor_info>> plan(const shape& s) {
    std::vector<tensor_info> out;
    std::optional<colibri::error> problem;
    const auto add = [&](std::string name, dtype t, std::initializer_list<std::uint64_t> dims) {
        tensor_info info;
        info.name = std::move(name);
        info.type = t;
        info.n_dims = static_cast<unsigned>(dims.size());
        std::copy(dims.begin(), dims.end(), info.dims.begin());
        if (auto bytes = colibri::quant::row_bytes(t, info.dims[0])) {
            info.bytes = *bytes * (std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>{}) / info.dims[0]);
        } else {
            problem = std::move(bytes).error();
        }
        out.push_back(std::move(info));
    };
    const std::uint32_t kv_rows = s.head() * s.kv_heads;
    const dtype four = s.type.value_or(dtype::q4_k), six = s.type.value_or(dtype::q6_k);
    add("token_embd.weight", four, {s.hidden, s.vocabulary});
    for (std::uint32_t i = 0; i < s.layers; ++i) {
        const auto block = colibri::concat("blk.", i, ".");
        const dtype better = s.more_bits(i) ? six : four;
        add(block + "attn_norm.weight", dtype::f32, {s.hidden});
        add(block + "attn_q.weight", four, {s.hidden, s.hidden});
        add(block + "attn_k.weight", four, {s.hidden, kv_rows});
        add(block + "attn_v.weight", better, {s.hidden, kv_rows});
        add(block + "attn_output.weight", four, {s.hidden, s.hidden});
        add(block + "ffn_norm.weight", dtype::f32, {s.hidden});
        if (s.experts != 0) {
            add(block + "ffn_gate_inp.weight", dtype::f32, {s.hidden, s.experts});
            add(block + "ffn_gate_exps.weight", four, {s.hidden, s.feed_forward, s.experts});
            add(block + "ffn_up_exps.weight", four, {s.hidden, s.feed_forward, s.experts});
            add(block + "ffn_down_exps.weight", four, {s.feed_forward, s.hidden, s.experts});
        } else {
            add(block + "ffn_gate.weight", four, {s.hidden, s.feed_forward});
            add(block + "ffn_up.weight", four, {s.hidden, s.feed_forward});
            add(block + "ffn_down.weight", better, {s.feed_forward, s.hidden});
        }
    }
    add("output_norm.weight", dtype::f32, {s.hidden});
    add("output.weight", six, {s.hidden, s.vocabulary});
    if (problem) return std::move(*problem);
    return out;
}

/// The rows of one tensor.
class row_writer {
public:
    row_writer(const shape& s, const tensor_info& info, std::uint64_t number) : s_(s), info_(info), number_(number) {
        const auto ends = [&](std::string_view part) { return info.name.find(part) != std::string::npos; };
        router_ = ends("ffn_gate_inp");
        // Results of a row have the size of its inputs; norms are all 1.
        scale_ = 1.0f / std::sqrt(static_cast<float>(info.dims[0]));
        if (s.type) return;
        // Embeddings of deviation 1, to which all layers together add less than as much again, tell tokens apart in every layer.
        if (ends("token_embd")) scale_ = 1.0f;
        if (ends("attn_output") || ends("ffn_down")) scale_ /= std::sqrt(2.0f * static_cast<float>(s.layers));
        if (s.skew > 0.0f && ends("token_embd")) start_ = row_start::constant;
        if (s.skew > 0.0f && info.name == "output.weight") start_ = row_start::zero;
        if (!router_ || s.skew == 0.0f) return;
        biases_.resize(s.experts);
        std::vector<std::uint32_t> order(s.experts);
        std::iota(order.begin(), order.end(), 0u);
        row_noise noise(~number);
        for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[noise.next() % left]);
        const auto biases = synthetic::rank_biases(s.experts, s.used, s.skew);
        for (std::size_t rank = 0; rank < order.size(); ++rank) biases_[order[rank]] = biases[rank];
    }

    [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(info_.bytes) / row_bytes(); }
    [[nodiscard]] std::size_t row_bytes() const noexcept {
        return colibri::quant::row_bytes(info_.type, info_.dims[0]).value();
    }

    /// Writes row `r`; `values` is memory to work in. Errors: unsupported (there is no encoder).
    [[nodiscard]] colibri::result<void> write(std::size_t r, std::vector<float>& values, std::span<std::byte> out) const {
        row_noise noise(number_ << 32 | r);
        if (!s_.type && info_.type == dtype::q4_k) return blocks(synthetic::random_q4_k, noise, out);
        if (!s_.type && info_.type == dtype::q6_k) return blocks(synthetic::random_q6_k, noise, out);
        values.assign(info_.dims[0], 1.0f);
        if (info_.n_dims > 1) {
            for (auto& v : values) v = scale_ * noise();
        }
        if (!biases_.empty()) set_router(r, values);
        return colibri::quant::encode_row(info_.type, values, out);
    }

private:
    /// The direction that all tokens share gives each expert its bias; the rest of a token, which is as good as random, gives noise
    /// of deviation 1.
    void set_router(std::size_t expert, std::vector<float>& values) const {
        const auto n = static_cast<float>(values.size());
        const auto constant = static_cast<float>(synthetic::lead);
        const float size = std::sqrt((n - constant + constant * synthetic::lead_value * synthetic::lead_value) / n);
        for (auto& v : values) v *= size;
        std::fill_n(values.begin(), synthetic::lead, biases_[expert] * size / (constant * synthetic::lead_value));
    }

    template <class Block>
    [[nodiscard]] colibri::result<void> blocks(Block (*make)(row_noise&, float, row_start), row_noise& noise,
                                               std::span<std::byte> out) const {
        for (std::size_t at = 0; at < out.size(); at += sizeof(Block)) {
            const Block block = make(noise, scale_, at == 0 ? start_ : row_start::noise);
            std::memcpy(out.data() + at, &block, sizeof block);
        }
        return {};
    }

    const shape& s_;
    const tensor_info& info_;
    std::uint64_t number_;
    float scale_ = 1.0f;
    bool router_ = false;
    row_start start_ = row_start::noise;
    std::vector<float> biases_;
};

colibri::result<void> write_model(const std::string& path, const shape& s) {
    auto tensors = plan(s);
    if (!tensors) return std::move(tensors).error();
    auto out = colibri::gguf::writer::create(path, make_metadata(s), std::move(*tensors));
    if (!out) return std::move(out).error();
    colibri::thread_pool pool(colibri::cpu_count());
    std::vector<std::byte> bytes;
    for (std::uint64_t number = 0; out->next() != nullptr; ++number) {
        const auto info = *out->next();
        const row_writer rows(s, info, number);
        const std::size_t row_bytes = rows.row_bytes();
        const std::size_t piece = std::max<std::size_t>(1, (std::size_t{32} << 20) / row_bytes);
        for (std::size_t from = 0; from < rows.rows(); from += piece) {
            const std::size_t count = std::min(piece, rows.rows() - from);
            bytes.resize(count * row_bytes);
            std::atomic<bool> encoded{true};
            pool.for_chunks(count, 16, [&](std::size_t begin, std::size_t end, unsigned) {
                std::vector<float> values;
                for (std::size_t r = begin; r < end; ++r) {
                    if (!rows.write(from + r, values, {bytes.data() + r * row_bytes, row_bytes})) encoded = false;
                }
            });
            if (!encoded) {
                return colibri::error{colibri::errc::unsupported,
                                      colibri::concat("there is no encoder for ", colibri::name(info.type),
                                                      " yet; write F16 and let a quantiser make the rest")};
            }
            if (auto ok = out->write(bytes); !ok) return ok;
        }
    }
    return out->finish();
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return out;
}

/// The number of layers that brings the file closest to so many bytes.
void set_layers(shape& s, std::uint64_t wanted) {
    const auto size = [&](std::uint32_t layers) {
        s.layers = layers;
        const auto tensors = plan(s).value();
        return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0}, [](auto sum, const auto& t) { return sum + t.bytes; });
    };
    std::uint32_t layers = 1;
    while (layers < 1000 && size(layers) < wanted) ++layers;
    if (layers > 1 && size(layers) - wanted > wanted - size(layers - 1)) --layers;
    s.layers = layers;
}

/// FILE dense|moe MEGABYTES ...
std::optional<shape> parse_mixture(std::span<const std::string_view> words, bool experts) {
    const auto number = [&](std::size_t at, std::uint32_t otherwise) {
        return at < words.size() ? colibri::parse_number<std::uint32_t>(words[at]) : std::optional(otherwise);
    };
    const auto megabytes = number(0, 0);
    if (words.size() > (experts ? 4u : 1u) || !megabytes || *megabytes == 0) return std::nullopt;
    shape s;
    // Small files get a small shape, so that they have several layers all the same.
    if (*megabytes < 500) s = {512, 8, 2, experts ? 256u : 1536u, 8192};
    else if (experts) s = {1536, 24, 8, 512, 32000};
    else s = {3072, 24, 8, 8192, 32000};
    if (experts) {
        const auto skew = words.size() > 1 ? colibri::parse_number<float>(words[1]) : std::optional(0.0f);
        const auto count = number(2, 128), used = number(3, 8);
        if (!skew || !(*skew >= 0.0f && *skew <= 10.0f) || !count || !used || *count > 1024 || *used == 0 || *used > *count) return std::nullopt;
        s.skew = *skew;
        s.experts = *count;
        s.used = *used;
    }
    set_layers(s, std::uint64_t{*megabytes} * 1000000);
    return s;
}

/// FILE [TYPE [LAYERS]]
std::optional<shape> parse_plain(std::span<const std::string_view> words) {
    shape s;
    const std::string wanted = lower(words.empty() ? "f16" : words[0]);
    for (const auto& row : colibri::dtype_table) {
        if (lower(row.name) == wanted && colibri::quant::is_supported(row.type)) s.type = row.type;
    }
    const auto layers = words.size() > 1 ? colibri::parse_number<std::uint32_t>(words[1]) : std::optional(s.layers);
    if (words.size() > 2 || !s.type || !layers || *layers == 0 || *layers > 1000) return std::nullopt;
    s.layers = *layers;
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    const std::span<const std::string_view> rest(words.data() + (words.empty() ? 0 : 1), words.empty() ? 0 : words.size() - 1);
    const bool experts = !rest.empty() && rest[0] == "moe";
    const auto wanted = experts || (!rest.empty() && rest[0] == "dense") ? parse_mixture(rest.subspan(1), experts) : parse_plain(rest);
    if (words.empty() || !wanted) {
        std::cerr << usage;
        return 1;
    }
    if (const auto done = write_model(std::string(words[0]), *wanted); !done) {
        std::cerr << "synthetic_model: " << done.error().text() << '\n';
        return 2;
    }
    return 0;
}
