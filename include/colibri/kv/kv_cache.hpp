// Keys and values of past positions, in the format that the user chose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/core/error.hpp"
#include "colibri/kv/kv_type.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/simd/attention.hpp"

namespace colibri {

/// Positions that lie in one aligned span are contiguous in the cache; attention works span by span.
inline constexpr std::uint32_t kv_span = simd::attention_span;

/// Shape of a cache.
struct kv_shape {
    struct layer {
        std::uint32_t kept = 0;  ///< positions held per sequence; fewer than the context only with a window, then whole spans
        std::uint32_t window = 0;  ///< positions that attention looks back, itself included; 0: all
    };
    std::vector<layer> layers;
    std::uint32_t kv_heads = 0;
    std::uint32_t head_k = 0;     ///< elements of a key row
    std::uint32_t head_v = 0;     ///< elements of a value row
    std::uint32_t context = 0;    ///< positions per sequence
    std::uint32_t sequences = 1;
};

/// Positions that a layer keeps: all of the context, or with a window as many as one ubatch needs, in whole spans.
[[nodiscard]] constexpr std::uint32_t kept_positions(std::uint32_t context, std::uint32_t window, std::uint32_t ubatch) noexcept {
    if (window == 0) return context;
    const std::uint64_t needed = round_up<std::uint64_t>(std::uint64_t{window} + ubatch - 1, kv_span);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(context, needed));
}

/// Bytes of the cache: sum over layers and sequences of kept positions, in whole panels of keys, x kv heads x (key row bytes +
/// value row bytes).
[[nodiscard]] inline std::uint64_t kv_bytes(const kv_shape& shape, kv_type k, kv_type v) noexcept {
    std::uint64_t positions = 0;
    for (const auto& layer : shape.layers) positions += round_up<std::uint64_t>(layer.kept, simd::key_lanes);
    return positions * shape.sequences * shape.kv_heads * (row_bytes_of(k, shape.head_k) + row_bytes_of(v, shape.head_v));
}

/// Panels of keys (see simd::store_key) and rows of values of one head over consecutive positions.
struct kv_rows {
    const std::byte* keys = nullptr;
    const std::byte* values = nullptr;
};

/// A cache whose formats are known at run time only. Each sequence has its own positions 0, 1, 2, ... which are appended in
/// order and taken back from the end. Different (layer, sequence, position) may be stored from different threads at once;
/// everything else is for one thread.
class kv_store {
public:
    kv_store(const kv_store&) = delete;
    kv_store& operator=(const kv_store&) = delete;
    virtual ~kv_store() = default;

    [[nodiscard]] virtual kv_type key_type() const noexcept = 0;
    [[nodiscard]] virtual kv_type value_type() const noexcept = 0;

    /// Rounds keys ([kv_heads x head_k]) and values ([kv_heads x head_v]) of one position to the cache's formats and keeps them.
    virtual void store(std::uint32_t layer, std::uint32_t sequence, std::uint32_t position, const float* keys,
                       const float* values) noexcept = 0;

    /// Keys and values of `head` from `position` on, a multiple of simd::key_lanes; contiguous up to the end of the aligned span
    /// that `position` lies in.
    [[nodiscard]] virtual kv_rows rows(std::uint32_t layer, std::uint32_t sequence, std::uint32_t head,
                                       std::uint32_t position) const noexcept = 0;

    /// Copies the first `count` positions of one sequence to another, which then has just these.
    /// Precondition: reusable(from, count) == count.
    virtual void copy(std::uint32_t from, std::uint32_t to, std::uint32_t count) noexcept = 0;

    [[nodiscard]] const kv_shape& shape() const noexcept { return shape_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return kv_bytes(shape_, key_type(), value_type()); }

    /// Positions held of a sequence; the next one appended has this number.
    [[nodiscard]] std::uint32_t length(std::uint32_t sequence) const noexcept { return states_[sequence].length; }

    /// Says that positions below `length` are about to be stored: what the rings lose by that counts as lost from now on, even if
    /// the work fails half way.
    void claim(std::uint32_t sequence, std::uint32_t length) noexcept {
        states_[sequence].highest = std::max(states_[sequence].highest, length);
    }

