// Writes a llama of 1.1 billion random weights (the shape of TinyLlama), the same bytes every time, so that everybody can measure the
// same model without downloading one. Usage: synthetic_model FILE [TYPE [LAYERS]].
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iostream>
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

namespace {

using colibri::dtype;

constexpr std::uint32_t hidden = 2048, heads = 32, kv_heads = 4, feed_forward = 5632, vocabulary = 32000;

/// Reproducible numbers of one row: nearly normal, deviation 1.
class row_noise {
public:
    explicit row_noise(std::uint64_t seed) : state_((seed + 1) * 0x9e3779b97f4a7c15u) {}
    float operator()() noexcept {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        // The sum of four 16-bit parts: close enough to a bell, and one step of the generator.
        const std::uint64_t sum = (state_ & 0xffff) + (state_ >> 16 & 0xffff) + (state_ >> 32 & 0xffff) + (state_ >> 48);
        return (static_cast<float>(sum) - 131070.0f) / 37836.5f;
    }

private:
    std::uint64_t state_;
};

/// A vocabulary of SentencePiece's kind: the control tokens, the bytes, and pairs and triples of letters.
void set_vocabulary(colibri::gguf::metadata& meta) {
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
    for (std::size_t from = 0; tokens.size() < vocabulary;) {
        const std::size_t end = parts.size();
        for (; from < end && tokens.size() < vocabulary; ++from) {
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

colibri::gguf::metadata make_metadata(std::uint32_t layers) {
    colibri::gguf::metadata meta;
    meta.set("general.architecture", "llama");
    meta.set("general.name", "synthetic 1B");
    meta.set("llama.block_count", layers);
    meta.set("llama.context_length", std::uint32_t{32768});
    meta.set("llama.embedding_length", hidden);
    meta.set("llama.feed_forward_length", feed_forward);
    meta.set("llama.attention.head_count", heads);
    meta.set("llama.attention.head_count_kv", kv_heads);
    meta.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    meta.set("llama.rope.dimension_count", std::uint32_t{hidden / heads});
    meta.set("llama.vocab_size", vocabulary);
    set_vocabulary(meta);
    return meta;
}

std::vector<colibri::gguf::tensor_info> plan(dtype type, std::uint32_t layers) {
    std::vector<colibri::gguf::tensor_info> out;
    const auto add = [&](std::string name, dtype t, std::initializer_list<std::uint64_t> dims) {
        colibri::gguf::tensor_info info;
        info.name = std::move(name);
        info.type = t;
        info.n_dims = static_cast<unsigned>(dims.size());
        std::copy(dims.begin(), dims.end(), info.dims.begin());
        out.push_back(std::move(info));
    };
    constexpr std::uint32_t kv_rows = hidden / heads * kv_heads;
    add("token_embd.weight", type, {hidden, vocabulary});
    for (std::uint32_t i = 0; i < layers; ++i) {
        const auto block = colibri::concat("blk.", i, ".");
        add(block + "attn_norm.weight", dtype::f32, {hidden});
        add(block + "attn_q.weight", type, {hidden, hidden});
        add(block + "attn_k.weight", type, {hidden, kv_rows});
        add(block + "attn_v.weight", type, {hidden, kv_rows});
        add(block + "attn_output.weight", type, {hidden, hidden});
        add(block + "ffn_norm.weight", dtype::f32, {hidden});
        add(block + "ffn_gate.weight", type, {hidden, feed_forward});
        add(block + "ffn_up.weight", type, {hidden, feed_forward});
        add(block + "ffn_down.weight", type, {feed_forward, hidden});
    }
    add("output_norm.weight", dtype::f32, {hidden});
    add("output.weight", type, {hidden, vocabulary});
    return out;
}

colibri::result<void> write_model(const std::string& path, dtype type, std::uint32_t layers) {
    auto meta = make_metadata(layers);
    auto out = colibri::gguf::writer::create(path, meta, plan(type, layers));
    if (!out) return std::move(out).error();
    colibri::thread_pool pool(colibri::cpu_count());
    std::vector<std::byte> bytes;
    for (std::uint64_t number = 0; out->next() != nullptr; ++number) {
        const auto info = *out->next();
        bytes.resize(info.bytes);
        const std::size_t columns = info.dims[0];
        const std::size_t rows = info.n_dims == 1 ? 1 : info.dims[1];
        const std::size_t row_bytes = info.bytes / rows;
        // Results of a row then have the size of its inputs; norms are all 1.
        const float scale = 1.0f / std::sqrt(static_cast<float>(columns));
        std::atomic<bool> encoded{true};
        pool.for_chunks(rows, 16, [&](std::size_t begin, std::size_t end, unsigned) {
            std::vector<float> values(columns, 1.0f);
            for (std::size_t r = begin; r < end; ++r) {
                row_noise noise(number << 32 | r);
                if (info.n_dims > 1) {
                    for (auto& v : values) v = scale * noise();
                }
                if (!colibri::quant::encode_row(info.type, values, {bytes.data() + r * row_bytes, row_bytes})) encoded = false;
            }
        });
        if (!encoded) {
            return colibri::error{colibri::errc::unsupported,
                                  colibri::concat("there is no encoder for ", colibri::name(info.type),
                                                  " yet; write F16 and let a quantiser make the rest")};
        }
        if (auto ok = out->write(bytes); !ok) return ok;
    }
    return out->finish();
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    std::string wanted(words.size() > 1 ? words[1] : "f16");
    std::transform(wanted.begin(), wanted.end(), wanted.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const colibri::dtype_info* type = nullptr;
    for (const auto& row : colibri::dtype_table) {
        std::string name(row.name);
        std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        if (name == wanted && colibri::quant::is_supported(row.type)) type = &row;
    }
    const auto layers = words.size() > 2 ? colibri::parse_number<std::uint32_t>(words[2]) : std::optional<std::uint32_t>(22);
    if (words.empty() || words.size() > 3 || type == nullptr || !layers || *layers == 0 || *layers > 1000) {
        std::cerr << "usage: synthetic_model FILE [TYPE [LAYERS]]: writes a llama of random weights; TYPE is f16 (the default) or\n"
                     "any other that Colibri encodes, LAYERS 22 for 1.1 billion parameters\n";
        return 1;
    }
    if (const auto done = write_model(std::string(words[0]), type->type, *layers); !done) {
        std::cerr << "synthetic_model: " << done.error().text() << '\n';
        return 2;
    }
    return 0;
}
