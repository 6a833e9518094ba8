#include "colibri/kv/attention.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "colibri/quant/rows.hpp"
#include "colibri/simd/targets.hpp"
#include "support/attention.hpp"
#include "support/counting_new.hpp"

using namespace colibri;
using attention_reference::numbers;

namespace {

struct head_shape {
    std::uint32_t heads, kv_heads, head_k, head_v, window;
    kv_type type;
};

/// Sequences of tokens whose queries, keys and values are known, evaluated in batches of any kind.
struct text_of_tokens {
    head_shape s;
    std::vector<std::uint32_t> lengths;
    std::vector<std::vector<float>> queries, keys, values;  ///< per sequence, token after token
    std::vector<std::vector<float>> key_numbers, value_numbers;  ///< as the cache rounds them, head after head

    text_of_tokens(const head_shape& s_, std::vector<std::uint32_t> lengths_) : s(s_), lengths(std::move(lengths_)) {
        unsigned seed = 1;
        for (const auto n : lengths) {
            queries.push_back(numbers(std::size_t{n} * s.heads * s.head_k, seed++));
            keys.push_back(numbers(std::size_t{n} * s.kv_heads * s.head_k, seed++));
            values.push_back(numbers(std::size_t{n} * s.kv_heads * s.head_v, seed++));
            key_numbers.push_back(rounded(keys.back(), n, s.head_k));
            value_numbers.push_back(rounded(values.back(), n, s.head_v));
        }
    }

    /// [kv head][position][width] from [position][kv head][width].
    std::vector<float> rounded(const std::vector<float>& in, std::size_t n, std::size_t width) const {
        std::vector<float> out(in.size());
        std::vector<std::byte> row(row_bytes_of(s.type, width));
        for (std::size_t p = 0; p < n; ++p) {
            for (std::size_t h = 0; h < s.kv_heads; ++h) {
                quant::encode_row(dtype_of(s.type), std::span(in).subspan((p * s.kv_heads + h) * width, width), row).value();
                quant::decode_row(dtype_of(s.type), row, std::span(out).subspan((h * n + p) * width, width)).value();
            }
        }
        return out;
    }

    /// Results of all tokens, per sequence, when `batches` are evaluated one after the other.
    /// With a requested `cancel` nothing is attended.
    std::vector<std::vector<float>> run(const std::vector<std::vector<token_place>>& batches, unsigned threads,
                                        const cancel_flag* cancel = nullptr) const {
        std::size_t most = 0;
        for (const auto& b : batches) most = std::max(most, b.size());
        const auto context = *std::max_element(lengths.begin(), lengths.end());
        kv_shape cache;
        cache.kv_heads = s.kv_heads;
        cache.head_k = s.head_k;
        cache.head_v = s.head_v;
        cache.context = context;
        cache.sequences = static_cast<std::uint32_t>(lengths.size());
        cache.layers = {{context, 0}, {kept_positions(context, s.window, static_cast<std::uint32_t>(most)), s.window}};
        const auto kv = *make_kv_store(cache, s.type, s.type);
        auto attention = *batch_attention::make({s.heads, s.kv_heads, s.head_k, s.head_v, context, most, threads});
        thread_pool pool(threads);
        std::vector<std::vector<float>> out;
        for (const auto n : lengths) out.emplace_back(std::size_t{n} * s.heads * s.head_v);
        for (const auto& batch : batches) {
            const std::size_t q_width = std::size_t{s.heads} * s.head_k + 3;
            const std::size_t o_width = std::size_t{s.heads} * s.head_v + 5;
            std::vector<float> q(batch.size() * q_width), o(batch.size() * o_width, 99.0f);
            for (std::size_t t = 0; t < batch.size(); ++t) {
                const std::uint32_t sequence = batch[t].sequence;
                const std::uint32_t p = batch[t].position;
                std::copy_n(queries[sequence].data() + p * (q_width - 3), q_width - 3, q.data() + t * q_width);
                kv->store(1, sequence, p, keys[sequence].data() + std::size_t{p} * s.kv_heads * s.head_k,
                          values[sequence].data() + std::size_t{p} * s.kv_heads * s.head_v);
            }
            const auto blocks = counting::blocks.load();
            attention.plan(batch);
            attention_job job;
            job.layer = 1;
            job.window = s.window;
            job.scale = 0.2f;
            job.queries = q.data();
            job.query_stride = q_width;
            job.out = o.data();
            job.out_stride = o_width;
            CHECK(attention.run(job, *kv, pool, cancel) == (cancel == nullptr || !cancel->requested()));
            CHECK(counting::blocks.load() == blocks);
            for (std::size_t t = 0; t < batch.size(); ++t) {
                const std::uint32_t sequence = batch[t].sequence;
                const std::uint32_t p = batch[t].position;
                std::copy_n(o.data() + t * o_width, o_width - 5, out[sequence].data() + p * (o_width - 5));
                CHECK(o[t * o_width + o_width - 1] == 99.0f);
            }
        }
        return out;
    }

    /// One token, one head of what `run` returned.
    std::vector<float> head(const std::vector<std::vector<float>>& results, std::size_t sequence, std::uint32_t p,
                            std::uint32_t head) const {
        const float* row = results[sequence].data() + (std::size_t{p} * s.heads + head) * s.head_v;
        return {row, row + s.head_v};
    }

