// Attention of a batch of tokens over a cache, by all threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/cancel.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/kv/kv_cache.hpp"
#include "colibri/simd/attention.hpp"

namespace colibri {

/// Sizes that a batch_attention is made for.
struct attention_sizes {
    std::uint32_t heads = 0;     ///< query heads, a multiple of kv_heads
    std::uint32_t kv_heads = 0;
    std::uint32_t head_k = 0;    ///< elements of a query and a key
    std::uint32_t head_v = 0;    ///< elements of a value
    std::uint32_t context = 0;   ///< positions of a sequence at most
    std::size_t tokens = 0;      ///< of a batch at most
    unsigned threads = 1;
};

/// Where a token stands.
struct token_place {
    std::uint32_t sequence = 0;
    std::uint32_t position = 0;
};

/// Attention of one layer.
struct attention_job {
    std::uint32_t layer = 0;
    std::uint32_t window = 0;         ///< positions that a token looks back, itself included; 0: all
    float scale = 1.0f;               ///< multiplies every dot product
    float softcap = 0.0f;             ///< 0: off
    const float* queries = nullptr;   ///< token t's heads at queries + t * query_stride, head_k floats each
    std::size_t query_stride = 0;
    float* out = nullptr;             ///< token t's heads at out + t * out_stride, head_v floats each
    std::size_t out_stride = 0;
};

/// Cuts a batch into blocks: some tokens that follow each other in one sequence and the query heads of one key/value head, which
/// read every key and value once for all. Where there are too few blocks for the threads, spans of positions are attended apart
/// and merged in order afterwards. Neither changes a bit: see docs/numerics.md. One batch at a time.
class batch_attention {
public:
    batch_attention() = default;

    /// Errors: overflow, out_of_memory.
    [[nodiscard]] static result<batch_attention> make(const attention_sizes& sizes) {
        batch_attention out;
        out.sizes_ = sizes;
        const std::uint32_t group = sizes.heads / sizes.kv_heads;
        out.slices_ = (group + most_rows - 1) / most_rows;
        out.slice_heads_ = (group + out.slices_ - 1) / out.slices_;
        out.block_tokens_ = static_cast<std::uint32_t>(std::min<std::size_t>(most_rows / out.slice_heads_, sizes.tokens));
        const std::size_t rows = std::size_t{out.block_tokens_} * out.slice_heads_;
        out.worker_floats_ = round_up(simd::attention_scratch_floats(rows, sizes.head_k, sizes.head_v) + rows * (sizes.head_v + 4),
                                      std::size_t{16});
        if (auto ok = allocate(out.scratch_, out.worker_floats_, sizes.threads); !ok) return std::move(ok).error();
        if (sizes.threads > 1) {
            // Enough for one token over the whole context; for several if that is little.
            const std::uint64_t spans = sizes.context / kv_span + 2;
            const std::uint64_t one = spans * sizes.heads * (sizes.head_v + std::uint64_t{2});
            out.part_floats_ = static_cast<std::size_t>(
                std::max(one, std::min(one * std::min<std::uint64_t>(8, sizes.tokens), std::uint64_t{1} << 21)));
            if (auto ok = allocate(out.parts_, out.part_floats_, 1); !ok) return std::move(ok).error();
        }
        out.blocks_.reserve(sizes.tokens);
        return out;
    }

    /// Takes the tokens of the next batch, at most sizes.tokens; those of a sequence are in order of position. No allocation.
    void plan(std::span<const token_place> places) noexcept {
        blocks_.clear();
        // Small enough for several blocks a thread, but not so small that decoding keys and values costs more than using them.
        const std::size_t lanes = std::size_t{sizes_.kv_heads} * slices_;
        const std::size_t least = std::min<std::size_t>(block_tokens_, (least_rows + slice_heads_ - 1) / slice_heads_);
        const std::size_t most = std::clamp<std::size_t>(places.size() * lanes / (std::size_t{4} * sizes_.threads), least, block_tokens_);
        for (std::size_t t = 0; t < places.size(); ++t) {
            const auto& place = places[t];
            if (!blocks_.empty()) {
                auto& last = blocks_.back();
                if (last.sequence == place.sequence && last.count < most && last.position + last.count == place.position) {
                    ++last.count;
                    continue;
                }
            }
            blocks_.push_back({t, 1, place.sequence, place.position});
        }
    }