    /// Counts positions that have been claimed and stored in all layers. Precondition: length + count <= context.
    void append(std::uint32_t sequence, std::uint32_t count) noexcept { states_[sequence].length += count; }

    /// Longest prefix of at most `length` positions from which the sequence can go on: window layers must still hold what its
    /// next position sees, or nothing can be reused.
    [[nodiscard]] std::uint32_t reusable(std::uint32_t sequence, std::uint32_t length) const noexcept {
        const auto& now = states_[sequence];
        length = std::min(length, now.length);
        for (const auto& layer : shape_.layers) {
            if (layer.window == 0 || now.highest <= layer.kept) continue;
            const std::uint32_t oldest = now.highest - layer.kept;
            if (length + 1 < std::uint64_t{oldest} + layer.window) return 0;
        }
        return length;
    }

    /// Forgets positions from `length` on; returns how many remain: `reusable(sequence, length)`.
    std::uint32_t truncate(std::uint32_t sequence, std::uint32_t length) noexcept {
        const std::uint32_t kept = reusable(sequence, length);
        states_[sequence].length = kept;
        if (kept == 0) states_[sequence].highest = 0;
        return kept;
    }

protected:
    explicit kv_store(kv_shape shape) : shape_(std::move(shape)), states_(shape_.sequences) {}

    [[nodiscard]] std::uint32_t highest(std::uint32_t sequence) const noexcept { return states_[sequence].highest; }

    void set_copied(std::uint32_t from, std::uint32_t to, std::uint32_t count) noexcept {
        states_[to] = {count, std::max(count, states_[from].highest)};
    }

private:
    struct state {
        std::uint32_t length = 0;
        std::uint32_t highest = 0;  ///< largest length since the sequence was last empty: what the rings have seen
    };
    kv_shape shape_;
    std::vector<state> states_;
};

/// A cache of keys in format K and values in format V (quant::f32, f16, bf16, q8_0 or q4_0). Values of one head lie one behind
/// the other by position, keys in panels of 16 positions; a window layer is a ring of `kept` positions.
template <quant::block_format K, quant::block_format V>
class kv_cache final : public kv_store {
public:
    /// Allocates kv_bytes() zeroed bytes (taken from the kernel as they are used).
    /// Errors: bad_shape (a head isn't a whole number of the format's blocks), overflow, out_of_memory.
    [[nodiscard]] static result<std::unique_ptr<kv_store>> make(const kv_shape& shape, kv_type k, kv_type v) {
        if (shape.head_k % K::block_size != 0 || shape.head_v % V::block_size != 0) {
            return error{errc::bad_shape,
                         concat("a KV cache of ", name(k), " keys and ", name(v), " values needs heads that are multiples of ",
                                std::max(K::block_size, V::block_size), "; this model's are ", shape.head_k, " and ",
                                shape.head_v, " wide: use f16 for this model")};
        }
        std::unique_ptr<kv_cache> cache(new kv_cache(shape, k, v));
        std::uint64_t key_rows = 0;
        for (const auto& layer : shape.layers) {
            cache->first_row_.push_back(key_rows);
            cache->kept_.push_back(round_up<std::uint64_t>(layer.kept, simd::key_lanes));
            const auto per_sequence = checked_mul<std::uint64_t>(cache->kept_.back(), shape.kv_heads);
            const auto all = per_sequence ? checked_mul<std::uint64_t>(*per_sequence, shape.sequences) : std::nullopt;
            const auto sum = all ? checked_add(key_rows, *all) : std::nullopt;
            if (!sum || *sum > (std::uint64_t{1} << 46)) {
                return error{errc::overflow, "a KV cache for this context would be larger than any machine; use a smaller context"};
            }
            key_rows = *sum;
        }
        auto keys = aligned_buffer::allocate(key_rows * cache->key_row_bytes());
        if (!keys) return std::move(keys).error();
        auto values = aligned_buffer::allocate(key_rows * cache->value_row_bytes());
        if (!values) return std::move(values).error();
        cache->keys_ = *std::move(keys);
        cache->values_ = *std::move(values);
        return std::unique_ptr<kv_store>(std::move(cache));
    }

    [[nodiscard]] kv_type key_type() const noexcept override { return k_; }
    [[nodiscard]] kv_type value_type() const noexcept override { return v_; }

