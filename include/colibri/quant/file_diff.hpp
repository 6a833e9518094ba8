// What differs between two models: metadata, tensors, values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/tensor_reader.hpp"
#include "colibri/quant/tensor_values.hpp"

namespace colibri::quant {

/// One key whose values differ; null where a model doesn't have it.
struct key_difference {
    std::string key;
    const gguf::value* a = nullptr;
    const gguf::value* b = nullptr;
};

/// How values of two tensors of one shape differ.
struct value_difference {
    std::uint64_t differing = 0;  ///< values that aren't equal (a NaN equals a NaN here)
    std::uint64_t one_sided = 0;  ///< of these, values that are finite in one model only, or infinite with other signs; not in the figures below
    double largest = 0;           ///< of |a - b|
    double rms = 0;               ///< of a - b
    double rms_a = 0;             ///< of a, to measure it by
};

/// One tensor that isn't the same in both; null where a model doesn't have it.
struct tensor_difference {
    const gguf::tensor_info* a = nullptr;
    const gguf::tensor_info* b = nullptr;
    std::optional<value_difference> values;  ///< for equal shapes and types that can be decoded
};

/// All differences. `keys` and `tensors` point into the models that were compared.
struct file_diff {
    std::vector<key_difference> keys;        ///< a's order, then what only b has; keys 'split.*' don't count
    std::vector<tensor_difference> tensors;  ///< likewise
    std::uint64_t same_keys = 0;
    std::uint64_t same_tensors = 0;  ///< of equal type, shape and bytes

    [[nodiscard]] bool same() const noexcept { return keys.empty() && tensors.empty(); }
};

/// Compares two models. Reads each tensor that both have once from each. The figures have the same bits for any number of threads.
/// `watch` gets values. Errors: truncated, io, canceled.
[[nodiscard]] result<file_diff> diff_files(const gguf::file& a, const gguf::file& b, thread_pool& pool, const progress_fn& watch = {});

namespace detail {

/// Sums over some values of a pair of tensors.
struct difference_sums {
    std::uint64_t differing = 0;
    std::uint64_t one_sided = 0;
    double largest = 0;
    double squares = 0;
    double squares_a = 0;

    void add(double x, double y) noexcept {
        const bool finite = std::isfinite(x) && std::isfinite(y);
        if (std::isfinite(x)) squares_a += x * x;
        if (x == y || (std::isnan(x) && std::isnan(y))) return;
        ++differing;
        if (!finite) {
            ++one_sided;
            return;
        }
        const double difference = std::fabs(x - y);
        largest = std::max(largest, difference);
        squares += difference * difference;
    }
    void add(const difference_sums& other) noexcept {
        differing += other.differing;
        one_sided += other.one_sided;
        largest = std::max(largest, other.largest);
        squares += other.squares;
        squares_a += other.squares_a;
    }
};

/// Both tensors' bytes of `count` values, whole blocks of both types; at most 2^16 values.
[[nodiscard]] inline difference_sums compare_values(dtype type_a, std::span<const std::byte> a, dtype type_b, std::span<const std::byte> b,
                                                    std::size_t count) {
    std::vector<double> left;
    left.reserve(count);
    for_values(type_a, a, [&](const auto values, std::size_t) { left.insert(left.end(), values.begin(), values.end()); });
    difference_sums out;
    for_values(type_b, b, [&](const auto values, std::size_t first) {
        for (std::size_t i = 0; i < values.size(); ++i) out.add(left[first + i], static_cast<double>(values[i]));
    });
    return out;
}

[[nodiscard]] inline std::uint64_t bytes_of_values(dtype type, std::uint64_t values) {
    const auto kind = *find_dtype(static_cast<std::uint32_t>(type));
    return values / kind.block_size * kind.block_bytes;
}

/// The difference of one pair; nothing if they are the same.
class pair_comparison {
public:
    pair_comparison(gguf::tensor_reader& in_a, gguf::tensor_reader& in_b, thread_pool& pool) : in_a_(in_a), in_b_(in_b), pool_(pool) {}