    /// One token, one head, as docs/numerics.md says.
    std::vector<float> expected(std::size_t sequence, std::uint32_t p, std::uint32_t head, bool fused) const {
        const std::size_t kv_head = head / (s.heads / s.kv_heads);
        const std::uint32_t begin = s.window != 0 && p + 1 > s.window ? p + 1 - s.window : 0;
        const attention_reference::query q{queries[sequence].data() + (std::size_t{p} * s.heads + head) * s.head_k, s.head_k, s.head_v,
                                           0.2f, 0.0f, fused};
        return attention_reference::attend(q, key_numbers[sequence].data() + kv_head * lengths[sequence] * s.head_k,
                                           value_numbers[sequence].data() + kv_head * lengths[sequence] * s.head_v, begin, p + 1);
    }
};

/// Whether the target in use rounds multiply-adds once.
bool is_fused() { return simd::target_name() != "sse4" && simd::target_name() != "baseline"; }

/// Batches of up to `size` tokens: the sequences by turns, `run` tokens at a time.
std::vector<std::vector<token_place>> batches_of(const std::vector<std::uint32_t>& lengths, std::size_t size, std::uint32_t run) {
    std::vector<std::vector<token_place>> out(1);
    std::vector<std::uint32_t> next(lengths.size());
    for (bool more = true; more;) {
        more = false;
        for (std::uint32_t s = 0; s < lengths.size(); ++s) {
            for (std::uint32_t i = 0; i < run && next[s] < lengths[s]; ++i) {
                if (out.back().size() == size) out.emplace_back();
                out.back().push_back({s, next[s]++});
                more = true;
            }
        }
    }
    return out;
}

}  // namespace

TEST_CASE("kv: tokens have the bits of the canonical order, whatever they are attended with") {
    constexpr head_shape shapes[] = {
        {8, 1, 32, 64, 0, kv_type::q8_0},   {4, 4, 80, 80, 0, kv_type::f16},   {6, 3, 40, 72, 0, kv_type::bf16},
        {6, 2, 96, 64, 0, kv_type::q4_0},   {4, 1, 16, 24, 100, kv_type::f32}, {7, 1, 72, 40, 300, kv_type::f16},
        {16, 2, 32, 32, 17, kv_type::q8_0}, {70, 1, 8, 16, 0, kv_type::f32},
    };
    for (const auto& s : shapes) {
        CAPTURE(s.heads);
        CAPTURE(s.head_k);
        CAPTURE(name(s.type));
        const text_of_tokens text(s, {340, 1, 61});
        const auto want = text.run(batches_of(text.lengths, 1, 1), 1);
        std::size_t wrong = 0;
        for (const std::uint32_t p : {0u, 15u, 16u, 98u, 255u, 256u, 257u, 300u, 339u}) {
            for (std::uint32_t head = 0; head < s.heads; ++head) {
                wrong += text.expected(0, p, head, is_fused()) != text.head(want, 0, p, head);
            }
        }
        CHECK(wrong == 0);
        for (const unsigned threads : {1u, 2u, 5u}) {
            for (const auto& cut : {std::pair{1u, 1u}, {3u, 1u}, {7u, 3u}, {64u, 1000u}, {512u, 5u}, {512u, 1000u}}) {
                CAPTURE(threads);
                CAPTURE(cut.first);
                CAPTURE(cut.second);
                if (threads == 5 && cut.first == 1) continue;
                CHECK(text.run(batches_of(text.lengths, cut.first, cut.second), threads) == want);
            }
        }
    }
}

TEST_CASE("kv: a long prompt's attention ends when it is canceled, and says so") {
    const text_of_tokens text({4, 2, 32, 32, 0, kv_type::f16}, {700});
    cancel_flag cancel;
    for (const unsigned threads : {1u, 2u}) {
        cancel.reset();
        CHECK(text.run(batches_of(text.lengths, 700, 700), threads, &cancel) == text.run(batches_of(text.lengths, 700, 700), threads));
        cancel.request();
        text.run(batches_of(text.lengths, 700, 700), threads, &cancel);
    }
}

TEST_CASE("kv: spans are attended by several threads where there are few heads, without allocating") {
    for (const auto& s : {head_shape{4, 1, 32, 32, 0, kv_type::q8_0}, head_shape{2, 2, 16, 16, 300, kv_type::f16}}) {
        CAPTURE(s.window);
        const text_of_tokens text(s, {1100, 700});
        // A long prompt, then tokens one by one, or a few at once.
        auto single = batches_of({1000, 600}, 1600, 1000);
        auto several = single;
        for (std::uint32_t i = 0; i < 100; ++i) {
            single.push_back({{0, 1000 + i}});
            single.push_back({{1, 600 + i}});
        }
        for (std::uint32_t i = 0; i < 100; i += 4) {
            several.push_back({{0, 1000 + i}, {0, 1001 + i}, {1, 600 + i}, {0, 1002 + i}, {0, 1003 + i}, {1, 601 + i}, {1, 602 + i},
                               {1, 603 + i}});
        }
        const auto want = text.run(single, 1);
        for (const unsigned threads : {2u, 3u}) {
            CHECK(text.run(single, threads) == want);
            CHECK(text.run(several, threads) == want);
        }
        for (const std::uint32_t p : {999u, 1024u, 1099u}) CHECK(text.expected(0, p, 1, is_fused()) == text.head(want, 0, p, 1));
    }
}