    void store(std::uint32_t layer, std::uint32_t sequence, std::uint32_t position, const float* keys,
               const float* values) noexcept override {
        for (std::uint32_t head = 0; head < shape().kv_heads; ++head) {
            const std::uint64_t row = row_of(layer, sequence, head, position);
            const std::size_t lane = row % simd::key_lanes;
            simd::store_key(dtype_of(k_), keys + std::size_t{head} * shape().head_k, keys_.data() + (row - lane) * key_row_bytes(),
                            lane, shape().head_k);
            simd::store_row(dtype_of(v_), values + std::size_t{head} * shape().head_v, values_.data() + row * value_row_bytes(),
                            shape().head_v);
        }
    }

    [[nodiscard]] kv_rows rows(std::uint32_t layer, std::uint32_t sequence, std::uint32_t head,
                               std::uint32_t position) const noexcept override {
        const std::uint64_t row = row_of(layer, sequence, head, position);
        return {keys_.data() + row * key_row_bytes(), values_.data() + row * value_row_bytes()};
    }

    void copy(std::uint32_t from, std::uint32_t to, std::uint32_t count) noexcept override {
        if (from == to) {
            truncate(to, count);
            return;
        }
        for (std::uint32_t layer = 0; layer < shape().layers.size(); ++layer) {
            for (std::uint32_t head = 0; head < shape().kv_heads; ++head) {
                const std::uint64_t source = row_of(layer, from, head, 0);
                const std::uint64_t target = row_of(layer, to, head, 0);
                const std::uint64_t kept = kept_[layer];
                const std::size_t used = highest(from) > kept ? kept : count;  // a ring that has turned is copied whole
                std::copy_n(keys_.data() + source * key_row_bytes(), round_up(used, simd::key_lanes) * key_row_bytes(),
                            keys_.data() + target * key_row_bytes());
                std::copy_n(values_.data() + source * value_row_bytes(), used * value_row_bytes(),
                            values_.data() + target * value_row_bytes());
            }
        }
        set_copied(from, to, count);
    }

private:
    kv_cache(const kv_shape& shape, kv_type k, kv_type v) : kv_store(shape), k_(k), v_(v) {}

    [[nodiscard]] std::size_t key_row_bytes() const noexcept { return shape().head_k / K::block_size * sizeof(K); }
    [[nodiscard]] std::size_t value_row_bytes() const noexcept { return shape().head_v / V::block_size * sizeof(V); }

    [[nodiscard]] std::uint64_t row_of(std::uint32_t layer, std::uint32_t sequence, std::uint32_t head,
                                       std::uint32_t position) const noexcept {
        const std::uint64_t kept = kept_[layer];
        return first_row_[layer] + (std::uint64_t{sequence} * shape().kv_heads + head) * kept + position % kept;
    }

    kv_type k_;
    kv_type v_;
    std::vector<std::uint64_t> first_row_;  ///< per layer, in rows
    std::vector<std::uint64_t> kept_;       ///< per layer, whole panels
    aligned_buffer keys_;
    aligned_buffer values_;
};

/// A cache of the given formats. Errors: as kv_cache::make.
[[nodiscard]] inline result<std::unique_ptr<kv_store>> make_kv_store(const kv_shape& shape, kv_type k, kv_type v) {
    using made = result<std::unique_ptr<kv_store>>;
    const auto with = [](kv_type type, auto&& fn) -> made {
        switch (type) {
            case kv_type::f32: return fn(std::type_identity<quant::f32>{});
            case kv_type::f16: return fn(std::type_identity<quant::f16>{});
            case kv_type::bf16: return fn(std::type_identity<quant::bf16>{});
            case kv_type::q8_0: return fn(std::type_identity<quant::q8_0>{});
            case kv_type::q4_0: return fn(std::type_identity<quant::q4_0>{});
        }
        return error{errc::invalid_argument, "no such KV cache format"};
    };
    return with(k, [&]<class K>(std::type_identity<K>) -> made {
        return with(v, [&]<class V>(std::type_identity<V>) -> made { return kv_cache<K, V>::make(shape, k, v); });
    });
}

}  // namespace colibri