    /// Attends for all tokens of the plan, whose keys and values are in the cache. No allocation. Precondition: pool.size() <=
    /// sizes.threads. False: `cancel` ended it, and what is in `job.out` means nothing.
    bool run(const attention_job& job, const kv_store& kv, thread_pool& pool, const cancel_flag* cancel = nullptr) noexcept {
        const std::size_t lanes = std::size_t{sizes_.kv_heads} * slices_;
        const std::size_t items = blocks_.size() * lanes;
        if (pool.used() > 1 && items < std::size_t{4} * pool.used() && run_apart(job, kv, pool, lanes)) return true;
        std::atomic<bool> stopped{false};
        pool.for_chunks(items, 1, [&](std::size_t begin, std::size_t end, unsigned worker) {
            // The last blocks of a prompt see most: they go first.
            for (std::size_t i = begin; i < end; ++i) {
                const auto& b = blocks_[blocks_.size() - 1 - i / lanes];
                if (attend_block(job, kv, b, static_cast<std::uint32_t>(i % lanes), worker, cancel)) continue;
                stopped.store(true, std::memory_order_relaxed);
                return;
            }
        });
        return !stopped.load(std::memory_order_relaxed);
    }

    /// Bytes of scratch memory.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return scratch_.size() + parts_.size(); }

private:
    static constexpr std::uint32_t most_rows = 128;  ///< of a block: what is decoded for them stays in the second-level cache

    static constexpr std::uint32_t least_rows = 16;

    struct block {
        std::size_t token;       ///< first one in the batch
        std::uint32_t count;     ///< tokens
        std::uint32_t sequence;
        std::uint32_t position;  ///< of the first one
    };

    /// The query rows of a block and one slice of a key/value head's query heads, token by token.
    struct block_rows {
        simd::attention_rows rows;
        std::uint32_t heads;    ///< rows of one token
        std::uint32_t kv_head;
        const float* queries[most_rows];
        float* out[most_rows];
        simd::span_range ranges[most_rows];
    };

    [[nodiscard]] static result<void> allocate(aligned_buffer& to, std::size_t floats, std::size_t times) {
        const auto all = checked_mul<std::size_t>(floats, times);
        const auto bytes = all ? checked_mul<std::size_t>(*all, sizeof(float)) : std::nullopt;
        if (!bytes) return error{errc::overflow, "attention over this context doesn't fit memory; use a smaller context"};
        auto buffer = aligned_buffer::allocate(*bytes);
        if (!buffer) return std::move(buffer).error();
        to = *std::move(buffer);
        return {};
    }

    [[nodiscard]] static std::uint32_t first_seen(std::uint32_t position, std::uint32_t window) noexcept {
        return window != 0 && position + 1 > window ? position + 1 - window : 0;
    }
    [[nodiscard]] static std::uint32_t first_span(const block& b, std::uint32_t window) noexcept {
        return first_seen(b.position, window) / kv_span;
    }
    [[nodiscard]] static std::uint32_t end_span(const block& b) noexcept { return (b.position + b.count - 1) / kv_span + 1; }

    void fill_rows(block_rows& r, const attention_job& job, const block& b, std::uint32_t lane) const noexcept {
        const std::uint32_t group = sizes_.heads / sizes_.kv_heads;
        const std::uint32_t begin = lane % slices_ * slice_heads_;
        r.kv_head = lane / slices_;
        r.heads = std::min(slice_heads_, group - begin);
        const std::size_t first = std::size_t{r.kv_head} * group + begin;
        for (std::uint32_t t = 0; t < b.count; ++t) {
            for (std::uint32_t h = 0; h < r.heads; ++h) {
                r.queries[t * r.heads + h] = job.queries + (b.token + t) * job.query_stride + (first + h) * sizes_.head_k;
                r.out[t * r.heads + h] = job.out + (b.token + t) * job.out_stride + (first + h) * sizes_.head_v;
            }
        }
        r.rows = {r.queries, std::size_t{b.count} * r.heads, sizes_.head_k, sizes_.head_v, job.scale, job.softcap};
    }

    /// What the rows of a block make of one span.
    void attend_one(block_rows& r, const attention_job& job, const kv_store& kv, const block& b, std::uint32_t span,
                    const simd::attention_part& out, float* scratch) const noexcept {
        const std::uint32_t start = span * kv_span;
        for (std::uint32_t t = 0; t < b.count; ++t) {
            const std::uint32_t first = std::max(first_seen(b.position + t, job.window), start);
            const std::uint32_t end = std::min(b.position + t + 1, start + kv_span);
            const auto range = first < end ? simd::span_range{first - start, end - start} : simd::span_range{};
            std::fill_n(r.ranges + t * r.heads, r.heads, range);
        }
        const auto rows = kv.rows(job.layer, b.sequence, r.kv_head, start);
        simd::attend_span(r.rows, r.ranges, {dtype_of(kv.key_type()), rows.keys, dtype_of(kv.value_type()), rows.values}, out, scratch);
    }