    /// `step` is called with the number of values done. Precondition: equal shapes.
    template <class Step>
    [[nodiscard]] result<std::optional<tensor_difference>> compare(const gguf::tensor_info& a, const gguf::tensor_info& b, Step&& step) {
        constexpr std::uint64_t window = std::uint64_t{1} << 20;
        constexpr std::size_t job = std::size_t{1} << 14;  // a multiple of every block size
        const bool decodable = has_values(a.type) && has_values(b.type);
        difference_sums sums;
        bool same = a.type == b.type;
        for (std::uint64_t at = 0; at < a.elements(); at += window) {
            const std::uint64_t count = std::min(window, a.elements() - at);
            bytes_a_.resize(static_cast<std::size_t>(bytes_of_values(a.type, count)));
            bytes_b_.resize(static_cast<std::size_t>(bytes_of_values(b.type, count)));
            if (auto ok = in_a_.read(a, bytes_of_values(a.type, at), bytes_a_); !ok) return std::move(ok).error();
            if (auto ok = in_b_.read(b, bytes_of_values(b.type, at), bytes_b_); !ok) return std::move(ok).error();
            same = same && bytes_a_ == bytes_b_;
            if (decodable) {
                jobs_.assign(static_cast<std::size_t>((count + job - 1) / job), {});
                pool_.for_chunks(jobs_.size(), 1, [&](std::size_t begin, std::size_t end, unsigned) {
                    for (std::size_t i = begin; i < end; ++i) {
                        const std::size_t now = std::min<std::size_t>(job, static_cast<std::size_t>(count) - i * job);
                        const auto piece = [&](dtype type, const std::vector<std::byte>& bytes) {
                            return std::span(bytes).subspan(static_cast<std::size_t>(bytes_of_values(type, i * job)),
                                                            static_cast<std::size_t>(bytes_of_values(type, now)));
                        };
                        jobs_[i] = compare_values(a.type, piece(a.type, bytes_a_), b.type, piece(b.type, bytes_b_), now);
                    }
                });
                for (const auto& each : jobs_) sums.add(each);
            }
            if (auto ok = step(count); !ok) return std::move(ok).error();
        }
        if (same) return std::optional<tensor_difference>();
        tensor_difference out{&a, &b, {}};
        if (decodable) {
            const auto n = static_cast<double>(a.elements());
            out.values = value_difference{sums.differing, sums.one_sided, sums.largest, std::sqrt(sums.squares / n), std::sqrt(sums.squares_a / n)};
        }
        return std::optional(out);
    }

private:
    gguf::tensor_reader& in_a_;
    gguf::tensor_reader& in_b_;
    thread_pool& pool_;
    std::vector<std::byte> bytes_a_, bytes_b_;
    std::vector<difference_sums> jobs_;
};

inline void diff_keys(const gguf::metadata& a, const gguf::metadata& b, file_diff& out) {
    for (const auto& [key, value] : a.entries()) {
        if (key.starts_with("split.")) continue;
        const gguf::value* other = b.find(key);
        if (other != nullptr && *other == value) ++out.same_keys;
        else out.keys.push_back({key, &value, other});
    }
    for (const auto& [key, value] : b.entries()) {
        if (!key.starts_with("split.") && !a.contains(key)) out.keys.push_back({key, nullptr, &value});
    }
}

}  // namespace detail

inline result<file_diff> diff_files(const gguf::file& a, const gguf::file& b, thread_pool& pool, const progress_fn& watch) {
    auto in_a = gguf::tensor_reader::open(a);
    if (!in_a) return std::move(in_a).error();
    auto in_b = gguf::tensor_reader::open(b);
    if (!in_b) return std::move(in_b).error();
    file_diff out;
    detail::diff_keys(a.meta(), b.meta(), out);
    const auto comparable = [](const gguf::tensor_info& x, const gguf::tensor_info* y) { return y != nullptr && x.dims == y->dims; };
    progress done;
    for (const auto& tensor : a.tensors()) {
        if (comparable(tensor, b.find(tensor.name))) done.total += tensor.elements();
    }
    const auto step = [&](std::uint64_t values) -> result<void> {
        done.done += values;
        if (watch && !watch(done)) return error{errc::canceled, "the work was stopped"};
        return {};
    };
    detail::pair_comparison pairs(*in_a, *in_b, pool);
    for (const auto& tensor : a.tensors()) {
        const gguf::tensor_info* other = b.find(tensor.name);
        if (!comparable(tensor, other)) {
            out.tensors.push_back({&tensor, other, {}});
            continue;
        }
        auto got = pairs.compare(tensor, *other, step);
        if (!got) return std::move(got).error();
        if (*got) out.tensors.push_back(**got);
        else ++out.same_tensors;
    }
    for (const auto& tensor : b.tensors()) {
        if (a.find(tensor.name) == nullptr) out.tensors.push_back({nullptr, &tensor, {}});
    }
    return out;
}

}  // namespace colibri::quant