    /// All spans of a block one after the other; false if `cancel` was requested meanwhile.
    bool attend_block(const attention_job& job, const kv_store& kv, const block& b, std::uint32_t lane, unsigned worker,
                      const cancel_flag* cancel) noexcept {
        block_rows r;
        fill_rows(r, job, b, lane);
        float* totals = scratch_.as<float>().data() + worker * worker_floats_;
        float* maxima = totals + 2 * r.rows.count;
        float* values = maxima + 2 * r.rows.count;
        float* scratch = values + r.rows.count * sizes_.head_v;
        const simd::attention_totals out{totals, totals + r.rows.count, r.out};
        const simd::attention_part part{maxima, maxima + r.rows.count, values};
        simd::start_totals(r.rows, out);
        for (std::uint32_t span = first_span(b, job.window); span < end_span(b); ++span) {
            if (cancel != nullptr && cancel->requested()) return false;
            attend_one(r, job, kv, b, span, part, scratch);
            simd::merge_span(r.rows, part, out);
        }
        simd::finish_totals(r.rows, out);
        return true;
    }

    /// Every span on its own, then the merge; false if there is no room for that.
    [[nodiscard]] bool run_apart(const attention_job& job, const kv_store& kv, thread_pool& pool, std::size_t lanes) noexcept {
        std::size_t spans = 0;
        std::size_t tokens = 0;
        for (const auto& b : blocks_) {
            spans += end_span(b) - first_span(b, job.window);
            tokens = std::max<std::size_t>(tokens, b.count);
        }
        const std::size_t rows = tokens * slice_heads_;
        const std::size_t floats = rows * (sizes_.head_v + 2);  // of one part
        if (spans == blocks_.size() || spans * lanes > part_floats_ / floats) return false;
        const auto part_at = [&](std::size_t i) {
            float* p = parts_.as<float>().data() + i * floats;
            return simd::attention_part{p, p + rows, p + 2 * rows};
        };
        const std::size_t chunk = std::max<std::size_t>(1, spans * lanes / (std::size_t{8} * pool.used()));
        pool.for_chunks(spans * lanes, chunk, [&](std::size_t begin, std::size_t end, unsigned worker) {
            float* scratch = scratch_.as<float>().data() + worker * worker_floats_;
            block_rows r;
            std::size_t i = 0;  // of the first span of (b, lane)
            for (const auto& b : blocks_) {
                const std::uint32_t first = first_span(b, job.window);
                const std::uint32_t count = end_span(b) - first;
                for (std::uint32_t lane = 0; lane < lanes && i < end; ++lane, i += count) {
                    if (i + count <= begin) continue;
                    fill_rows(r, job, b, lane);
                    for (std::size_t at = std::max(begin, i); at < std::min(end, i + count); ++at) {
                        attend_one(r, job, kv, b, first + static_cast<std::uint32_t>(at - i), part_at(at), scratch);
                    }
                }
            }
        });
        pool.for_chunks(blocks_.size() * lanes, 1, [&](std::size_t begin, std::size_t end, unsigned worker) {
            float* totals = scratch_.as<float>().data() + worker * worker_floats_;
            block_rows r;
            std::size_t i = 0;
            std::size_t item = 0;
            for (const auto& b : blocks_) {
                const std::uint32_t count = end_span(b) - first_span(b, job.window);
                for (std::uint32_t lane = 0; lane < lanes && item < end; ++lane, i += count, ++item) {
                    if (item < begin) continue;
                    fill_rows(r, job, b, lane);
                    const simd::attention_totals out{totals, totals + r.rows.count, r.out};
                    simd::start_totals(r.rows, out);
                    for (std::uint32_t span = 0; span < count; ++span) simd::merge_span(r.rows, part_at(i + span), out);
                    simd::finish_totals(r.rows, out);
                }
            }
        });
        return true;
    }

    attention_sizes sizes_;
    std::uint32_t slices_ = 1;        ///< parts that the query heads of a key/value head are cut into
    std::uint32_t slice_heads_ = 1;   ///< query heads of a slice
    std::uint32_t block_tokens_ = 1;  ///< tokens of a block at most
    std::vector<block> blocks_;
    std::size_t worker_floats_ = 0;
    aligned_buffer scratch_;          ///< worker_floats_ for each thread
    std::size_t part_floats_ = 0;
    aligned_buffer parts_;
};

}  // namespace colibri
