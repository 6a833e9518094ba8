// Colibri in one file, which must keep its name, colibri.hpp. Made by scripts/amalgamate.py from include/colibri:
// change that, not this.
//
// MIT License
//
// Copyright (c) 2026 Colibri authors
//
// Permission is hereby granted, free of charge, to any person obtaining a copy
// of this software and associated documentation files (the "Software"), to deal
// in the Software without restriction, including without limitation the rights
// to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
// copies of the Software, and to permit persons to whom the Software is
// furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all
// copies or substantial portions of the Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
// IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
// FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
// AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
// LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
// OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
// SOFTWARE.

#if !defined(COLIBRI_SINGLE_HPP)
#define COLIBRI_SINGLE_HPP

// ---- colibri/version.hpp

// The version of these headers; CMake reads it from here.
#include <string_view>

namespace colibri {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

/// "major.minor.patch".
inline constexpr std::string_view version = "0.1.0";

}  // namespace colibri

// ---- colibri/core/concat.hpp

// Joins text and numbers without a stream and without the locale.
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace colibri {
namespace detail {

inline void append_part(std::string& out, std::string_view part) { out += part; }
inline void append_part(std::string& out, char part) { out += part; }

template <std::same_as<bool> T>  // a template, so that a pointer never becomes a bool here
void append_part(std::string& out, T part) {
    out += part ? "true" : "false";
}

template <class T>
    requires(std::integral<T> || std::floating_point<T>) && (!std::same_as<T, char>) && (!std::same_as<T, bool>)
void append_part(std::string& out, T number) {
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.append(digits, end);
}

}  // namespace detail

/// Text of all parts, one behind the other. Numbers are written in their shortest exact form with a point,
/// whatever the locale is; `bool` as true/false. Allocates the result only.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
    std::string out;
    (detail::append_part(out, parts), ...);
    return out;
}

}  // namespace colibri

// ---- colibri/core/error.hpp

// Error values: what is wrong, where, and what to do about it.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>


namespace colibri {

/// Kind of a failure. The message says the rest; programs map kinds to exit codes.
enum class errc : std::uint8_t {
    io,                ///< the operating system refused: open, read, write, sync
    not_found,         ///< no such file
    not_a_file,        ///< a directory, a device, or another kind of file than asked for
    truncated,         ///< bytes end before the structure does
    bad_magic,         ///< the file is of another kind
    bad_version,       ///< a version that nobody defined, or another byte order
    overflow,          ///< a count, length or product that no file of this size can hold
    bad_type,          ///< an unknown or unsupported type number
    bad_count,         ///< a count that contradicts another one
    bad_offset,        ///< an offset outside the data or not aligned
    bad_alignment,     ///< an alignment that is not usable
    duplicate,         ///< the same key or name twice
    bad_shape,         ///< dimensions that don't fit
    bad_value,         ///< a value outside its range
    bad_utf8,          ///< text that is not UTF-8 where UTF-8 is needed
    missing_key,       ///< a metadata key that the reader needs
    missing_tensor,    ///< a tensor that the architecture needs
    split,             ///< parts of a split model that don't belong together or are missing
    unsupported,       ///< well formed, but nothing here can run it
    out_of_memory,     ///< the budget or the machine is too small
    context_full,      ///< more tokens than the context holds
    canceled,          ///< stopped on request
    invalid_argument,  ///< the caller's value is outside its range
    template_syntax,   ///< a chat template that doesn't parse
    template_runtime,  ///< a chat template that failed while it ran
    limit,             ///< a limit on steps, depth or output was reached
};

/// Short stable name of a kind, as used in JSON output and tests ("bad-offset").
[[nodiscard]] constexpr std::string_view name(errc code) noexcept {
    switch (code) {
        case errc::io: return "io";
        case errc::not_found: return "not-found";
        case errc::not_a_file: return "not-a-file";
        case errc::truncated: return "truncated";
        case errc::bad_magic: return "bad-magic";
        case errc::bad_version: return "bad-version";
        case errc::overflow: return "overflow";
        case errc::bad_type: return "bad-type";
        case errc::bad_count: return "bad-count";
        case errc::bad_offset: return "bad-offset";
        case errc::bad_alignment: return "bad-alignment";
        case errc::duplicate: return "duplicate";
        case errc::bad_shape: return "bad-shape";
        case errc::bad_value: return "bad-value";
        case errc::bad_utf8: return "bad-utf8";
        case errc::missing_key: return "missing-key";
        case errc::missing_tensor: return "missing-tensor";
        case errc::split: return "split";
        case errc::unsupported: return "unsupported";
        case errc::out_of_memory: return "out-of-memory";
        case errc::context_full: return "context-full";
        case errc::canceled: return "canceled";
        case errc::invalid_argument: return "invalid-argument";
        case errc::template_syntax: return "template-syntax";
        case errc::template_runtime: return "template-runtime";
        case errc::limit: return "limit";
    }
    return "unknown";
}

/// A failure as a value. `message` is one sentence without a final newline, already safe for a terminal.
struct error {
    static constexpr std::uint64_t no_offset = ~std::uint64_t{0};

    errc code = errc::io;
    std::string message;
    std::uint64_t offset = no_offset;  ///< byte offset in the file the message is about, if it has one
    std::string context = {};          ///< file, tensor, key or line that was being read

    /// One line for a person: "context: message (at byte N)".
    [[nodiscard]] std::string text() const {
        std::string out;
        if (!context.empty()) out = concat(context, ": ");
        out += message;
        if (offset != no_offset) out += concat(" (at byte ", offset, ")");
        return out;
    }

    /// The same error, seen from further out; an existing context is kept behind the new one.
    [[nodiscard]] error within(std::string_view outer) && {
        context = context.empty() ? std::string(outer) : concat(outer, ": ", context);
        return std::move(*this);
    }
};

/// Thrown by `result<T>::value()` only; nothing else in the library throws on bad input.
class exception : public std::runtime_error {
public:
    explicit exception(colibri::error e) : std::runtime_error(e.text()), error_(std::move(e)) {}
    [[nodiscard]] const colibri::error& error() const noexcept { return error_; }

private:
    colibri::error error_;
};

/// Either a T or an `error`. Test it, then use `*r`; or call `value()`, which throws `exception` on an error.
template <class T>
class [[nodiscard]] result {
public:
    using value_type = T;

    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}                 // NOLINT: implicit by design
    result(colibri::error e) : state_(std::in_place_index<1>, std::move(e)) {}            // NOLINT: implicit by design

    [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    [[nodiscard]] T& operator*() & { return *std::get_if<0>(&state_); }
    [[nodiscard]] const T& operator*() const& { return *std::get_if<0>(&state_); }
    [[nodiscard]] T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
    [[nodiscard]] T* operator->() { return std::get_if<0>(&state_); }
    [[nodiscard]] const T* operator->() const { return std::get_if<0>(&state_); }

    [[nodiscard]] colibri::error& error() & { return *std::get_if<1>(&state_); }
    [[nodiscard]] const colibri::error& error() const& { return *std::get_if<1>(&state_); }
    [[nodiscard]] colibri::error&& error() && { return std::move(*std::get_if<1>(&state_)); }

    [[nodiscard]] T& value() & {
        if (!has_value()) throw exception(error());
        return **this;
    }
    [[nodiscard]] const T& value() const& {
        if (!has_value()) throw exception(error());
        return **this;
    }
    [[nodiscard]] T value() && {
        if (!has_value()) throw exception(std::move(*this).error());
        return std::move(**this);
    }
    template <class U>
    [[nodiscard]] T value_or(U&& other) const& {
        return has_value() ? **this : static_cast<T>(std::forward<U>(other));
    }

private:
    std::variant<T, colibri::error> state_;
};

/// Success without a value, or an `error`. `return {};` is success.
template <>
class [[nodiscard]] result<void> {
public:
    using value_type = void;

    result() = default;
    result(colibri::error e) : failed_(true), error_(std::move(e)) {}  // NOLINT: implicit by design

    [[nodiscard]] bool has_value() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return has_value(); }
    [[nodiscard]] colibri::error& error() & { return error_; }
    [[nodiscard]] const colibri::error& error() const& { return error_; }
    [[nodiscard]] colibri::error&& error() && { return std::move(error_); }
    void value() const {
        if (failed_) throw exception(error_);
    }

private:
    bool failed_ = false;
    colibri::error error_;
};

}  // namespace colibri

// ---- colibri/core/buffer.hpp

// Aligned memory that never throws on allocation failure in the middle of work.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif


namespace colibri {

/// Owning block of zeroed bytes, aligned to 64 (to 2 MiB, with huge pages asked for, from 4 MiB on: one core reads DRAM at
/// 32 instead of 26 GB/s with them on Zen 4). Move-only. Memory is taken from the kernel lazily.
class aligned_buffer {
public:
    aligned_buffer() = default;
    aligned_buffer(aligned_buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), mapped_(other.mapped_) {}
    aligned_buffer& operator=(aligned_buffer&& other) noexcept {
        if (this != &other) {
            release();
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            mapped_ = other.mapped_;
        }
        return *this;
    }
    ~aligned_buffer() { release(); }

    /// `bytes` zeroed bytes. Errors: out_of_memory.
    [[nodiscard]] static result<aligned_buffer> allocate(std::size_t bytes) {
        aligned_buffer out;
        if (bytes == 0) return out;
        constexpr std::size_t huge = std::size_t{2} << 20;
        const auto fail = [&] {
            return error{errc::out_of_memory, concat("could not get ", bytes, " bytes of memory")};
        };
        if (bytes > ~std::size_t{0} - 2 * huge) return fail();
#if defined(__linux__)
        if (bytes >= 2 * huge) {
            const std::size_t rounded = (bytes + huge - 1) / huge * huge;
            void* whole = ::mmap(nullptr, rounded + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (whole == MAP_FAILED) return fail();
            auto* begin = static_cast<std::byte*>(whole);
            const auto address = reinterpret_cast<std::uintptr_t>(begin);
            const std::size_t head = (huge - address % huge) % huge;
            if (head != 0) ::munmap(begin, head);
            if (head != huge) ::munmap(begin + head + rounded, huge - head);
            ::madvise(begin + head, rounded, MADV_HUGEPAGE);
            out.data_ = begin + head;
            out.size_ = bytes;
            out.mapped_ = rounded;
            return out;
        }
#endif
        const std::size_t rounded = (bytes + 63) / 64 * 64;
        void* block = std::aligned_alloc(64, rounded);
        if (block == nullptr) return fail();
        std::memset(block, 0, rounded);
        out.data_ = static_cast<std::byte*>(block);
        out.size_ = bytes;
        return out;
    }

    [[nodiscard]] std::byte* data() noexcept { return data_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// The bytes as an array of T (trivial types only); size is size() / sizeof(T).
    template <class T>
    [[nodiscard]] std::span<T> as() noexcept {
        return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
    }
    template <class T>
    [[nodiscard]] std::span<const T> as() const noexcept {
        return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
    }

private:
    void release() noexcept {
        if (data_ == nullptr) return;
#if defined(__linux__)
        if (mapped_ != 0) {
            ::munmap(data_, mapped_);
            data_ = nullptr;
            return;
        }
#endif
        std::free(data_);
        data_ = nullptr;
    }

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t mapped_ = 0;
};

}  // namespace colibri

// ---- colibri/core/cancel.hpp

// A flag that a signal handler or another thread sets to stop work.
#include <atomic>

namespace colibri {

/// Set once, seen by all holders of a pointer to it. `request` is safe in a signal handler (lock-free atomic).
class cancel_flag {
public:
    void request() noexcept { set_.store(true, std::memory_order_relaxed); }
    void reset() noexcept { set_.store(false, std::memory_order_relaxed); }
    [[nodiscard]] bool requested() const noexcept { return set_.load(std::memory_order_relaxed); }

private:
    std::atomic<bool> set_{false};
    static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace colibri

// ---- colibri/core/checked.hpp

// Sums and products of sizes that come from outside.
#include <concepts>
#include <optional>

namespace colibri {

/// a + b, or nothing if it doesn't fit T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) noexcept {
    T out{};
    if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
    return out;
}

/// a * b, or nothing if it doesn't fit T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) noexcept {
    T out{};
    if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
    return out;
}

/// Smallest multiple of `step` (a power of two) that is at least `n`, or nothing if it doesn't fit.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_round_up(T n, T step) noexcept {
    const auto sum = checked_add<T>(n, static_cast<T>(step - 1));
    if (!sum) return std::nullopt;
    return static_cast<T>(*sum & ~(step - 1));
}

/// Smallest multiple of `step` (any number above 0) that is at least `n`; both small enough not to overflow.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T n, T step) noexcept {
    return static_cast<T>((n + step - 1) / step * step);
}

}  // namespace colibri

// ---- colibri/core/escape.hpp

// Text from files made safe to show.
#include <string>
#include <string_view>

namespace colibri {

/// `text` with control characters, DEL, and bytes of ill-formed UTF-8 written as \n, \t, \r, \\ or \xHH, so that names and
/// values from a file can't send escape codes to a terminal. At most `max_bytes` bytes of the source are shown; the rest
/// becomes "...". C1 controls (U+0080..U+009F) and bidirectional overrides are escaped too.
[[nodiscard]] inline std::string escaped(std::string_view text, std::size_t max_bytes = 200) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    const auto put_hex = [&](unsigned char byte) {
        out += "\\x";
        out += hex[byte >> 4];
        out += hex[byte & 15];
    };
    std::size_t i = 0;
    while (i < text.size()) {
        if (i >= max_bytes) {
            out += "...";
            break;
        }
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x80) {
            switch (byte) {
                case '\n': out += "\\n"; break;
                case '\t': out += "\\t"; break;
                case '\r': out += "\\r"; break;
                case '\\': out += "\\\\"; break;
                default:
                    if (byte < 0x20 || byte == 0x7f) put_hex(byte);
                    else out += static_cast<char>(byte);
            }
            ++i;
            continue;
        }
        const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
        bool whole = byte >= 0xc2 && byte <= 0xf4 && i + length <= text.size();
        char32_t code = length == 2 ? byte & 0x1f : length == 3 ? byte & 0x0f : byte & 0x07;
        for (std::size_t k = 1; whole && k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            whole = (next & 0xc0) == 0x80;
            code = (code << 6) | (next & 0x3f);
        }
        whole = whole && code >= (length == 2 ? 0x80u : length == 3 ? 0x800u : 0x10000u) && code <= 0x10ffff &&
                !(code >= 0xd800 && code <= 0xdfff);
        const bool unsafe = (code >= 0x80 && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
                            (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
        if (whole && !unsafe) {
            out += text.substr(i, length);
            i += length;
        } else {
            const std::size_t shown = whole ? length : 1;
            for (std::size_t k = 0; k < shown; ++k) put_hex(static_cast<unsigned char>(text[i + k]));
            i += shown;
        }
    }
    return out;
}

/// `escaped` text in single quotes, for messages.
[[nodiscard]] inline std::string quoted(std::string_view text, std::size_t max_bytes = 200) {
    std::string out = "'";
    out += escaped(text, max_bytes);
    out += '\'';
    return out;
}
// For std::string the two below win over std::quoted, which argument-dependent look-up would prefer.
[[nodiscard]] inline std::string quoted(const std::string& text, std::size_t max_bytes = 200) {
    return quoted(std::string_view(text), max_bytes);
}
[[nodiscard]] inline std::string quoted(std::string& text, std::size_t max_bytes = 200) {
    return quoted(std::string_view(text), max_bytes);
}

}  // namespace colibri

// ---- colibri/core/half.hpp

// Half-precision numbers: IEEE 754 binary16 (f16) and bfloat16 (bf16), scalar and exact.
#include <bit>
#include <cstdint>

namespace colibri {

/// Value of an IEEE binary16 bit pattern; exact, subnormals, infinities and NaN included (a NaN becomes quiet).
[[nodiscard]] constexpr float f16_to_f32(std::uint16_t bits) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0) {
        // mantissa * 2^-24 is exact in binary32.
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    if (exponent == 31) {
        return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u));
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// Nearest binary16 of `value`, ties to even; too large becomes infinity, NaN stays NaN (quiet).
[[nodiscard]] constexpr std::uint16_t f32_to_f16(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {
        // Below 2^-14: adding 0.5 leaves value/2^-24, rounded to nearest even, in the low mantissa bits.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

/// Value of a bfloat16 bit pattern; exact.
[[nodiscard]] constexpr float bf16_to_f32(std::uint16_t bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Nearest bfloat16 of `value`, ties to even; NaN stays NaN (quiet).
[[nodiscard]] constexpr std::uint16_t f32_to_bf16(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 64u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace colibri

// ---- colibri/core/math.hpp

// Elementary functions in double precision that give the same bits on every machine.
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace colibri::math {

// The C library's exp, log, sin and cos may differ in the last bit from one version or CPU to the next; rounded to float that
// is rarely visible, but rarely is not never, and answers shall not depend on it. These use only +, *, / and std::fma, which
// IEEE 754 defines exactly. They are for tables and samplers, not for kernels. Errors are below 2 units in the last place.

struct sine_cosine {
    double sine;
    double cosine;
};

/// e^x; 0 below -745, infinity above 709.78. Series in the reduced argument (|r| <= ln 2 / 2).
[[nodiscard]] inline double exp(double x) noexcept {
    if (!(x > -745.2)) return x != x ? x : 0.0;
    if (x > 709.79) return std::bit_cast<double>(std::uint64_t{0x7ff0000000000000u});
    constexpr double ln2_high = 0x1.62e42fefa0000p-1;
    constexpr double ln2_low = 0x1.cf79abc9e3b3ap-40;
    const double k = std::nearbyint(x * (1.0 / std::numbers::ln2));
    const double r = std::fma(-k, ln2_low, std::fma(-k, ln2_high, x));
    double sum = 1.0;
    for (int n = 14; n >= 1; --n) sum = std::fma(sum, r / n, 1.0);
    return std::scalbn(sum, static_cast<int>(k));
}

/// Natural logarithm of x > 0; -infinity for 0, NaN below. Series of atanh((m - 1) / (m + 1)).
[[nodiscard]] inline double log(double x) noexcept {
    if (x == 0.0) return -std::bit_cast<double>(std::uint64_t{0x7ff0000000000000u});
    if (!(x > 0.0)) return std::bit_cast<double>(std::uint64_t{0x7ff8000000000000u});
    if (x > 1.7976931348623157e308) return x;
    int exponent = 0;
    double m = std::frexp(x, &exponent);
    if (m < std::numbers::sqrt2 / 2) {
        m *= 2;
        --exponent;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double sum = 0.0;
    for (int n = 23; n >= 1; n -= 2) sum = std::fma(sum, z, 1.0 / n);
    return std::fma(static_cast<double>(exponent), std::numbers::ln2, 2.0 * s * sum);
}

/// base^exponent for base > 0.
[[nodiscard]] inline double pow(double base, double exponent) noexcept { return exp(exponent * log(base)); }

/// Sine and cosine of x in radians, |x| < 2^30.
[[nodiscard]] inline sine_cosine sincos(double x) noexcept {
    constexpr double half_pi_high = 0x1.921fb54442d18p+0;
    constexpr double half_pi_low = 0x1.1a62633145c07p-54;
    const double n = std::nearbyint(x * (2.0 / std::numbers::pi));
    const double r = std::fma(-n, half_pi_low, std::fma(-n, half_pi_high, x));
    const double z = r * r;
    double sine = 1.0;
    double cosine = 1.0;
    for (int k = 19; k >= 3; k -= 2) sine = std::fma(sine, -z / (k * (k - 1)), 1.0);
    for (int k = 20; k >= 2; k -= 2) cosine = std::fma(cosine, -z / (k * (k - 1)), 1.0);
    sine *= r;
    switch (static_cast<std::int64_t>(n) & 3) {
        case 0: return {sine, cosine};
        case 1: return {cosine, -sine};
        case 2: return {-sine, -cosine};
        default: return {-cosine, sine};
    }
}

}  // namespace colibri::math

// ---- colibri/core/number.hpp

// Numbers from text, without the locale: a comma locale changes nothing.
#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace colibri {

/// The number that `text` is, all of it, or nothing: no white space, no leftover, no overflow. A leading '+' is allowed.
/// Integers are decimal; floating point takes the forms of `strtod` but always with a point ("1e-3", "inf", "nan").
template <class T>
    requires(std::integral<T> || std::floating_point<T>)
[[nodiscard]] std::optional<T> parse_number(std::string_view text) noexcept {
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    T out{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (problem != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return out;
}

}  // namespace colibri

// ---- colibri/core/progress.hpp

// Reports of long work to whoever shows them.
#include <cstdint>
#include <functional>

namespace colibri {

/// How far some work is. `done` and `total` are in the unit that the function says (bytes, tokens).
struct progress {
    std::uint64_t done = 0;
    std::uint64_t total = 0;
};

/// Called now and then from the thread that works; returning false asks the work to stop (it ends with errc::canceled).
/// An empty function means nobody watches.
using progress_fn = std::function<bool(const progress&)>;

}  // namespace colibri

// ---- colibri/core/thread_pool.hpp

// Fork-join threads for one product at a time.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace colibri {

/// A fixed set of threads that run one loop together and wait on a futex between loops. The calling thread takes part, so
/// a pool of size 1 has no thread of its own. Idle workers spin for a short while (fork-join 0.08 us median on Zen 4 that
/// way, 76 us with condition variables), then sleep and cost nothing. Not thread-safe: one caller at a time; loops don't nest.
class thread_pool {
public:
    /// `threads` in all, the caller included; 0 counts as 1. Throws std::system_error if a thread can't be started.
    explicit thread_pool(unsigned threads) : size_(std::max(1u, threads)) {
        workers_.reserve(size_ - 1);
        try {
            for (unsigned id = 1; id < size_; ++id) workers_.emplace_back([this, id] { serve(id); });
        } catch (...) {
            shut_down();
            throw;
        }
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;
    ~thread_pool() { shut_down(); }

    [[nodiscard]] unsigned size() const noexcept { return size_; }

    /// Calls `body(begin, end, worker)` for pieces of [0, count) of at most `chunk` items, spread over the threads as they
    /// become free; returns when all are done. `body` must not throw. `worker` < size() tells which scratch to use.
    /// No allocation, no lock; the only system call is the futex of a thread that sleeps.
    template <class Body>
    void for_chunks(std::size_t count, std::size_t chunk, Body&& body) noexcept {
        if (count == 0) return;
        chunk = std::max<std::size_t>(1, chunk);
        if (size_ == 1 || count <= chunk) {
            body(std::size_t{0}, count, 0u);
            return;
        }
        using body_type = std::remove_reference_t<Body>;
        job_.body = const_cast<void*>(static_cast<const void*>(&body));
        job_.call = [](void* erased, std::size_t begin, std::size_t end, unsigned worker) {
            (*static_cast<body_type*>(erased))(begin, end, worker);
        };
        job_.count = count;
        job_.chunk = chunk;
        next_.store(0, std::memory_order_relaxed);
        running_.store(size_ - 1, std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) != 0) generation_.notify_all();
        work(0);
        unsigned spins = 0;
        for (unsigned left = running_.load(std::memory_order_acquire); left != 0;
             left = running_.load(std::memory_order_acquire)) {
            if (++spins < spin_limit) pause();
            else running_.wait(left, std::memory_order_acquire);
        }
    }

private:
    struct job {
        void* body = nullptr;
        void (*call)(void*, std::size_t, std::size_t, unsigned) = nullptr;
        std::size_t count = 0;
        std::size_t chunk = 1;
    };

    static constexpr unsigned spin_limit = 2000;

    static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        _mm_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }

    void work(unsigned id) noexcept {
        for (;;) {
            const std::size_t begin = next_.fetch_add(job_.chunk, std::memory_order_relaxed);
            if (begin >= job_.count) return;
            job_.call(job_.body, begin, std::min(job_.count, begin + job_.chunk), id);
        }
    }

    void serve(unsigned id) noexcept {
        std::uint32_t seen = 0;
        for (;;) {
            std::uint32_t now = generation_.load(std::memory_order_acquire);
            for (unsigned spins = 0; now == seen && spins < spin_limit; ++spins) {
                pause();
                now = generation_.load(std::memory_order_acquire);
            }
            if (now == seen) {
                sleepers_.fetch_add(1, std::memory_order_seq_cst);
                generation_.wait(seen, std::memory_order_seq_cst);
                sleepers_.fetch_sub(1, std::memory_order_relaxed);
                continue;
            }
            seen = now;
            if (stop_.load(std::memory_order_relaxed)) return;
            work(id);
            if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
        }
    }

    void shut_down() noexcept {
        stop_.store(true, std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_seq_cst);
        generation_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    unsigned size_;
    job job_;
    alignas(64) std::atomic<std::size_t> next_{0};
    alignas(64) std::atomic<std::uint32_t> generation_{0};
    std::atomic<std::uint32_t> sleepers_{0};
    alignas(64) std::atomic<unsigned> running_{0};
    std::atomic<bool> stop_{false};
    std::vector<std::thread> workers_;
};

}  // namespace colibri

// ---- colibri/io/file_handle.hpp

// An open file descriptor, and what the operating system says when it refuses.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>


namespace colibri {

static_assert(std::endian::native == std::endian::little, "Colibri reads little-endian files on little-endian machines");

namespace detail {

/// What an errno means, in plain words; the number for the rare ones.
[[nodiscard]] inline std::string system_text(int number) {
    switch (number) {
        case ENOENT: return "there is no such file";
        case ENOTDIR: return "a part of the path is not a folder";
        case EACCES:
        case EPERM: return "permission denied";
        case EISDIR: return "it is a folder";
        case ENOSPC: return "the disk is full";
        case EDQUOT: return "the disk quota is used up";
        case EFBIG: return "the file would be larger than allowed here";
        case EROFS: return "the file system is read-only";
        case EIO: return "the disk reports an input/output error";
        case ENOMEM: return "not enough memory";
        case EMFILE:
        case ENFILE: return "too many open files";
        case ENAMETOOLONG: return "the name is too long";
        case ELOOP: return "too many symbolic links";
        case EBUSY: return "it is in use";
        case ENODEV:
        case EINVAL: return "the file system does not support it";
        default: return concat("system error ", number);
    }
}

/// An error about `path` from an errno: "can't VERB 'path': reason".
[[nodiscard]] inline error system_error(std::string_view verb, const std::filesystem::path& path, int number) {
    const errc code = number == ENOENT   ? errc::not_found
                      : number == EISDIR ? errc::not_a_file
                      : number == ENOMEM ? errc::out_of_memory
                                         : errc::io;
    return error{code, concat("can't ", verb, " ", quoted(path.string()), ": ", system_text(number))};
}

}  // namespace detail

/// Owner of a file descriptor; closes it. Move-only.
class file_handle {
public:
    file_handle() = default;
    explicit file_handle(int descriptor) noexcept : descriptor_(descriptor) {}
    file_handle(file_handle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    file_handle& operator=(file_handle&& other) noexcept {
        if (this != &other) {
            close();
            descriptor_ = std::exchange(other.descriptor_, -1);
        }
        return *this;
    }
    ~file_handle() { close(); }

    [[nodiscard]] int get() const noexcept { return descriptor_; }
    [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
    void close() noexcept {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }

private:
    int descriptor_ = -1;
};

/// A regular file opened for reading, and its size when it was opened.
struct opened_file {
    file_handle handle;
    std::uint64_t size = 0;
};

/// Opens a regular file for reading; never blocks on a FIFO. `extra_flags` are added to open(2)'s.
/// Errors: not_found, not_a_file (folder, FIFO, socket, device), io.
[[nodiscard]] inline result<opened_file> open_for_reading(const std::filesystem::path& path, int extra_flags = 0) {
    int descriptor = -1;
    do {
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | extra_flags);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
        if (errno == ENXIO) return error{errc::not_a_file, concat(quoted(path.string()), " is a socket or a device")};
        return detail::system_error("open", path, errno);
    }
    opened_file out{file_handle(descriptor), 0};
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return detail::system_error("look at", path, errno);
    if (!S_ISREG(status.st_mode)) {
        const std::string_view kind = S_ISDIR(status.st_mode)    ? "a directory"
                                      : S_ISFIFO(status.st_mode) ? "a pipe (FIFO)"
                                                                 : "a device";
        return error{errc::not_a_file, concat(quoted(path.string()), " is ", kind, ", not a file")};
    }
    out.size = static_cast<std::uint64_t>(status.st_size);
    return out;
}

}  // namespace colibri

// ---- colibri/io/atomic_writer.hpp

// A file that appears whole or not at all.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>


namespace colibri {

struct write_options {
    /// Permission bits of the new file, whatever the umask is. Without: those of the file that is replaced, or the usual ones.
    std::optional<unsigned> permissions = {};
    /// Bytes that will be written, if known: a disk that is too full is then noticed before the work.
    std::uint64_t expected_size = 0;
};

/// Writes a temporary file beside `path` and renames it over `path` at `commit`, after both file and folder are on the disk.
/// Destroyed without commit, or after an error, it removes the temporary file and leaves `path` as it was. A link is
/// followed, so that the file it points to is replaced. Move-only; one thread at a time.
class atomic_writer {
public:
    /// Errors: not_found (no such folder), not_a_file (the path is a folder or device), io (also: disk full).
    [[nodiscard]] static result<atomic_writer> create(const std::filesystem::path& path, const write_options& options = {});

    atomic_writer(atomic_writer&& other) noexcept { swap(other); }
    atomic_writer& operator=(atomic_writer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~atomic_writer() { abandon(); }

    /// Adds bytes at the end. Errors: io; the temporary file is gone then, and later calls return the same error.
    [[nodiscard]] result<void> write(std::span<const std::byte> bytes) {
        if (failure_) return *failure_;
        written_ += bytes.size();
        if (bytes.size() + buffer_.size() > buffer_size) {
            if (auto ok = flush(); !ok) return ok;
            if (bytes.size() >= buffer_size) return write_through(bytes);
        }
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
        return {};
    }
    [[nodiscard]] result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }

    /// Bytes written so far.
    [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Makes the file appear under its name. Errors: io, or the error of an earlier write; invalid_argument after abandon.
    [[nodiscard]] result<void> commit();

    /// Removes the temporary file; nothing more can be written.
    void abandon() noexcept {
        if (handle_.is_open()) {
            handle_.close();
            ::unlink(temporary_.c_str());
        }
    }

private:
    static constexpr std::size_t buffer_size = 256 * 1024;

    atomic_writer() = default;

    void swap(atomic_writer& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(temporary_, other.temporary_);
        std::swap(handle_, other.handle_);
        std::swap(permissions_, other.permissions_);
        std::swap(buffer_, other.buffer_);
        std::swap(written_, other.written_);
        std::swap(reserved_, other.reserved_);
        std::swap(failure_, other.failure_);
    }

    [[nodiscard]] result<void> flush() {
        auto done = write_through(buffer_);
        buffer_.clear();
        return done;
    }
    [[nodiscard]] result<void> write_through(std::span<const std::byte> bytes) {
        if (!handle_.is_open()) return fail("write", EBADF);
        while (!bytes.empty()) {
            constexpr std::size_t most = std::size_t{1} << 30;  // write(2) moves less than 2 GiB at once
            const ::ssize_t put = ::write(handle_.get(), bytes.data(), std::min(bytes.size(), most));
            if (put < 0 && errno == EINTR) continue;
            if (put <= 0) return fail("write", put == 0 ? ENOSPC : errno);
            bytes = bytes.subspan(static_cast<std::size_t>(put));
        }
        return {};
    }
    [[nodiscard]] error fail(std::string_view verb, int number) {
        auto e = number == EBADF ? error{errc::invalid_argument, concat("the writing of ", quoted(path_.string()), " was given up before")}
                                 : detail::system_error(verb, path_, number);
        if (number == ENOSPC || number == EDQUOT) e.message += "; free some space or choose another folder, nothing was changed";
        abandon();
        failure_ = e;
        return e;
    }

    std::filesystem::path path_;
    std::filesystem::path temporary_;
    file_handle handle_;
    std::optional<unsigned> permissions_;
    std::vector<std::byte> buffer_;
    std::uint64_t written_ = 0;
    bool reserved_ = false;
    std::optional<error> failure_;
};

inline result<atomic_writer> atomic_writer::create(const std::filesystem::path& path, const write_options& options) {
    atomic_writer out;
    std::error_code ignored;
    out.path_ = std::filesystem::is_symlink(path, ignored) && std::filesystem::exists(path, ignored)
                    ? std::filesystem::canonical(path, ignored)
                    : path;
    if (out.path_.empty()) out.path_ = path;
    out.permissions_ = options.permissions;
    struct stat old {};
    if (::stat(out.path_.c_str(), &old) == 0) {
        if (!S_ISREG(old.st_mode)) {
            return error{errc::not_a_file, concat(quoted(path.string()), " is ", S_ISDIR(old.st_mode) ? "a directory" : "a device or pipe",
                                                  ", not a file that can be replaced")};
        }
        if (!out.permissions_) out.permissions_ = old.st_mode & 07777u;
    }
    // The name only has to be free; O_EXCL decides.
    static std::atomic<unsigned> counter{0};
    for (unsigned attempt = 0; attempt < 100; ++attempt) {
        const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
        const std::string stem = out.path_.filename().string().substr(0, 200);
        out.temporary_ = out.path_.parent_path() / concat(".", stem, ".", ::getpid(), "-", ticks, "-", counter.fetch_add(1), ".part");
        const unsigned mode = options.permissions ? 0600u & *options.permissions : 0666u;
        const int descriptor = ::open(out.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode | 0200u);
        if (descriptor >= 0) {
            out.handle_ = file_handle(descriptor);
            break;
        }
        if (errno == ENOENT) {
            return error{errc::not_found, concat("can't write ", quoted(path.string()), ": its folder does not exist")};
        }
        if (errno != EEXIST && errno != EINTR) return detail::system_error("write", path, errno);
    }
    if (!out.handle_.is_open()) return detail::system_error("write", path, EEXIST);
#if defined(__linux__)
    if (options.expected_size != 0) {
        const int reserved = ::fallocate(out.handle_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<::off_t>(options.expected_size)) == 0 ? 0 : errno;
        if (reserved == ENOSPC || reserved == EDQUOT || reserved == EFBIG) {
            auto e = out.fail("write", reserved);
            e.message = concat(e.message, " (", options.expected_size, " bytes are needed)");
            return e;
        }
        out.reserved_ = reserved == 0;
    }
#endif
    return out;
}

inline result<void> atomic_writer::commit() {
    if (failure_) return *failure_;
    if (auto ok = flush(); !ok) return ok;
    if (!handle_.is_open()) return fail("write", EBADF);
    if (reserved_ && ::ftruncate(handle_.get(), static_cast<::off_t>(written_)) != 0) return fail("write", errno);  // gives the rest back
    if (permissions_ && ::fchmod(handle_.get(), static_cast<::mode_t>(*permissions_)) != 0) return fail("set the permissions of", errno);
    if (::fsync(handle_.get()) != 0) return fail("write", errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail("replace", errno);
    handle_.close();
    // The name is on the disk once the folder is; file systems that can't sync a folder say EINVAL.
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    const file_handle opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.is_open() && ::fsync(opened.get()) != 0 && errno != EINVAL) return detail::system_error("write", folder, errno);
    return {};
}

}  // namespace colibri

// ---- colibri/io/byte_source.hpp

// Bytes that can be read at any position: the interface, and memory as a source.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>


namespace colibri {

/// Something of a fixed size that is read at positions. Reads from several threads at once are fine.
class byte_source {
public:
    byte_source() = default;
    byte_source(const byte_source&) = delete;
    byte_source& operator=(const byte_source&) = delete;
    virtual ~byte_source() = default;

    /// Bytes in all, as found when the source was opened.
    [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;

    /// Fills all of `out` from byte `offset` on. Errors: truncated (past the end), io.
    [[nodiscard]] result<void> read_at(std::uint64_t offset, std::span<std::byte> out) {
        if (offset > size() || out.size() > size() - offset) {
            return error{errc::truncated,
                         concat("needs ", out.size(), " bytes, but the file has only ", size(), " in all"), offset};
        }
        auto done = do_read(offset, out);
        if (done) bytes_read_.fetch_add(out.size(), std::memory_order_relaxed);
        return done;
    }

    /// Bytes handed out by `read_at` so far.
    [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_.load(std::memory_order_relaxed); }

private:
    /// `read_at` after the range has been checked.
    [[nodiscard]] virtual result<void> do_read(std::uint64_t offset, std::span<std::byte> out) = 0;

    std::atomic<std::uint64_t> bytes_read_{0};
};

/// Bytes in memory that somebody else owns and keeps alive.
class memory_source final : public byte_source {
public:
    explicit memory_source(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
    [[nodiscard]] std::uint64_t size() const noexcept override { return bytes_.size(); }

private:
    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
        return {};
    }

    std::span<const std::byte> bytes_;
};

}  // namespace colibri

// ---- colibri/io/byte_reader.hpp

// Little-endian values read one behind the other, from memory or from a source, never past the end.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>


namespace colibri {

namespace detail {

/// The error of a read that wants `wanted` bytes where `left` are left.
[[nodiscard]] inline error ends_inside(std::string_view what, std::uint64_t wanted, std::uint64_t left,
                                       std::uint64_t offset) {
    return error{errc::truncated, concat("the file ends inside ", what, ": ", wanted, wanted == 1 ? " byte is" : " bytes are",
                                         " needed, ", left, left == 1 ? " is left" : " are left"),
                 offset};
}

}  // namespace detail

/// Reads a span of bytes from front to back. `what` names the thing read in errors; offsets in errors count from `base`.
/// Doesn't own the bytes; no allocation unless an error is made.
class byte_reader {
public:
    explicit byte_reader(std::span<const std::byte> bytes, std::uint64_t base = 0) noexcept
        : bytes_(bytes), base_(base) {}

    [[nodiscard]] std::uint64_t offset() const noexcept { return base_ + position_; }
    [[nodiscard]] std::uint64_t remaining() const noexcept { return bytes_.size() - position_; }

    /// The next number. Errors: truncated.
    template <class T>
        requires std::is_arithmetic_v<T>
    [[nodiscard]] result<T> read(std::string_view what) {
        if (sizeof(T) > remaining()) return detail::ends_inside(what, sizeof(T), remaining(), offset());
        T out{};
        std::memcpy(&out, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return out;
    }

    /// The next `count` bytes, still inside the span. Errors: truncated.
    [[nodiscard]] result<std::span<const std::byte>> bytes(std::uint64_t count, std::string_view what) {
        if (count > remaining()) return detail::ends_inside(what, count, remaining(), offset());
        const auto out = bytes_.subspan(position_, static_cast<std::size_t>(count));
        position_ += static_cast<std::size_t>(count);
        return out;
    }

    /// The next `count` bytes as text, still inside the span. Errors: truncated.
    [[nodiscard]] result<std::string_view> text(std::uint64_t count, std::string_view what) {
        auto got = bytes(count, what);
        if (!got) return std::move(got).error();
        return std::string_view(reinterpret_cast<const char*>(got->data()), got->size());
    }

    /// Appends the next `count` bytes to `out`. Errors: truncated.
    [[nodiscard]] result<void> append(std::string& out, std::uint64_t count, std::string_view what) {
        auto got = text(count, what);
        if (!got) return std::move(got).error();
        out += *got;
        return {};
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
    std::uint64_t base_ = 0;
};

/// Reads a byte_source from front to back through a window of 64 KiB. A count that the source can't hold is refused before
/// anything is allocated for it; reading past `limit` is refused too, for structures whose size only their own bytes tell.
class source_reader {
public:
    explicit source_reader(byte_source& source,
                           std::uint64_t limit = std::numeric_limits<std::uint64_t>::max()) noexcept
        : source_(&source), limit_(limit) {}

    [[nodiscard]] std::uint64_t size() const noexcept { return source_->size(); }
    [[nodiscard]] std::uint64_t offset() const noexcept { return position_; }
    [[nodiscard]] std::uint64_t remaining() const noexcept { return source_->size() - position_; }

    /// The next number. Errors: truncated, limit, io.
    template <class T>
        requires std::is_arithmetic_v<T>
    [[nodiscard]] result<T> read(std::string_view what) {
        if (auto ok = need(sizeof(T), what); !ok) return std::move(ok).error();
        if (sizeof(T) > window_end_ - position_) {
            if (auto ok = fill(); !ok) return std::move(ok).error();
        }
        T out{};
        std::memcpy(&out, at_position(), sizeof(T));
        position_ += sizeof(T);
        return out;
    }

    /// Appends the next `count` bytes to `out`. Errors: truncated, limit, io.
    [[nodiscard]] result<void> append(std::string& out, std::uint64_t count, std::string_view what) {
        if (auto ok = need(count, what); !ok) return ok;
        while (count != 0) {
            if (window_end_ == position_) {
                if (auto ok = fill(); !ok) return ok;
            }
            const std::uint64_t now = std::min(count, window_end_ - position_);
            out.append(reinterpret_cast<const char*>(at_position()), static_cast<std::size_t>(now));
            position_ += now;
            count -= now;
        }
        return {};
    }

private:
    [[nodiscard]] const std::byte* at_position() const noexcept {
        return window_.data() + (position_ - window_begin_);
    }

    [[nodiscard]] result<void> need(std::uint64_t count, std::string_view what) const {
        if (count > remaining()) return detail::ends_inside(what, count, remaining(), position_);
        if (count > limit_ || position_ > limit_ - count) {
            return error{errc::limit, concat(what, " goes past the limit of ", limit_, " bytes for a header"), position_};
        }
        return {};
    }

    /// Makes the window begin at the position.
    [[nodiscard]] result<void> fill() {
        constexpr std::uint64_t window_size = 64 * 1024;
        const std::uint64_t size = std::min(window_size, remaining());
        window_.resize(static_cast<std::size_t>(size));
        if (auto ok = source_->read_at(position_, window_); !ok) return ok;
        window_begin_ = position_;
        window_end_ = position_ + size;
        return {};
    }

    byte_source* source_;
    std::uint64_t limit_;
    std::uint64_t position_ = 0;
    std::uint64_t window_begin_ = 0;
    std::uint64_t window_end_ = 0;
    std::vector<std::byte> window_;
};

}  // namespace colibri

// ---- colibri/io/system_text.hpp

// Small text files of the operating system (/proc, /sys), read below a root that tests can choose.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>


namespace colibri::detail {

/// All of a small file (up to 1 MiB; such files say size 0), or nothing.
[[nodiscard]] inline std::optional<std::string> read_system_text(const std::filesystem::path& path) {
    const file_handle handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!handle.is_open()) return std::nullopt;
    std::string out;
    char piece[4096];
    while (out.size() < (std::size_t{1} << 20)) {
        const ::ssize_t got = ::read(handle.get(), piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        out.append(piece, static_cast<std::size_t>(got));
    }
    return out;
}

/// `text` cut at each `separator`; views of it, empty pieces left out.
[[nodiscard]] inline std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (end != 0) out.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

/// The number that follows `key` and white space at the start of a line ("MemTotal:  123 kB"), or nothing.
[[nodiscard]] inline std::optional<std::uint64_t> line_number(std::string_view text, std::string_view key) {
    for (std::string_view line : pieces_of(text, '\n')) {
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        const std::size_t begin = line.find_first_not_of(" \t");
        if (begin == 0 || begin == std::string_view::npos) continue;
        line.remove_prefix(begin);
        return parse_number<std::uint64_t>(line.substr(0, line.find_first_not_of("0123456789")));
    }
    return std::nullopt;
}

/// A file with one number, or nothing (also for "max").
[[nodiscard]] inline std::optional<std::uint64_t> read_system_number(const std::filesystem::path& path) {
    const auto text = read_system_text(path);
    if (!text) return std::nullopt;
    return parse_number<std::uint64_t>(std::string_view(*text).substr(0, text->find_last_not_of(" \t\n") + 1));
}

/// `absolute` seen below `root`.
[[nodiscard]] inline std::filesystem::path below(const std::filesystem::path& root, const std::filesystem::path& absolute) {
    return root / absolute.relative_path();
}

}  // namespace colibri::detail

// ---- colibri/io/cgroup.hpp

// The control groups that this process is in.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>


namespace colibri::detail {

/// A control group's folder, and the version of its files.
struct cgroup_folder {
    std::filesystem::path path;
    int version = 2;
};

/// Undoes the octal escapes (\040 for a space) of /proc/self/mountinfo.
[[nodiscard]] inline std::string unescape_mount(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t k) { return static_cast<unsigned>(static_cast<unsigned char>(text[i + k])) - '0'; };
        if (text[i] == '\\' && i + 3 < text.size() && digit(1) < 4 && digit(2) < 8 && digit(3) < 8) {
            out += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

/// Whether a comma-separated list has `word`.
[[nodiscard]] inline bool lists(std::string_view list, std::string_view word) {
    for (const std::string_view piece : pieces_of(list, ',')) {
        if (piece == word) return true;
    }
    return false;
}

/// The folders of this process's groups that `controller` ("memory", "cpu") may limit, own group first, then its ancestors up
/// to the mount point; of version 1 and 2, as both can be mounted. `root` is where /proc and /sys are looked for.
[[nodiscard]] inline std::vector<cgroup_folder> cgroup_folders(std::string_view controller, const std::filesystem::path& root) {
    std::vector<cgroup_folder> out;
    const auto groups = read_system_text(root / "proc/self/cgroup");
    const auto mounts = read_system_text(root / "proc/self/mountinfo");
    if (!groups || !mounts) return out;
    for (const std::string_view mount : pieces_of(*mounts, '\n')) {
        // id parent device root mount-point options [optional...] - type source super-options
        const auto fields = pieces_of(mount, ' ');
        std::size_t dash = 0;
        while (dash < fields.size() && fields[dash] != "-") ++dash;
        if (fields.size() < 6 || dash + 1 >= fields.size()) continue;
        const std::string_view type = fields[dash + 1];
        const int version = type == "cgroup" ? 1 : type == "cgroup2" ? 2 : 0;
        if (version == 0) continue;
        if (version == 1 && (dash + 3 >= fields.size() || !lists(fields[dash + 3], controller))) continue;

        for (const std::string_view line : pieces_of(*groups, '\n')) {
            // number:controllers:path
            const std::size_t first = line.find(':');
            const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
            if (second == std::string_view::npos) continue;
            const std::string_view controllers = line.substr(first + 1, second - first - 1);
            if (version == 1 ? !lists(controllers, controller) : !controllers.empty() || line.substr(0, first) != "0") continue;
            std::string group(line.substr(second + 1));
            // The mount may show only the part of the tree below its root, as in a container.
            const std::string mount_root = unescape_mount(fields[3]);
            if (mount_root != "/") {
                const bool inside = group.starts_with(mount_root) && (group.size() == mount_root.size() || group[mount_root.size()] == '/');
                group = inside ? group.substr(mount_root.size()) : std::string();
            }
            const std::filesystem::path top = below(root, unescape_mount(fields[4]));
            std::filesystem::path relative = std::filesystem::path(group).relative_path().lexically_normal();
            if (!relative.empty() && *relative.begin() == "..") relative.clear();
            if (!relative.empty() && relative.filename().empty()) relative = relative.parent_path();
            while (!relative.empty() && relative != ".") {
                out.push_back({top / relative, version});
                relative = relative.parent_path();
            }
            out.push_back({top, version});
        }
    }
    return out;
}

}  // namespace colibri::detail

// ---- colibri/io/cpu_count.hpp

// How many threads this process should use.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>


namespace colibri {

/// The processors that this process may use.
struct cpu_limits {
    unsigned logical = 1;                 ///< processors that its affinity allows, hardware threads counted each
    unsigned cores = 1;                   ///< physical cores among them
    std::optional<double> quota = {};     ///< processors' worth of time that its control groups allow

    /// Threads to compute with when nobody says: one per core, as two on one core share its arithmetic units; no more than
    /// the quota rounded to the nearest whole number, at least 1.
    [[nodiscard]] unsigned threads() const noexcept {
        if (!quota || *quota >= cores) return cores;
        return std::max(1u, static_cast<unsigned>(*quota + 0.5));
    }
};

namespace detail {

/// "0-3,8,10-11" as numbers; nothing if it isn't such a list.
[[nodiscard]] inline std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
    std::vector<unsigned> out;
    for (const std::string_view piece : pieces_of(text, ',')) {
        const std::size_t dash = piece.find('-');
        const auto first = parse_number<unsigned>(piece.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : parse_number<unsigned>(piece.substr(dash + 1));
        if (!first || !last || *last < *first || *last - *first > 65536) return std::nullopt;
        for (unsigned cpu = *first; cpu <= *last; ++cpu) out.push_back(cpu);
    }
    return out;
}

/// The processors that this process's affinity allows; empty if unknown.
[[nodiscard]] inline std::vector<unsigned> allowed_cpus(const std::filesystem::path& root) {
    const auto status = read_system_text(root / "proc/self/status");
    if (!status) return {};
    for (std::string_view line : pieces_of(*status, '\n')) {
        constexpr std::string_view key = "Cpus_allowed_list:";
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        const std::size_t begin = line.find_first_not_of(" \t");
        if (begin == std::string_view::npos) return {};
        return parse_cpu_list(line.substr(begin)).value_or(std::vector<unsigned>{});
    }
    return {};
}

/// Processors' worth of time that one group allows, or nothing.
[[nodiscard]] inline std::optional<double> cpu_quota(const cgroup_folder& group) {
    std::optional<std::uint64_t> quota;
    std::optional<std::uint64_t> period;
    if (group.version == 2) {
        const auto text = read_system_text(group.path / "cpu.max");  // "max 100000" or "150000 100000"
        if (!text) return std::nullopt;
        const auto words = pieces_of(std::string_view(*text).substr(0, text->find('\n')), ' ');
        if (words.size() != 2) return std::nullopt;
        quota = parse_number<std::uint64_t>(words[0]);
        period = parse_number<std::uint64_t>(words[1]);
    } else {
        quota = read_system_number(group.path / "cpu.cfs_quota_us");  // "-1" means none
        period = read_system_number(group.path / "cpu.cfs_period_us");
    }
    if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace detail

/// Reads affinity, topology and quotas from /proc, /sys and the mounted control groups, below `root`. Without topology every
/// processor counts as a core; without /proc the standard library's number is taken.
[[nodiscard]] inline cpu_limits read_cpu_limits(const std::filesystem::path& root = "/") {
    cpu_limits out;
    const auto cpus = detail::allowed_cpus(root);
    if (cpus.empty()) {
        out.logical = out.cores = std::max(1u, std::thread::hardware_concurrency());
    } else {
        out.logical = static_cast<unsigned>(cpus.size());
        std::set<std::string> cores;  // each core by the list of its hardware threads
        unsigned unknown = 0;
        for (const unsigned cpu : cpus) {
            const auto topology = root / concat("sys/devices/system/cpu/cpu", cpu, "/topology");
            auto threads = detail::read_system_text(topology / "core_cpus_list");
            if (!threads) threads = detail::read_system_text(topology / "thread_siblings_list");  // its name before Linux 5.3
            if (threads) cores.insert(std::move(*threads));
            else ++unknown;
        }
        out.cores = static_cast<unsigned>(cores.size()) + unknown;
    }
    for (const auto& group : detail::cgroup_folders("cpu", root)) {
        if (const auto quota = detail::cpu_quota(group)) out.quota = std::min(out.quota.value_or(*quota), *quota);
    }
    return out;
}

/// Threads to compute with when nobody says.
[[nodiscard]] inline unsigned cpu_count() { return read_cpu_limits().threads(); }

}  // namespace colibri

// ---- colibri/io/file_reader.hpp

// A file read at positions, through the page cache.
#include <algorithm>
#include <filesystem>
#include <memory>


namespace colibri {

namespace detail {

/// Fills `out` from `offset` on with pread(2), in as many calls as it takes. Errors: truncated, io.
[[nodiscard]] inline result<void> pread_all(int descriptor, const std::filesystem::path& path, std::uint64_t offset,
                                            std::span<std::byte> out) {
    // One call moves at most 0x7ffff000 bytes on Linux; a multiple of any block size keeps direct reads aligned.
    constexpr std::size_t most = std::size_t{1} << 30;
    while (!out.empty()) {
        const ::ssize_t got =
            ::pread(descriptor, out.data(), std::min(out.size(), most), static_cast<::off_t>(offset));
        if (got < 0) {
            if (errno == EINTR) continue;
            auto e = system_error("read", path, errno);
            e.offset = offset;
            return e;
        }
        if (got == 0) {
            return error{errc::truncated, concat(quoted(path.string()), " became shorter while it was read"), offset};
        }
        out = out.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
    return {};
}

}  // namespace detail

/// A regular file as a byte_source; reads go through the page cache.
class file_reader final : public byte_source {
public:
    /// Errors: not_found, not_a_file, io.
    [[nodiscard]] static result<std::unique_ptr<file_reader>> open(const std::filesystem::path& path) {
        auto opened = open_for_reading(path);
        if (!opened) return std::move(opened).error();
        return std::unique_ptr<file_reader>(new file_reader(path, std::move(*opened)));
    }
    [[nodiscard]] std::uint64_t size() const noexcept override { return opened_.size; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    file_reader(std::filesystem::path path, opened_file opened) : path_(std::move(path)), opened_(std::move(opened)) {}

    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        return detail::pread_all(opened_.handle.get(), path_, offset, out);
    }

    std::filesystem::path path_;
    opened_file opened_;
};

}  // namespace colibri

// ---- colibri/io/direct_reader.hpp

// A file read past the page cache, so that no second copy of weights stays in memory.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>


namespace colibri {

/// A regular file as a byte_source, read with direct I/O where the file system can. Elsewhere reads are buffered and the
/// pages dropped from the page cache behind them; the bytes are the same. Fast when the file offset, the address and the
/// length are multiples of `alignment` (only the length may be cut by the end of the file): such reads go straight to the
/// caller's memory. Others are rounded outwards through a buffer of 1 MiB that each call allocates.
class direct_reader final : public byte_source {
public:
    /// What direct reads want of offset, address and length: covers all common disks (512 or 4096).
    static constexpr std::size_t alignment = 4096;

    /// Errors: not_found, not_a_file, io.
    [[nodiscard]] static result<std::unique_ptr<direct_reader>> open(const std::filesystem::path& path) {
        auto buffered = open_for_reading(path);
        if (!buffered) return std::move(buffered).error();
        std::unique_ptr<direct_reader> out(new direct_reader(path, std::move(*buffered)));
#if defined(O_DIRECT)
        // A file system without direct reads refuses the flag here or the first read.
        if (auto direct = open_for_reading(path, O_DIRECT); direct && direct->size == out->buffered_.size) {
            out->direct_ = std::move(direct->handle);
            out->use_direct_.store(true, std::memory_order_relaxed);
        }
#endif
        return out;
    }

    [[nodiscard]] std::uint64_t size() const noexcept override { return buffered_.size; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Whether reads pass the page cache by; may turn false at the first read.
    [[nodiscard]] bool is_direct() const noexcept { return use_direct_.load(std::memory_order_relaxed); }

private:
    direct_reader(std::filesystem::path path, opened_file buffered)
        : path_(std::move(path)), buffered_(std::move(buffered)) {}

    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        if (out.empty()) return {};
        if (is_direct()) {
            bool refused = false;
            auto done = aligned(offset, out) ? read_direct(offset, out, refused) : read_rounded(offset, out, refused);
            if (!refused) return done;
            use_direct_.store(false, std::memory_order_relaxed);
        }
        auto done = detail::pread_all(buffered_.handle.get(), path_, offset, out);
#if defined(POSIX_FADV_DONTNEED)
        ::posix_fadvise(buffered_.handle.get(), static_cast<::off_t>(offset), static_cast<::off_t>(out.size()), POSIX_FADV_DONTNEED);
#endif
        return done;
    }

    [[nodiscard]] bool aligned(std::uint64_t offset, std::span<std::byte> out) const noexcept {
        return offset % alignment == 0 && reinterpret_cast<std::uintptr_t>(out.data()) % alignment == 0 &&
               out.size() % alignment == 0;
    }

    /// Reads into aligned memory up to `out` or the end of the file. `refused`: the file system can't do it at all.
    [[nodiscard]] result<void> read_direct(std::uint64_t offset, std::span<std::byte> out, bool& refused) {
        constexpr std::size_t most = std::size_t{1} << 30;  // pread moves less than 2 GiB at once
        std::uint64_t left = std::min<std::uint64_t>(out.size(), buffered_.size - offset);
        while (left != 0) {
            const ::ssize_t got =
                ::pread(direct_.get(), out.data(), std::min(out.size(), most), static_cast<::off_t>(offset));
            if (got < 0) {
                if (errno == EINTR) continue;
                refused = errno == EINVAL;
                auto e = detail::system_error("read", path_, errno);
                e.offset = offset;
                return e;
            }
            const auto count = std::min(static_cast<std::uint64_t>(got), left);
            left -= count;
            if (left == 0) break;
            // A short read inside the file leaves an unaligned rest: the buffered way takes it.
            if (count == 0 || count % alignment != 0) {
                return detail::pread_all(buffered_.handle.get(), path_, offset + count, out.subspan(static_cast<std::size_t>(count), static_cast<std::size_t>(left)));
            }
            out = out.subspan(static_cast<std::size_t>(count));
            offset += count;
        }
        return {};
    }

    /// Reads whole aligned pieces around `out` and copies.
    [[nodiscard]] result<void> read_rounded(std::uint64_t offset, std::span<std::byte> out, bool& refused) {
        constexpr std::size_t piece = std::size_t{1} << 20;
        const std::size_t span = static_cast<std::size_t>(offset % alignment) + out.size();
        const std::size_t room = std::min(piece, round_up(span, alignment));
        auto memory = aligned_buffer::allocate(room + alignment);  // room to align the start
        if (!memory) return std::move(memory).error();
        const auto address = reinterpret_cast<std::uintptr_t>(memory->data());
        const std::span<std::byte> scratch(memory->data() + (alignment - address % alignment) % alignment, room);
        while (!out.empty()) {
            const auto skip = static_cast<std::size_t>(offset % alignment);
            const std::size_t now = std::min(out.size(), room - skip);
            if (auto ok = read_direct(offset - skip, scratch.first(round_up(skip + now, alignment)), refused); !ok) return ok;
            std::memcpy(out.data(), scratch.data() + skip, now);
            out = out.subspan(now);
            offset += now;
        }
        return {};
    }

    std::filesystem::path path_;
    opened_file buffered_;
    file_handle direct_;
    std::atomic<bool> use_direct_{false};
};

}  // namespace colibri

// ---- colibri/io/mapped_file.hpp

// A file mapped read-only into memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>


namespace colibri {

/// How mapped bytes will be used; a wish that the kernel may ignore.
enum class access_hint : std::uint8_t { normal, sequential, random, will_need, dont_need };

/// A regular file's bytes, mapped and shared with the page cache. Move-only; the bytes don't move. Copy the file instead of
/// mapping it when somebody might shorten it meanwhile: touching pages that are gone kills the process (SIGBUS).
class mapped_file {
public:
    mapped_file() = default;
    mapped_file(mapped_file&& other) noexcept
        : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    mapped_file& operator=(mapped_file&& other) noexcept {
        if (this != &other) {
            unmap();
            path_ = std::move(other.path_);
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
        }
        return *this;
    }
    ~mapped_file() { unmap(); }

    /// Maps all of a regular file; an empty file gives no bytes. Errors: not_found, not_a_file, io, out_of_memory.
    [[nodiscard]] static result<mapped_file> open(const std::filesystem::path& path) {
        auto opened = open_for_reading(path);
        if (!opened) return std::move(opened).error();
        mapped_file out;
        out.path_ = path;
        if (opened->size == 0) return out;
        if (opened->size > static_cast<std::uint64_t>(PTRDIFF_MAX)) return detail::system_error("map", path, ENOMEM);
        const auto size = static_cast<std::size_t>(opened->size);
        void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened->handle.get(), 0);
        if (data == MAP_FAILED) return detail::system_error("map", path, errno);
        out.data_ = static_cast<const std::byte*>(data);
        out.size_ = size;
        return out;
    }

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Tells the kernel how [offset, offset + length) will be used, widened to whole pages (`dont_need`: narrowed to them).
    void advise(access_hint hint, std::size_t offset = 0, std::size_t length = SIZE_MAX) const noexcept {
        if (data_ == nullptr || offset >= size_) return;
        length = std::min(length, size_ - offset);
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const bool inner = hint == access_hint::dont_need;
        const std::size_t begin = (inner ? offset + page - 1 : offset) / page * page;
        const bool to_end = offset + length == size_;
        const std::size_t end = inner && !to_end ? (offset + length) / page * page : offset + length;
        if (begin >= end) return;
        const int advice = hint == access_hint::sequential  ? MADV_SEQUENTIAL
                           : hint == access_hint::random    ? MADV_RANDOM
                           : hint == access_hint::will_need ? MADV_WILLNEED
                           : hint == access_hint::dont_need ? MADV_DONTNEED
                                                            : MADV_NORMAL;
        ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, advice);
    }

private:
    void unmap() noexcept {
        if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
        data_ = nullptr;
    }

    std::filesystem::path path_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace colibri

// ---- colibri/io/memory_limits.hpp

// How much memory this process may use: the machine's, and that of its control groups.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>


namespace colibri {

/// A control group with a memory limit that this process is in.
struct memory_group {
    std::filesystem::path folder;
    std::uint64_t limit = 0;        ///< bytes that all its processes together may use
    std::uint64_t usage = 0;        ///< bytes in use, page cache included
    std::uint64_t reclaimable = 0;  ///< of these, page cache that is dropped before anything fails (inactive_file)

    /// Bytes that can still be had.
    [[nodiscard]] std::uint64_t free() const noexcept {
        const std::uint64_t held = usage - std::min(usage, reclaimable);
        return limit - std::min(limit, held);
    }
};

/// What limits the memory of this process, when it was looked at. Sizes in bytes.
struct memory_limits {
    static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t total = unlimited;      ///< the machine's memory (MemTotal)
    std::uint64_t available = unlimited;  ///< what the kernel could give without swapping (MemAvailable)
    std::vector<memory_group> groups;     ///< groups with a limit, this process's own first, then ancestors; v1 and v2

    /// The most that this process can ever have: the smallest of the machine's memory and all groups' limits.
    [[nodiscard]] std::uint64_t limit() const noexcept {
        std::uint64_t out = total;
        for (const auto& group : groups) out = std::min(out, group.limit);
        return out;
    }
    /// What it can have now on top of what it has: the smallest of MemAvailable and what is free in each group.
    [[nodiscard]] std::uint64_t free() const noexcept {
        std::uint64_t out = available;
        for (const auto& group : groups) out = std::min(out, group.free());
        return out;
    }
};

/// Reads the limits from /proc and the mounted control groups, below `root`. What can't be read doesn't limit.
[[nodiscard]] inline memory_limits read_memory_limits(const std::filesystem::path& root = "/") {
    memory_limits out;
    if (const auto text = detail::read_system_text(root / "proc/meminfo")) {
        if (const auto total = detail::line_number(*text, "MemTotal:")) out.total = *total * 1024;
        if (const auto available = detail::line_number(*text, "MemAvailable:")) out.available = *available * 1024;
    }
    // v1 writes "no limit" as the largest number of whole pages below 2^63.
    constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;
    for (const auto& [folder, version] : detail::cgroup_folders("memory", root)) {
        const auto stat = detail::read_system_text(folder / "memory.stat").value_or("");
        memory_group group{folder};
        std::uint64_t limit = memory_limits::unlimited;
        const auto apply = [&](std::optional<std::uint64_t> number) {
            if (number && *number < no_limit) limit = std::min(limit, *number);
        };
        if (version == 2) {
            // Above memory.high a group is slowed down until it barely moves, so it counts as a limit too.
            apply(detail::read_system_number(folder / "memory.max"));
            apply(detail::read_system_number(folder / "memory.high"));
            group.usage = detail::read_system_number(folder / "memory.current").value_or(0);
            group.reclaimable = detail::line_number(stat, "inactive_file").value_or(0);
        } else {
            apply(detail::read_system_number(folder / "memory.limit_in_bytes"));
            // Also tells of ancestors that a container can't see.
            apply(detail::line_number(stat, "hierarchical_memory_limit"));
            group.usage = detail::read_system_number(folder / "memory.usage_in_bytes").value_or(0);
            const auto own = detail::line_number(stat, "inactive_file");
            group.reclaimable = detail::line_number(stat, "total_inactive_file").value_or(own.value_or(0));
        }
        if (limit == memory_limits::unlimited) continue;
        group.limit = limit;
        out.groups.push_back(std::move(group));
    }
    return out;
}

/// Memory that this process holds, in bytes; 0 for what can't be read.
struct process_memory {
    std::uint64_t resident = 0;   ///< in memory now (RSS)
    std::uint64_t peak = 0;       ///< the most that was ever resident
    std::uint64_t anonymous = 0;  ///< resident and its own: heap, stacks, buffers
    std::uint64_t mapped = 0;     ///< resident pages of files, which the page cache shares
};

[[nodiscard]] inline process_memory read_process_memory(const std::filesystem::path& root = "/") {
    process_memory out;
    const auto text = detail::read_system_text(root / "proc/self/status");
    if (!text) return out;
    const auto bytes = [&](std::string_view key) { return detail::line_number(*text, key).value_or(0) * 1024; };
    out.resident = bytes("VmRSS:");
    out.peak = bytes("VmHWM:");
    out.anonymous = bytes("RssAnon:");
    out.mapped = bytes("RssFile:");
    return out;
}

}  // namespace colibri

// ---- colibri/io/memory_lock.hpp

// Memory that the kernel may not swap out or drop.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <span>


namespace colibri {

/// Locks the pages of `bytes` into memory until they are unmapped; reads them in first if they are a file's.
/// Errors: out_of_memory, with the limit that stands in the way; io.
[[nodiscard]] inline result<void> lock_memory(std::span<const std::byte> bytes) {
    if (bytes.empty() || ::mlock(bytes.data(), bytes.size()) == 0) return {};
    const int number = errno;
    if (number != ENOMEM && number != EAGAIN && number != EPERM) {
        return error{errc::io, concat("can't lock ", bytes.size(), " bytes in memory: system error ", number)};
    }
    struct ::rlimit limit {};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes.size()) {
        return error{errc::out_of_memory, concat("can't lock ", bytes.size(), " bytes in memory: this user may lock ", limit.rlim_cur,
                                                 "; raise the limit (ulimit -l) or do without locking")};
    }
    return error{errc::out_of_memory, concat("can't lock ", bytes.size(), " bytes in memory: the machine has not enough free; do without locking")};
}

}  // namespace colibri

// ---- colibri/gguf/foreign.hpp

// Other kinds of files, recognised by their first bytes so that a message can name them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>


namespace colibri::gguf {

/// Bytes from the start of a file that are enough to recognise it.
inline constexpr std::size_t foreign_head_size = 512;

/// What a file that isn't GGUF seems to be, and what to do, as the end of the sentence "this is not a GGUF file but …";
/// empty when the bytes are of no known kind. `head` is the start of the file, up to foreign_head_size bytes.
[[nodiscard]] inline std::string describe_foreign(std::span<const std::byte> head) {
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    const auto starts = [&](std::string_view magic) { return text.starts_with(magic); };

    for (const std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"}) {
        if (starts(magic)) {
            return "a model in an old format from before GGUF (ggml, ggmf, ggjt); get it as GGUF or convert again";
        }
    }
    if (starts("version https://git-lfs")) {
        std::string size;
        if (const auto at = text.find("\nsize "); at != std::string_view::npos) {
            auto digits = text.substr(at + 6);
            digits = digits.substr(0, digits.find_first_not_of("0123456789"));
            if (const auto bytes = parse_number<std::uint64_t>(digits)) size = concat(" (size ", *bytes, ")");
        }
        return concat("a git-lfs pointer", size, "; run 'git lfs pull' or download the file itself");
    }
    const std::string_view binary[][2] = {
        {"PK\x03\x04", "a zip archive, perhaps a PyTorch checkpoint; convert the model to GGUF"},
        {"\x1f\x8b", "a gzip archive; unpack it first"},
        {"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"},
        {std::string_view("\xfd" "7zXZ\0", 6), "an xz archive; unpack it first"},
        {"BZh", "a bzip2 archive; unpack it first"},
        {"7z\xbc\xaf\x27\x1c", "a 7-zip archive; unpack it first"},
        {"\x89HDF", "an HDF5 file, perhaps a Keras model; convert the model to GGUF"},
        {"\x7f" "ELF", "a program"},
        {"MZ", "a program, perhaps a llamafile; extract the .gguf from it"},
        {"%PDF", "a PDF document"},
        {"TFL3", "a TensorFlow Lite model; convert the model to GGUF"},
        {"RIFF", "a sound or picture file"},
        {"\x89PNG", "a picture"},
    };
    for (const auto& [magic, kind] : binary) {
        if (starts(magic)) return std::string(kind);
    }
    if (text.size() > 262 && text.substr(257, 5) == "ustar") return "a tar archive; unpack it first";
    // Pickle: PROTO opcode, version 2 to 5, then an opcode of what PyTorch writes.
    if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) {
        return "a Python pickle, perhaps a PyTorch checkpoint; convert the model to GGUF";
    }
    // safetensors: the length of a JSON header in 8 bytes, then the JSON.
    if (text.size() > 9 && text[8] == '{' && text.substr(5, 3) == std::string_view("\0\0\0", 3)) {
        return "a safetensors file; convert the model to GGUF";
    }
    std::string_view body = text.substr(0, 256);
    if (body.starts_with("\xef\xbb\xbf")) body.remove_prefix(3);
    if (const auto first = body.find_first_not_of(" \t\r\n"); first != std::string_view::npos) body.remove_prefix(first);
    const auto is_tag = [&](std::string_view tag) {
        if (body.size() < tag.size()) return false;
        for (std::size_t i = 0; i < tag.size(); ++i) {
            const char lower = body[i] >= 'A' && body[i] <= 'Z' ? static_cast<char>(body[i] + 32) : body[i];
            if (lower != tag[i]) return false;
        }
        return true;
    };
    if (is_tag("<!doctype") || is_tag("<html") || is_tag("<head")) {
        return "an HTML page, perhaps the answer of a failed download; download the file again";
    }
    if (body.starts_with('{') || body.starts_with('[')) return "JSON text, perhaps a config.json; choose the .gguf file";
    bool plain = !body.empty();
    for (const char c : body) {
        const auto byte = static_cast<unsigned char>(c);
        plain = plain && (byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t');
    }
    bool zeros = !text.empty();
    for (const char c : text) zeros = zeros && c == '\0';
    if (zeros) return "a run of zero bytes, perhaps a download that was never filled in; download the file again";
    if (plain && text.size() >= 16) return "a text";
    return {};
}

}  // namespace colibri::gguf

// ---- colibri/gguf/value_type.hpp

// The types that metadata values can have, and numbers read from their bytes.
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>


namespace colibri::gguf {

/// Type of a metadata value, by its number in the file. Source: ggml's docs/gguf.md.
enum class value_type : std::uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

/// Whether a number from a file is one of value_type's.
[[nodiscard]] constexpr bool is_value_type(std::uint32_t number) noexcept { return number <= 12; }

/// Name as the tools that list GGUF files print it ("u32", "bool", "string").
[[nodiscard]] constexpr std::string_view name(value_type type) noexcept {
    switch (type) {
        case value_type::u8: return "u8";
        case value_type::i8: return "i8";
        case value_type::u16: return "u16";
        case value_type::i16: return "i16";
        case value_type::u32: return "u32";
        case value_type::i32: return "i32";
        case value_type::f32: return "f32";
        case value_type::boolean: return "bool";
        case value_type::string: return "string";
        case value_type::array: return "array";
        case value_type::u64: return "u64";
        case value_type::i64: return "i64";
        case value_type::f64: return "f64";
    }
    return "?";
}

/// Bytes of one value in the file; 0 for strings and arrays, whose size varies.
[[nodiscard]] constexpr std::size_t fixed_bytes(value_type type) noexcept {
    switch (type) {
        case value_type::u8:
        case value_type::i8:
        case value_type::boolean: return 1;
        case value_type::u16:
        case value_type::i16: return 2;
        case value_type::u32:
        case value_type::i32:
        case value_type::f32: return 4;
        case value_type::u64:
        case value_type::i64:
        case value_type::f64: return 8;
        case value_type::string:
        case value_type::array: break;
    }
    return 0;
}

/// Whether the type is a whole number (bool isn't).
[[nodiscard]] constexpr bool is_integer(value_type type) noexcept {
    return fixed_bytes(type) != 0 && type != value_type::boolean && type != value_type::f32 && type != value_type::f64;
}

/// Whether the type is f32 or f64.
[[nodiscard]] constexpr bool is_float(value_type type) noexcept {
    return type == value_type::f32 || type == value_type::f64;
}

/// The value type of a C++ arithmetic type.
template <class T>
    requires std::is_arithmetic_v<T>
inline constexpr value_type value_type_of = [] {
    if constexpr (std::same_as<T, bool>) return value_type::boolean;
    else if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? value_type::f32 : value_type::f64;
    else if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? value_type::i8 : value_type::u8;
    else if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? value_type::i16 : value_type::u16;
    else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? value_type::i32 : value_type::u32;
    else return std::is_signed_v<T> ? value_type::i64 : value_type::u64;
}();

namespace detail {

template <class T>
[[nodiscard]] T load(const char* bytes) noexcept {
    T out{};
    std::memcpy(&out, bytes, sizeof(T));
    return out;
}

/// Calls `use` with the number at `bytes`, as the C++ type that it has in the file. Precondition: fixed_bytes(type) != 0.
template <class Use>
decltype(auto) visit_number(value_type type, const char* bytes, Use&& use) {
    switch (type) {
        case value_type::u8: return use(load<std::uint8_t>(bytes));
        case value_type::i8: return use(load<std::int8_t>(bytes));
        case value_type::u16: return use(load<std::uint16_t>(bytes));
        case value_type::i16: return use(load<std::int16_t>(bytes));
        case value_type::u32: return use(load<std::uint32_t>(bytes));
        case value_type::i32: return use(load<std::int32_t>(bytes));
        case value_type::f32: return use(load<float>(bytes));
        case value_type::u64: return use(load<std::uint64_t>(bytes));
        case value_type::i64: return use(load<std::int64_t>(bytes));
        case value_type::f64: return use(load<double>(bytes));
        case value_type::boolean:
        case value_type::string:
        case value_type::array: break;
    }
    return use(load<char>(bytes) != 0);
}

[[nodiscard]] inline error wrong_type(std::string_view wanted, value_type found) {
    return error{errc::bad_type, concat("must be ", wanted, ", but is of type ", name(found))};
}

/// What a T is called in messages.
template <class T>
inline constexpr std::string_view wanted_text = std::same_as<T, bool>    ? "true or false"
                                                : std::floating_point<T> ? "a number"
                                                                         : "a whole number";

/// The number at `bytes` as a T, when it keeps its value: integers of any width when they fit, floats from both float types
/// (f64 is rounded to a float) and from integers that are exact, bool from bool only. Errors: bad_type, bad_value.
template <class T>
    requires std::is_arithmetic_v<T>
[[nodiscard]] result<T> convert_number(value_type type, const char* bytes) {
    const bool fits_kind = std::same_as<T, bool>    ? type == value_type::boolean
                           : std::floating_point<T> ? is_float(type) || is_integer(type)
                                                    : is_integer(type);
    if (!fits_kind) return wrong_type(wanted_text<T>, type);
    return visit_number(type, bytes, [&]<class From>(From number) -> result<T> {
        if constexpr (std::same_as<T, bool> || std::same_as<From, bool>) {
            return static_cast<T>(number);
        } else if constexpr (std::floating_point<T>) {
            const T out = static_cast<T>(number);
            if constexpr (std::floating_point<From>) {
                if (std::isinf(out) && !std::isinf(number)) {
                    return error{errc::bad_value, concat("is ", number, ", too large for a 32-bit float")};
                }
            } else {
                // Above 2^digits a whole number may have no float of its own.
                constexpr std::uint64_t exact = std::uint64_t{1} << std::numeric_limits<T>::digits;
                const bool negative = std::cmp_less(number, 0);
                const auto magnitude = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(number)
                                                : static_cast<std::uint64_t>(number);
                if (magnitude > exact) {
                    return error{errc::bad_value, concat("is ", number, ", too large for an exact float")};
                }
            }
            return out;
        } else if constexpr (std::floating_point<From>) {
            return wrong_type(wanted_text<T>, type);
        } else {
            if (!std::in_range<T>(number)) {
                return error{errc::bad_value, concat("is ", number, ", outside ", std::numeric_limits<T>::min(), " to ",
                                                     std::numeric_limits<T>::max())};
            }
            return static_cast<T>(number);
        }
    });
}

}  // namespace detail
}  // namespace colibri::gguf

// ---- colibri/gguf/value.hpp

// One metadata value of any type, kept as the bytes that the file has.
#include <span>
#include <string>
#include <utility>
#include <vector>


namespace colibri::gguf {

/// How deep arrays may be nested; published files have one level.
inline constexpr unsigned max_array_depth = 64;

/// A metadata value: a number, a bool, a text, or an array of any of these or of arrays. An array is one block of memory with
/// the file's own encoding (and the place of each element, 4 bytes, when elements vary in size), so a vocabulary of
/// 262,144 texts costs two heap blocks.
class value {
public:
    /// The number 0 of type u8.
    value() : bytes_(1, '\0') {}

    template <class T>
        requires std::is_arithmetic_v<T>
    [[nodiscard]] static value of(T number) {
        value out(value_type_of<T>, value_type_of<T>, 1);
        out.put(number);
        return out;
    }
    [[nodiscard]] static value of(std::string_view text) {
        value out(value_type::string, value_type::string, 1);
        out.bytes_ = text;
        return out;
    }
    /// An array of numbers or bools.
    template <class T>
        requires std::is_arithmetic_v<T>
    [[nodiscard]] static value array(std::span<const T> numbers) {
        value out(value_type::array, value_type_of<T>, numbers.size());
        for (const T number : numbers) out.put(number);
        return out;
    }
    /// An array of texts, from any range of things that convert to string_view.
    template <class Range>
    [[nodiscard]] static value strings(const Range& texts) {
        value out(value_type::array, value_type::string, 0);
        for (const auto& text : texts) {
            const std::string_view view = text;
            out.starts_.push_back(static_cast<std::uint32_t>(out.bytes_.size()));
            out.put(static_cast<std::uint64_t>(view.size()));
            out.bytes_ += view;
            ++out.count_;
        }
        return out;
    }
    /// An array of arrays. Precondition: all of `arrays` are arrays.
    [[nodiscard]] static value arrays(std::span<const value> arrays) {
        value out(value_type::array, value_type::array, arrays.size());
        for (const value& inner : arrays) {
            out.starts_.push_back(static_cast<std::uint32_t>(out.bytes_.size()));
            inner.encode(out.bytes_);
        }
        return out;
    }

    [[nodiscard]] value_type type() const noexcept { return type_; }
    [[nodiscard]] bool is_array() const noexcept { return type_ == value_type::array; }
    /// Type of an array's elements; type() of anything else.
    [[nodiscard]] value_type element_type() const noexcept { return element_; }
    /// Elements of an array; 1 for anything else.
    [[nodiscard]] std::size_t size() const noexcept { return count_; }

    /// The text. Precondition: type() is string.
    [[nodiscard]] std::string_view text() const noexcept { return bytes_; }
    /// Element `i` of an array of texts. Preconditions: element_type() is string, i < size().
    [[nodiscard]] std::string_view text_at(std::size_t i) const noexcept {
        const std::size_t begin = starts_[i] + sizeof(std::uint64_t);
        return std::string_view(bytes_).substr(begin, end_of(i) - begin);
    }
    /// Element `i` of an array as a value of its own (copied). Precondition: i < size().
    [[nodiscard]] value element(std::size_t i) const;

    /// The value as a T: bool, any integer or float type, std::string_view (a view of this object) or std::string.
    /// Integers of any width convert when they fit. Errors: bad_type, bad_value; they don't name the key.
    template <class T>
    [[nodiscard]] result<T> as() const {
        if (is_array()) return detail::wrong_type("a single value", type_);
        return at<T>(0);
    }
    /// Element `i` of an array as a T. Errors: bad_type, bad_value, invalid_argument (i not below size()).
    template <class T>
    [[nodiscard]] result<T> at(std::size_t i) const {
        if (i >= count_) {
            return error{errc::invalid_argument, concat("element ", i, " was asked for, but there are ", count_)};
        }
        if constexpr (std::is_arithmetic_v<T>) {
            if (fixed_bytes(element_) == 0) return detail::wrong_type(detail::wanted_text<T>, element_);
            return detail::convert_number<T>(element_, bytes_.data() + i * fixed_bytes(element_));
        } else {
            if (element_ != value_type::string) return detail::wrong_type("a text", element_);
            return T(is_array() ? text_at(i) : text());
        }
    }
    /// All elements of an array, converted as `at` does. Errors: bad_type (no array, or another element type), bad_value.
    template <class T>
    [[nodiscard]] result<std::vector<T>> to_vector() const {
        if (!is_array()) return detail::wrong_type("an array", type_);
        std::vector<T> out;
        out.reserve(count_);
        for (std::size_t i = 0; i < count_; ++i) {
            auto element = at<T>(i);
            if (!element) {
                auto e = std::move(element).error();
                e.message = concat("element ", i, " ", e.message);
                return e;
            }
            out.push_back(std::move(*element));
        }
        return out;
    }

    /// Appends the value as a file has it behind the type number.
    void encode(std::string& out) const;

    /// Equal type and equal bytes.
    [[nodiscard]] friend bool operator==(const value& a, const value& b) noexcept {
        return a.type_ == b.type_ && a.element_ == b.element_ && a.count_ == b.count_ && a.bytes_ == b.bytes_;
    }

    /// Reads a value of `type` with everything checked against what is left; Reader is byte_reader or source_reader.
    /// Errors: truncated, bad_type, bad_count, overflow, bad_value, limit, io.
    template <class Reader>
    [[nodiscard]] static result<value> decode(Reader& in, value_type type) {
        value out(type, type, 1);
        auto ok = type == value_type::array ? out.decode_array(in) : out.decode_single(in);
        if (!ok) return std::move(ok).error();
        out.bytes_.shrink_to_fit();
        out.starts_.shrink_to_fit();
        return out;
    }

private:
    value(value_type type, value_type element, std::size_t count) : type_(type), element_(element), count_(count) {}

    template <class T>
    void put(T number) {
        char raw[sizeof(T)];
        std::memcpy(raw, &number, sizeof(T));
        bytes_.append(raw, sizeof(T));
    }
    [[nodiscard]] std::size_t end_of(std::size_t i) const noexcept {
        return i + 1 < starts_.size() ? starts_[i + 1] : bytes_.size();
    }
    template <class Reader>
    [[nodiscard]] result<void> decode_single(Reader& in);
    template <class Reader>
    [[nodiscard]] result<void> decode_array(Reader& in);

    value_type type_ = value_type::u8;
    value_type element_ = value_type::u8;
    std::size_t count_ = 1;
    std::string bytes_;                  ///< text, number, or the elements as the file has them
    std::vector<std::uint32_t> starts_;  ///< where in bytes_ each text or inner array begins
};

namespace detail {

/// The error of a count or length that needs more bytes than are left: `overflow` when no file of this size can hold it.
template <class Reader>
[[nodiscard]] error too_many(const Reader& in, std::string_view what, std::uint64_t count, std::uint64_t at) {
    const bool hopeless = count > in.offset() + in.remaining();
    return error{hopeless ? errc::overflow : errc::bad_count,
                 concat(what, " ", count, " is more than the ", in.remaining(), " bytes left can hold"), at};
}

/// Reads the length of a text and refuses one that isn't there.
template <class Reader>
[[nodiscard]] result<std::uint64_t> read_length(Reader& in, std::string_view what) {
    const std::uint64_t at = in.offset();
    auto length = in.template read<std::uint64_t>(what);
    if (length && *length > in.remaining()) {
        auto e = too_many(in, what, *length, at);
        e.code = e.code == errc::overflow ? errc::bad_count : errc::truncated;
        return e;
    }
    return length;
}

template <class T>
void append_number(std::string& out, T number) {
    char raw[sizeof(T)];
    std::memcpy(raw, &number, sizeof(T));
    out.append(raw, sizeof(T));
}

/// Reads elements behind an array's header into `out`, and where each begins into `starts` if they vary in size.
template <class Reader>
[[nodiscard]] result<void> read_elements(Reader& in, value_type element, std::uint64_t count, std::string& out,
                                         std::vector<std::uint32_t>* starts, unsigned depth);

/// Reads an array's element type and count. The count is possible for the bytes left when this succeeds.
template <class Reader>
[[nodiscard]] result<std::pair<value_type, std::uint64_t>> read_array_header(Reader& in) {
    const std::uint64_t at = in.offset();
    auto number = in.template read<std::uint32_t>("the element type of an array");
    if (!number) return std::move(number).error();
    if (!is_value_type(*number)) {
        return error{errc::bad_type, concat("it is an array of the unknown value type ", *number), at};
    }
    const auto element = static_cast<value_type>(*number);
    const std::uint64_t count_at = in.offset();
    auto count = in.template read<std::uint64_t>("the length of an array");
    if (!count) return std::move(count).error();
    const std::uint64_t least = element == value_type::string  ? 8
                                : element == value_type::array ? 12
                                                               : fixed_bytes(element);
    if (*count > in.remaining() / least) return too_many(in, "the array length", *count, count_at);
    return std::pair{element, *count};
}

template <class Reader>
result<void> read_elements(Reader& in, value_type element, std::uint64_t count, std::string& out,
                           std::vector<std::uint32_t>* starts, unsigned depth) {
    if (element == value_type::array && depth >= max_array_depth) {
        return error{errc::bad_value, concat("arrays are nested deeper than the limit (depth ", max_array_depth, ")"),
                     in.offset()};
    }
    const std::uint64_t begin = in.offset();
    if (const std::size_t each = fixed_bytes(element); each != 0) {
        const std::size_t old = out.size();
        if (auto ok = in.append(out, count * each, "an array"); !ok) return ok;
        if (element != value_type::boolean) return {};
        for (std::size_t i = old; i < out.size(); ++i) {
            if (static_cast<unsigned char>(out[i]) > 1) {
                return error{errc::bad_value,
                             concat("a bool is ", static_cast<unsigned>(static_cast<unsigned char>(out[i])), ", not 0 or 1"),
                             begin + (i - old)};
            }
        }
        return {};
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        if (out.size() > std::numeric_limits<std::uint32_t>::max()) {
            return error{errc::limit, "an array is larger than 4 GiB", in.offset()};
        }
        if (starts != nullptr) starts->push_back(static_cast<std::uint32_t>(out.size()));
        if (element == value_type::string) {
            auto length = read_length(in, "the length of a text");
            if (!length) return std::move(length).error();
            append_number(out, *length);
            if (auto ok = in.append(out, *length, "a text"); !ok) return ok;
        } else {
            auto inner = read_array_header(in);
            if (!inner) return std::move(inner).error();
            append_number(out, static_cast<std::uint32_t>(inner->first));
            append_number(out, inner->second);
            if (auto ok = read_elements(in, inner->first, inner->second, out, nullptr, depth + 1); !ok) return ok;
        }
    }
    return {};
}

}  // namespace detail

template <class Reader>
result<void> value::decode_single(Reader& in) {
    if (type_ != value_type::string) {
        const std::uint64_t at = in.offset();
        if (auto ok = in.append(bytes_, fixed_bytes(type_), "a value"); !ok) return ok;
        if (type_ == value_type::boolean && static_cast<unsigned char>(bytes_[0]) > 1) {
            return error{errc::bad_value,
                         concat("a bool is ", static_cast<unsigned>(static_cast<unsigned char>(bytes_[0])), ", not 0 or 1"), at};
        }
        return {};
    }
    auto length = detail::read_length(in, "the length of a text");
    if (!length) return std::move(length).error();
    return in.append(bytes_, *length, "a text");
}

template <class Reader>
result<void> value::decode_array(Reader& in) {
    auto header = detail::read_array_header(in);
    if (!header) return std::move(header).error();
    element_ = header->first;
    count_ = static_cast<std::size_t>(header->second);
    return detail::read_elements(in, element_, count_, bytes_, &starts_, 1);
}

inline value value::element(std::size_t i) const {
    if (!is_array()) return *this;
    if (element_ == value_type::string) return of(text_at(i));
    if (const std::size_t each = fixed_bytes(element_); each != 0) {
        value out(element_, element_, 1);
        out.bytes_.assign(bytes_, i * each, each);
        return out;
    }
    const auto inner = std::string_view(bytes_).substr(starts_[i], end_of(i) - starts_[i]);
    byte_reader in(std::as_bytes(std::span(inner.data(), inner.size())));
    auto out = decode(in, value_type::array);  // these bytes were checked when they were read or written
    return out ? std::move(*out) : value();
}

inline void value::encode(std::string& out) const {
    if (is_array()) {
        detail::append_number(out, static_cast<std::uint32_t>(element_));
        detail::append_number(out, static_cast<std::uint64_t>(count_));
    } else if (type_ == value_type::string) {
        detail::append_number(out, static_cast<std::uint64_t>(bytes_.size()));
    }
    out += bytes_;
}

}  // namespace colibri::gguf

// ---- colibri/gguf/metadata.hpp

// The keys and values of a GGUF file, in their order.
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>


namespace colibri::gguf {

/// Keys with values, in file order, each key once. Look-up takes O(log n).
class metadata {
public:
    struct entry {
        std::string key;
        gguf::value value;
    };

    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] std::span<const entry> entries() const noexcept { return entries_; }
    [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }

    /// The value of a key, or null.
    [[nodiscard]] const value* find(std::string_view key) const {
        const auto at = index_.find(key);
        return at == index_.end() ? nullptr : &entries_[at->second].value;
    }

    /// The value of a key that must be there, as a T (see value::as). Errors: missing_key, bad_type, bad_value.
    template <class T>
    [[nodiscard]] result<T> get(std::string_view key) const {
        const value* found = find(key);
        if (found == nullptr) return missing(key);
        return named(found->as<T>(), key);
    }
    /// The same, or `fallback` when the key isn't there. Errors: bad_type, bad_value.
    template <class T>
    [[nodiscard]] result<T> get_or(std::string_view key, T fallback) const {
        const value* found = find(key);
        if (found == nullptr) return fallback;
        return named(found->as<T>(), key);
    }
    /// All elements of an array that must be there. Errors: missing_key, bad_type, bad_value.
    template <class T>
    [[nodiscard]] result<std::vector<T>> get_array(std::string_view key) const {
        const value* found = find(key);
        if (found == nullptr) return missing(key);
        return named(found->to_vector<T>(), key);
    }

    /// Puts a value under a key: in place of the old one, or at the end.
    void set(std::string_view key, value new_value) {
        if (const auto at = index_.find(key); at != index_.end()) {
            entries_[at->second].value = std::move(new_value);
        } else {
            insert(std::string(key), std::move(new_value));
        }
    }
    template <class T>
        requires std::is_arithmetic_v<T>
    void set(std::string_view key, T number) {
        set(key, value::of(number));
    }
    void set(std::string_view key, std::string_view text) { set(key, value::of(text)); }
    void set(std::string_view key, const char* text) { set(key, value::of(std::string_view(text))); }

    /// Adds a key at the end; false (and no change) if it is there already.
    bool insert(std::string key, value new_value) {
        if (!index_.emplace(key, entries_.size()).second) return false;
        entries_.push_back({std::move(key), std::move(new_value)});
        return true;
    }
    /// Takes a key away; false if it wasn't there. O(n).
    bool remove(std::string_view key) {
        const auto at = index_.find(key);
        if (at == index_.end()) return false;
        const std::size_t gone = at->second;
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(gone));
        index_.erase(at);
        for (auto& [unused, place] : index_) {
            if (place > gone) --place;
        }
        return true;
    }

    [[nodiscard]] friend bool operator==(const metadata& a, const metadata& b) noexcept {
        if (a.size() != b.size()) return false;
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (a.entries_[i].key != b.entries_[i].key || !(a.entries_[i].value == b.entries_[i].value)) return false;
        }
        return true;
    }

private:
    [[nodiscard]] static error missing(std::string_view key) {
        return error{errc::missing_key, concat("the metadata key ", quoted(key), " is missing")};
    }
    /// Puts the key in front of the message of a conversion that failed.
    template <class T>
    [[nodiscard]] static result<T> named(result<T> got, std::string_view key) {
        if (got) return got;
        auto e = std::move(got).error();
        e.message = concat("the metadata key ", quoted(key), " ", e.message);
        return e;
    }

    std::vector<entry> entries_;
    std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace colibri::gguf

// ---- colibri/gguf/tensor_type.hpp

// The tensor types that a GGUF file can name: numbers, names, block sizes.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace colibri {

/// Type of a tensor's elements, by its number in GGUF files. Numbers that no published file may use any more (4, 5, 31-33,
/// 36-38) have no name here. Source: ggml's docs/gguf.md and, for 40-42, files in the wild.
enum class dtype : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q8_1 = 9,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    q8_k = 15,
    iq2_xxs = 16,
    iq2_xs = 17,
    iq3_xxs = 18,
    iq1_s = 19,
    iq4_nl = 20,
    iq3_s = 21,
    iq2_s = 22,
    iq4_xs = 23,
    i8 = 24,
    i16 = 25,
    i32 = 26,
    i64 = 27,
    f64 = 28,
    iq1_m = 29,
    bf16 = 30,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39,
    nvfp4 = 40,
    q1_0 = 41,
    q2_0 = 42,
};

/// What a reader must know of a type to find its way in a file.
struct dtype_info {
    dtype type;
    std::string_view name;      ///< as published, upper case: "Q4_K"
    std::uint32_t block_size;   ///< elements in one block; a row is a whole number of blocks
    std::uint32_t block_bytes;  ///< bytes of one block
};

/// All types with a defined layout, by number.
inline constexpr std::array dtype_table = {
    dtype_info{dtype::f32, "F32", 1, 4},          dtype_info{dtype::f16, "F16", 1, 2},
    dtype_info{dtype::q4_0, "Q4_0", 32, 18},      dtype_info{dtype::q4_1, "Q4_1", 32, 20},
    dtype_info{dtype::q5_0, "Q5_0", 32, 22},      dtype_info{dtype::q5_1, "Q5_1", 32, 24},
    dtype_info{dtype::q8_0, "Q8_0", 32, 34},      dtype_info{dtype::q8_1, "Q8_1", 32, 36},
    dtype_info{dtype::q2_k, "Q2_K", 256, 84},     dtype_info{dtype::q3_k, "Q3_K", 256, 110},
    dtype_info{dtype::q4_k, "Q4_K", 256, 144},    dtype_info{dtype::q5_k, "Q5_K", 256, 176},
    dtype_info{dtype::q6_k, "Q6_K", 256, 210},    dtype_info{dtype::q8_k, "Q8_K", 256, 292},
    dtype_info{dtype::iq2_xxs, "IQ2_XXS", 256, 66}, dtype_info{dtype::iq2_xs, "IQ2_XS", 256, 74},
    dtype_info{dtype::iq3_xxs, "IQ3_XXS", 256, 98}, dtype_info{dtype::iq1_s, "IQ1_S", 256, 50},
    dtype_info{dtype::iq4_nl, "IQ4_NL", 32, 18},  dtype_info{dtype::iq3_s, "IQ3_S", 256, 110},
    dtype_info{dtype::iq2_s, "IQ2_S", 256, 82},   dtype_info{dtype::iq4_xs, "IQ4_XS", 256, 136},
    dtype_info{dtype::i8, "I8", 1, 1},            dtype_info{dtype::i16, "I16", 1, 2},
    dtype_info{dtype::i32, "I32", 1, 4},          dtype_info{dtype::i64, "I64", 1, 8},
    dtype_info{dtype::f64, "F64", 1, 8},          dtype_info{dtype::iq1_m, "IQ1_M", 256, 56},
    dtype_info{dtype::bf16, "BF16", 1, 2},        dtype_info{dtype::tq1_0, "TQ1_0", 256, 54},
    dtype_info{dtype::tq2_0, "TQ2_0", 256, 66},   dtype_info{dtype::mxfp4, "MXFP4", 32, 17},
    dtype_info{dtype::nvfp4, "NVFP4", 64, 36},    dtype_info{dtype::q1_0, "Q1_0", 128, 18},
    dtype_info{dtype::q2_0, "Q2_0", 64, 18},
};

/// The row of `dtype_table` for a type number, or nothing for a number without a defined layout.
[[nodiscard]] constexpr std::optional<dtype_info> find_dtype(std::uint32_t number) noexcept {
    for (const auto& row : dtype_table) {
        if (static_cast<std::uint32_t>(row.type) == number) return row;
    }
    return std::nullopt;
}

/// Published name of a type ("Q4_K"); "?" for a number without a name.
[[nodiscard]] constexpr std::string_view name(dtype type) noexcept {
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    return row ? row->name : std::string_view("?");
}

}  // namespace colibri

// ---- colibri/gguf/tensor_info.hpp

// What a GGUF file says of one tensor: name, type, shape, place.
#include <array>
#include <cstdint>
#include <string>


namespace colibri::gguf {

/// Most dimensions that a tensor may have.
inline constexpr unsigned max_dims = 4;
/// Most bytes that a tensor's name may have.
inline constexpr std::size_t max_tensor_name = 64;

/// One tensor of a file. `dims[0]` is the length of a row (contiguous); dimensions beyond `n_dims` are 1.
struct tensor_info {
    std::string name;
    dtype type = dtype::f32;
    unsigned n_dims = 1;
    std::array<std::uint64_t, max_dims> dims{1, 1, 1, 1};
    std::uint64_t offset = 0;  ///< of its first byte, from the start of its part's file
    std::uint64_t bytes = 0;   ///< size of its data, without padding
    unsigned part = 0;         ///< index into file::parts()

    /// Elements in all; doesn't overflow for a tensor that a reader or `tensor_bytes` accepted.
    [[nodiscard]] std::uint64_t elements() const noexcept { return dims[0] * dims[1] * dims[2] * dims[3]; }
    [[nodiscard]] std::uint64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
    [[nodiscard]] std::uint64_t row_bytes() const noexcept { return bytes / rows(); }
};

namespace detail {

/// "[576, 49152]": the dimensions that the file names.
[[nodiscard]] inline std::string shape_text(const std::array<std::uint64_t, max_dims>& dims, unsigned n_dims) {
    std::string out = "[";
    for (unsigned i = 0; i < n_dims; ++i) out += concat(i == 0 ? "" : ", ", dims[i]);
    out += ']';
    return out;
}

}  // namespace detail

/// "[576, 49152]": the shape as the file writes it, row length first.
[[nodiscard]] inline std::string shape_text(const tensor_info& tensor) {
    return detail::shape_text(tensor.dims, tensor.n_dims);
}

/// Why no tensor can have this type number, and what to do; for numbers without a row in `dtype_table`.
[[nodiscard]] inline std::string unknown_dtype_text(std::uint32_t number) {
    std::string out = concat("type ", number);
    switch (number) {
        case 4:
        case 5: return out + " (Q4_2, Q4_3) was removed from the format in 2023; convert the model again";
        case 31:
        case 32:
        case 33: return out + " (Q4_0_4_4, Q4_0_4_8, Q4_0_8_8) was removed from the format; use the model's Q4_0 file instead";
        case 36:
        case 37:
        case 38: return out + " (IQ4_NL_4_4 and kin) was removed from the format; use the model's IQ4_NL file instead";
        default: break;
    }
    if (number >= 97 && number < 512) {
        return out + " is not of the common format, the file was probably made by ik_llama.cpp; use a file with standard types";
    }
    return out + " is unknown; the file is damaged or newer than this program";
}

/// Bytes of a tensor of this type and shape. Errors: bad_shape (a dimension of 0 or above 2^63 - 1, rows that are no whole
/// number of blocks), overflow (elements or bytes above 2^63 - 1), bad_type (no such type).
[[nodiscard]] inline result<std::uint64_t> tensor_bytes(dtype type, const std::array<std::uint64_t, max_dims>& dims,
                                                        unsigned n_dims) {
    constexpr std::uint64_t most = ~std::uint64_t{0} >> 1;
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    if (!row) return error{errc::bad_type, unknown_dtype_text(static_cast<std::uint32_t>(type))};
    const auto shape = [&] { return detail::shape_text(dims, n_dims); };
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : dims) {
        if (dim == 0 || dim > most) {
            return error{errc::bad_shape, concat("the shape ", shape(), " has a dimension of 0 or below")};
        }
        const auto product = checked_mul(elements, dim);
        if (!product || *product > most) {
            return error{errc::overflow, concat("the shape ", shape(), " has more elements than 63 bits can count")};
        }
        elements = *product;
    }
    if (dims[0] % row->block_size != 0) {
        return error{errc::bad_shape, concat("the shape ", shape(), " has rows that are not a multiple of ",
                                             row->block_size, ", the block size of ", row->name)};
    }
    const auto bytes = checked_mul<std::uint64_t>(elements / row->block_size, row->block_bytes);
    if (!bytes || *bytes > most) {
        return error{errc::overflow, concat("the shape ", shape(), " has more bytes than 63 bits can count")};
    }
    return *bytes;
}

}  // namespace colibri::gguf

// ---- colibri/gguf/part.hpp

// One GGUF container: header, metadata and tensor list read and checked.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>


namespace colibri::gguf {

inline constexpr std::uint64_t default_alignment = 32;
inline constexpr std::size_t max_key_size = 65535;

/// Where one file of a model is and how it is laid out.
struct part {
    std::filesystem::path path;
    std::uint64_t size = 0;         ///< bytes of the file
    std::uint64_t data_offset = 0;  ///< where tensor data begins
    std::uint64_t alignment = default_alignment;
    std::uint32_t version = 3;
};

/// One container's contents; tensor names are unique, inside the file, aligned, and don't overlap.
struct container {
    part where;
    metadata meta;
    std::vector<tensor_info> tensors;
};

/// What `read_container` may take.
struct container_limits {
    /// Header bytes at most; the largest published ones (262,144 tokens with merges) have about 20 MB.
    std::uint64_t header_bytes = std::uint64_t{256} << 20;
};

/// Reads and checks everything before the tensor data, and that the data is all there. Every count, length, offset and
/// product is checked against the bytes that are there before anything is allocated for it. Errors: truncated, bad_magic,
/// bad_version, overflow, bad_type, bad_count, bad_offset, bad_alignment, duplicate, bad_shape, bad_value, bad_utf8,
/// limit, io; messages name the key or tensor, not the file. Source: ggml's docs/gguf.md.
[[nodiscard]] result<container> read_container(byte_source& source, const container_limits& limits = {});

namespace detail {

/// Whether bytes are well-formed UTF-8 (no surrogates, no overlong forms).
[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
        if (length == 0 || length > text.size() - i) return false;
        for (std::size_t k = 1; k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            const unsigned char low = k > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
            const unsigned char high = k > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
            if (next < low || next > high) return false;
        }
        i += length;
    }
    return true;
}

/// Refuses a key or tensor name that has control characters or isn't UTF-8.
[[nodiscard]] inline result<void> check_name(std::string_view what, std::string_view text, std::uint64_t at) {
    if (text.empty()) return error{errc::bad_value, concat("empty ", what, " (length 0)"), at};
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            return error{errc::bad_value, concat("the ", what, " ", quoted(text), " has a control character"), at};
        }
    }
    if (!is_utf8(text)) return error{errc::bad_utf8, concat("the ", what, " ", quoted(text), " is not UTF-8"), at};
    return {};
}

/// The alignment that metadata names, or the default one. Errors: bad_type (it must be u32), bad_alignment.
[[nodiscard]] inline result<std::uint64_t> read_alignment(const metadata& meta) {
    // A multiple of 8 by the format's text; that it is a power of two is only some readers' rule.
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    constexpr std::string_view key = "general.alignment";
    const value* found = meta.find(key);
    if (found == nullptr) return default_alignment;
    if (found->type() != value_type::u32) {
        return error{errc::bad_type, concat("the metadata key ", quoted(key), " must be of type u32, but is ", name(found->type()))};
    }
    auto alignment = meta.get<std::uint64_t>(key);
    if (alignment && (*alignment == 0 || *alignment % 8 != 0 || *alignment > most)) {
        return error{errc::bad_alignment, concat("the metadata key ", quoted(key), " is ", *alignment, ", not a multiple of 8 from 8 to ", most)};
    }
    return alignment;
}

/// Reads the parts of one container in their order.
class container_parser {
public:
    container_parser(byte_source& source, const container_limits& limits)
        : source_(source), in_(source, limits.header_bytes) {}

    [[nodiscard]] result<container> run() {
        out_.where.size = source_.size();
        using step_type = result<void> (container_parser::*)();
        for (const step_type step : {&container_parser::header, &container_parser::keys, &container_parser::alignment,
                                     &container_parser::tensors, &container_parser::names, &container_parser::places,
                                     &container_parser::overlaps}) {
            if (auto ok = (this->*step)(); !ok) return std::move(ok).error();
        }
        return std::move(out_);
    }

private:
    static constexpr std::uint64_t header_size = 24;
    static constexpr std::uint64_t least_key = 8 + 1 + 4 + 1;          // length, 1 byte, type, 1 byte
    static constexpr std::uint64_t least_tensor = 8 + 1 + 4 + 4 + 8;  // length, 1 byte, n_dims 0, type, offset

    [[nodiscard]] result<void> header();
    [[nodiscard]] result<void> foreign() const;
    [[nodiscard]] result<void> keys();
    [[nodiscard]] result<void> key();
    [[nodiscard]] result<void> alignment();
    [[nodiscard]] result<void> tensors();
    [[nodiscard]] result<void> tensor(tensor_info& info);
    [[nodiscard]] result<void> names();
    [[nodiscard]] result<void> places();
    [[nodiscard]] result<void> overlaps();

    [[nodiscard]] static std::string label(const tensor_info& info) { return concat("tensor ", quoted(info.name)); }

    byte_source& source_;
    source_reader in_;
    std::uint64_t n_tensors_ = 0;
    std::uint64_t n_keys_ = 0;
    std::uint64_t alignment_field_ = 0;         // where the type of 'general.alignment' stands in the file
    std::vector<std::uint64_t> offset_fields_;  // where the offset of each tensor stands in the file
    container out_;
};

inline result<void> container_parser::foreign() const {
    std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(source_.size(), foreign_head_size)));
    if (auto ok = source_.read_at(0, head); !ok) return ok;
    const std::string kind = describe_foreign(head);
    if (!kind.empty()) return error{errc::bad_magic, concat("this is not a GGUF file but ", kind), 0};
    const std::string_view magic(reinterpret_cast<const char*>(head.data()), std::min<std::size_t>(4, head.size()));
    return error{errc::bad_magic, concat("this is not a GGUF file: its magic is ", quoted(magic), " instead of 'GGUF'"), 0};
}

inline result<void> container_parser::header() {
    const std::uint64_t size = source_.size();
    if (size == 0) return error{errc::truncated, "this is an empty file; download or copy it again", 0};
    char magic[4] = {};
    const auto got = static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof magic));
    if (auto ok = source_.read_at(0, std::as_writable_bytes(std::span(magic).first(got))); !ok) return ok;
    if (std::string_view("GGUF").substr(0, got) != std::string_view(magic, got)) return foreign();
    if (size < header_size) {
        return error{errc::truncated, concat("the file ends inside the GGUF header: it has ", size, " of ", header_size,
                                             " bytes; download or copy it again"), size};
    }
    auto version = in_.read<std::uint32_t>("the magic");
    if (version) version = in_.read<std::uint32_t>("the version");
    if (!version) return std::move(version).error();
    if (*version != 2 && *version != 3) {
        const std::uint32_t swapped = __builtin_bswap32(*version);
        if (swapped >= 1 && swapped <= 3) {
            return error{errc::bad_version, "this is a big-endian GGUF file; get the little-endian one or convert it", 4};
        }
        if (*version == 1) {
            return error{errc::bad_version, "this is a GGUF file of version 1, which is too old; convert the model again", 4};
        }
        return error{errc::bad_version,
                     concat("the GGUF version is ", *version, ", but only 2 and 3 are known; the file is damaged or too new"), 4};
    }
    out_.where.version = *version;
    auto n_tensors = in_.read<std::uint64_t>("the tensor count");
    auto n_keys = n_tensors ? in_.read<std::uint64_t>("the metadata count") : std::move(n_tensors);
    if (!n_keys) return std::move(n_keys).error();
    n_tensors_ = *n_tensors;
    n_keys_ = *n_keys;
    if (n_tensors_ > in_.remaining() / least_tensor) {
        return error{errc::bad_count, concat("the tensor count ", n_tensors_, " is more than ", size, " bytes can hold"), 8};
    }
    if (n_keys_ > in_.remaining() / least_key) {
        return error{errc::bad_count, concat("the metadata count ", n_keys_, " is more than ", size, " bytes can hold"), 16};
    }
    return {};
}

inline result<void> container_parser::keys() {
    for (std::uint64_t i = 0; i < n_keys_; ++i) {
        if (auto ok = key(); !ok) {
            auto e = std::move(ok).error();
            if (e.context.empty()) e.context = concat("key ", i, " (the metadata count is ", n_keys_, ")");
            return e;
        }
    }
    return {};
}

inline result<void> container_parser::key() {
    const std::uint64_t at = in_.offset();
    auto length = in_.read<std::uint64_t>("a key length");
    if (!length) return std::move(length).error();
    if (*length > max_key_size || *length > in_.remaining()) {
        return error{errc::bad_count, concat("the key length ", *length, " is more than ",
                                             std::min<std::uint64_t>(max_key_size, in_.remaining()), " bytes"), at};
    }
    std::string text;
    if (auto ok = in_.append(text, *length, "a key"); !ok) return ok;
    if (auto ok = check_name("key", text, at); !ok) return ok;
    const auto named = [&](error e) { return std::move(e).within(concat("key ", quoted(text))); };
    if (out_.meta.contains(text)) return named({errc::duplicate, "the key is there twice", at});
    const std::uint64_t type_at = in_.offset();
    auto type = in_.read<std::uint32_t>("the value type");
    if (!type) return named(std::move(type).error());
    if (!is_value_type(*type)) return named({errc::bad_type, concat("the value has the unknown type ", *type), type_at});
    auto found = value::decode(in_, static_cast<value_type>(*type));
    if (!found) return named(std::move(found).error());
    if (text == "general.alignment") alignment_field_ = type_at;
    out_.meta.insert(std::move(text), std::move(*found));
    return {};
}

inline result<void> container_parser::alignment() {
    auto found = read_alignment(out_.meta);
    if (!found) {
        auto e = std::move(found).error();
        e.offset = alignment_field_ + (e.code == errc::bad_type ? 0 : sizeof(std::uint32_t));
        return e;
    }
    out_.where.alignment = *found;
    return {};
}

inline result<void> container_parser::tensors() {
    for (std::uint64_t i = 0; i < n_tensors_; ++i) {
        tensor_info info;
        if (auto ok = tensor(info); !ok) {
            auto e = std::move(ok).error();
            if (!e.context.empty()) return e;
            if (info.name.empty()) {
                e.context = concat("tensor ", i, " (the tensor count is ", n_tensors_, ", the metadata count ", n_keys_, ")");
            } else {
                e.context = label(info);
            }
            return e;
        }
        out_.tensors.push_back(std::move(info));
    }
    return {};
}

inline result<void> container_parser::tensor(tensor_info& info) {
    const std::uint64_t at = in_.offset();
    auto length = in_.read<std::uint64_t>("the length of a tensor's name");
    if (!length) return std::move(length).error();
    if (*length > max_tensor_name) {
        const bool fits = *length <= in_.remaining();
        return error{fits ? errc::bad_value : errc::bad_count,
                     concat("its name has ", *length, " bytes, more than the ", max_tensor_name, " that are allowed"), at};
    }
    std::string text;
    if (auto ok = in_.append(text, *length, "a tensor's name"); !ok) return ok;
    if (auto ok = check_name("tensor name", text, at); !ok) return ok;
    info.name = std::move(text);

    const std::uint64_t dims_at = in_.offset();
    auto n_dims = in_.read<std::uint32_t>("its number of dimensions");
    if (!n_dims) return std::move(n_dims).error();
    if (*n_dims > max_dims) {
        return error{errc::bad_shape, concat("it has ", *n_dims, " dimensions, more than ", max_dims), dims_at};
    }
    info.n_dims = *n_dims;
    for (unsigned i = 0; i < info.n_dims; ++i) {
        auto dim = in_.read<std::uint64_t>("its dimensions");
        if (!dim) return std::move(dim).error();
        info.dims[i] = *dim;
    }
    const std::uint64_t type_at = in_.offset();
    auto type = in_.read<std::uint32_t>("its type");
    if (!type) return std::move(type).error();
    if (!find_dtype(*type)) return error{errc::bad_type, unknown_dtype_text(*type), type_at};
    info.type = static_cast<dtype>(*type);
    auto bytes = tensor_bytes(info.type, info.dims, info.n_dims);
    if (!bytes) {
        auto e = std::move(bytes).error();
        e.offset = dims_at + 4;
        return e;
    }
    info.bytes = *bytes;
    offset_fields_.push_back(in_.offset());
    auto offset = in_.read<std::uint64_t>("its offset");
    if (!offset) return std::move(offset).error();
    info.offset = *offset;
    return {};
}

inline result<void> container_parser::names() {
    std::vector<const tensor_info*> sorted;
    sorted.reserve(out_.tensors.size());
    for (const auto& info : out_.tensors) sorted.push_back(&info);
    std::ranges::sort(sorted, {}, [](const tensor_info* info) -> const std::string& { return info->name; });
    const auto twice = std::ranges::adjacent_find(sorted, {}, [](const tensor_info* info) -> const std::string& { return info->name; });
    if (twice == sorted.end()) return {};
    return error{errc::duplicate, "the tensor is there twice", error::no_offset, label(**twice)};
}

inline result<void> container_parser::places() {
    const std::uint64_t size = source_.size();
    const std::uint64_t step = out_.where.alignment;
    const std::uint64_t data = round_up(in_.offset(), step);  // both far below 2^63: a file's offset, and at most 2^30
    out_.where.data_offset = data;
    for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
        tensor_info& info = out_.tensors[i];
        const auto refuse = [&](errc code, std::string message) {
            return error{code, std::move(message), offset_fields_[i], label(info)};
        };
        if (info.offset % step != 0) {
            return refuse(errc::bad_offset, concat("its offset ", info.offset, " is not a multiple of the alignment ", step));
        }
        const auto begin = checked_add(info.offset, data);
        if (!begin) return refuse(errc::overflow, concat("its offset ", info.offset, " is larger than any file"));
        const auto end = checked_add(*begin, info.bytes);
        if (!end || *begin > ~std::uint64_t{0} >> 1) {
            return refuse(errc::bad_offset, concat("its offset ", info.offset, " is larger than any file"));
        }
        if (*end > size) {
            return refuse(errc::truncated, concat("its data would be bytes ", *begin, " to ", *end, ", but the file has only ",
                                                  size, "; it is incomplete or damaged, download or copy it again"));
        }
        info.offset = *begin;
    }
    return {};
}

inline result<void> container_parser::overlaps() {
    std::vector<std::uint32_t> order(out_.tensors.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return out_.tensors[i].offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
        const tensor_info& before = out_.tensors[order[i - 1]];
        const tensor_info& after = out_.tensors[order[i]];
        if (before.offset + before.bytes > after.offset) {
            return error{errc::bad_offset, concat("its data begins inside that of ", label(before)),
                         offset_fields_[order[i]], label(after)};
        }
    }
    return {};
}

}  // namespace detail

inline result<container> read_container(byte_source& source, const container_limits& limits) {
    return detail::container_parser(source, limits).run();
}

}  // namespace colibri::gguf

// ---- colibri/gguf/file.hpp

// A model's GGUF file, or all files of a split one, as one list of tensors.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>


namespace colibri::gguf {

/// How `file::open` goes about it.
struct open_options {
    container_limits limits = {};
    bool whole = true;  ///< false: only the named file, even if it is one part of a split model
};

/// The name of part `number` (from 0) of `count`, made from the name of any part "…-00001-of-00003.gguf"; nothing when the
/// name doesn't end that way or names another count.
[[nodiscard]] inline std::optional<std::filesystem::path> split_path(const std::filesystem::path& any_part, unsigned number,
                                                                     unsigned count) {
    const auto five = [](unsigned n) {
        std::string digits = concat(n);
        return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
    };
    const std::string name = any_part.filename().string();
    const std::string tail = concat("-of-", five(count), ".gguf");
    if (!name.ends_with(tail) || name.size() < tail.size() + 6) return std::nullopt;
    const std::string_view front(name.data(), name.size() - tail.size());
    const std::string_view digits = front.substr(front.size() - 5);
    if (front[front.size() - 6] != '-' || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    return any_part.parent_path() / concat(front.substr(0, front.size() - 5), five(number + 1), tail);
}

/// Metadata and tensor list of a model; holds no weights and no open file. Of a split model the metadata is the first
/// part's. Immutable after `open`, so threads may share it.
class file {
public:
    /// Reads the headers of a model. Naming a later part of a split model opens the whole from its first part.
    /// Errors: those of read_container, with the file as context; not_found, not_a_file, io; split (a part is missing or
    /// doesn't belong to the others).
    [[nodiscard]] static result<file> open(const std::filesystem::path& path, const open_options& options = {}) {
        file out;
        if (auto ok = out.add(path, options); !ok) return std::move(ok).error();
        if (options.whole) {
            if (auto ok = out.add_others(options); !ok) return std::move(ok).error();
        }
        return out.indexed();
    }

    /// The same of one container that is in memory or elsewhere; `name` stands for the file in errors.
    [[nodiscard]] static result<file> read(byte_source& source, std::string_view name, const open_options& options = {}) {
        file out;
        if (auto ok = out.add(source, name, options); !ok) return std::move(ok).error();
        return out.indexed();
    }

    [[nodiscard]] const metadata& meta() const noexcept { return meta_; }
    [[nodiscard]] std::span<const tensor_info> tensors() const noexcept { return tensors_; }
    [[nodiscard]] std::span<const part> parts() const noexcept { return parts_; }

    /// The tensor of that name, or null. O(log n).
    [[nodiscard]] const tensor_info* find(std::string_view name) const noexcept {
        const auto at = std::ranges::lower_bound(by_name_, name, {}, [&](std::uint32_t i) -> std::string_view { return tensors_[i].name; });
        return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
    }

    /// Bytes of all tensors together, without padding.
    [[nodiscard]] std::uint64_t tensor_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors_) sum += tensor.bytes;
        return sum;
    }

private:
    [[nodiscard]] result<void> add(const std::filesystem::path& path, const open_options& options) {
        auto reader = file_reader::open(path);
        if (!reader) return std::move(reader).error();
        if (auto ok = add(**reader, quoted(path.string()), options); !ok) return ok;
        parts_.back().path = path;
        return {};
    }
    [[nodiscard]] result<void> add(byte_source& source, std::string_view name, const open_options& options) {
        auto got = read_container(source, options.limits);
        if (!got) return std::move(got).error().within(name);
        const auto number = static_cast<unsigned>(parts_.size());
        (number == 0 ? meta_ : last_meta_) = std::move(got->meta);
        parts_.push_back(std::move(got->where));
        for (auto& tensor : got->tensors) {
            tensor.part = number;
            tensors_.push_back(std::move(tensor));
        }
        return {};
    }
    [[nodiscard]] result<void> add_others(const open_options& options);
    [[nodiscard]] result<file> indexed();

    metadata meta_;
    metadata last_meta_;  // of the later part that was read last; empty when done
    std::vector<tensor_info> tensors_;
    std::vector<part> parts_;
    std::vector<std::uint32_t> by_name_;
};

inline result<void> file::add_others(const open_options& options) {
    const std::filesystem::path named = parts_[0].path;
    const auto within = [](error e, const std::filesystem::path& path) { return std::move(e).within(quoted(path.string())); };
    auto count = meta_.get_or<std::uint32_t>("split.count", 1);
    auto number = count ? meta_.get_or<std::uint32_t>("split.no", 0) : count;
    if (!number) return within(std::move(number).error(), named);
    if (*count <= 1) return {};
    if (*number >= *count) {
        return within({errc::split, concat("the key 'split.no' is ", *number, ", but 'split.count' only ", *count)}, named);
    }
    const auto first = split_path(named, 0, *count);
    if (!first) {
        return within({errc::split, concat("the file is part ", *number + 1, " of ", *count, " (key 'split.count'), but its file ",
                                           "name doesn't end in -00001-of-... with that count; give all parts their names back")}, named);
    }
    if (*number != 0) {
        *this = file();
        if (auto ok = add(*first, options); !ok) {
            return within({errc::split, concat("this is part ", *number + 1, " of ", *count, "; the first part is needed: ", ok.error().text())}, named);
        }
    }
    for (unsigned i = 0; i < *count; ++i) {
        const auto path = *split_path(named, i, *count);
        if (i != 0) {
            if (auto ok = add(path, options); !ok) {
                return within({errc::split, concat("part ", i + 1, " of ", *count, " can't be used: ", ok.error().text())}, *first);
            }
        }
        const metadata& meta = i == 0 ? meta_ : last_meta_;
        auto its_count = meta.get<std::uint32_t>("split.count");
        auto its_number = its_count ? meta.get<std::uint32_t>("split.no") : its_count;
        if (!its_number) return within(std::move(its_number).error(), path);
        if (*its_count != *count || *its_number != i) {
            return within({errc::split, concat("it should be part ", i + 1, " of ", *count, ", but says it is part ", *its_number + 1,
                                               " of ", *its_count, " (keys 'split.no' and 'split.count')")}, path);
        }
    }
    auto total = meta_.get_or<std::uint64_t>("split.tensors.count", tensors_.size());
    if (!total) return within(std::move(total).error(), *first);
    if (*total != tensors_.size()) {
        return within({errc::split, concat("the key 'split.tensors.count' is ", *total, ", but the ", *count, " parts have ",
                                           tensors_.size(), " tensors")}, *first);
    }
    return {};
}

inline result<file> file::indexed() {
    last_meta_ = {};
    by_name_.resize(tensors_.size());
    for (std::size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<std::uint32_t>(i);
    const auto name_of = [&](std::uint32_t i) -> std::string_view { return tensors_[i].name; };
    std::ranges::sort(by_name_, {}, name_of);
    const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
    if (twice != by_name_.end()) {
        return error{errc::split, concat("the tensor ", quoted(tensors_[*twice].name), " is in two parts"), error::no_offset,
                     quoted(parts_[0].path.string())};
    }
    return std::move(*this);
}

}  // namespace colibri::gguf

// ---- colibri/gguf/writer.hpp

// Writes GGUF files, version 3: header first, then tensor data as it comes.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>


namespace colibri::gguf {

/// Writes one file that appears under its name when it is complete. The tensors' types and shapes are given at the start, their
/// bytes afterwards, in any pieces; so a file larger than memory can be written. One thread at a time.
class writer {
public:
    /// Checks everything that a reader would and writes the header. Of `tensors` the name, type, n_dims and dims count.
    /// Alignment is 'general.alignment' of `meta` (u32), else 32. Errors: bad_value, bad_utf8, bad_count, bad_type, bad_alignment,
    /// duplicate, bad_shape, overflow; those of atomic_writer.
    [[nodiscard]] static result<writer> create(const std::filesystem::path& path, const metadata& meta,
                                               std::vector<tensor_info> tensors, write_options options = {});

    /// The tensors with the offsets and sizes that they have in the file.
    [[nodiscard]] std::span<const tensor_info> tensors() const noexcept { return tensors_; }
    /// The tensor whose bytes come next, or null when all are written.
    [[nodiscard]] const tensor_info* next() const noexcept { return current_ < tensors_.size() ? &tensors_[current_] : nullptr; }

    /// Writes the next bytes of next(); when it is complete the padding is added and the tensor behind it is next.
    /// Errors: invalid_argument (more bytes than it has left), io.
    [[nodiscard]] result<void> write(std::span<const std::byte> bytes) {
        const tensor_info* tensor = next();
        if (bytes.empty()) return {};
        if (tensor == nullptr || bytes.size() > tensor->bytes - done_) {
            return error{errc::invalid_argument, concat(bytes.size(), " bytes are too many for what is left of the tensor ",
                                                        tensor == nullptr ? std::string("list") : quoted(tensor->name))};
        }
        if (auto ok = out_.write(bytes); !ok) return ok;
        done_ += bytes.size();
        if (done_ < tensor->bytes) return {};
        ++current_;
        done_ = 0;
        return pad();
    }

    /// Puts the file under its name. Errors: invalid_argument (bytes of a tensor are missing), io.
    [[nodiscard]] result<void> finish() {
        if (const tensor_info* tensor = next()) {
            return error{errc::invalid_argument, concat("the tensor ", quoted(tensor->name), " lacks ", tensor->bytes - done_, " bytes")};
        }
        return out_.commit();
    }

private:
    explicit writer(atomic_writer out) : out_(std::move(out)) {}

    /// Zeros up to the next multiple of the alignment.
    [[nodiscard]] result<void> pad() {
        static constexpr std::byte zeros[4096] = {};
        std::uint64_t left = round_up(out_.written(), alignment_) - out_.written();
        while (left != 0) {
            const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left, sizeof zeros));
            if (auto ok = out_.write(std::span(zeros, now)); !ok) return ok;
            left -= now;
        }
        return {};
    }

    atomic_writer out_;
    std::vector<tensor_info> tensors_;
    std::size_t current_ = 0;
    std::uint64_t done_ = 0;  // bytes written of the current tensor
    std::uint64_t alignment_ = default_alignment;
};

namespace detail {

inline void append_text(std::string& out, std::string_view text) {
    append_number(out, static_cast<std::uint64_t>(text.size()));
    out += text;
}

/// Header bytes without the padding; `tensors` get sizes, and offsets from the start of the data, in their order.
[[nodiscard]] inline result<std::string> encode_header(const metadata& meta, std::uint64_t alignment, std::vector<tensor_info>& tensors) {
    std::string out = "GGUF";
    append_number(out, std::uint32_t{3});
    append_number(out, static_cast<std::uint64_t>(tensors.size()));
    append_number(out, static_cast<std::uint64_t>(meta.size()));
    for (const auto& [key, value] : meta.entries()) {
        if (auto ok = check_name("key", key, error::no_offset); !ok) return std::move(ok).error();
        if (key.size() > max_key_size) return error{errc::bad_count, concat("the key ", quoted(key), " is longer than ", max_key_size, " bytes")};
        append_text(out, key);
        append_number(out, static_cast<std::uint32_t>(value.type()));
        value.encode(out);
    }
    std::uint64_t offset = 0;
    for (auto& tensor : tensors) {
        const auto named = [&](error e) { return std::move(e).within(concat("tensor ", quoted(tensor.name))); };
        if (auto ok = check_name("tensor name", tensor.name, error::no_offset); !ok) return std::move(ok).error();
        if (tensor.name.size() > max_tensor_name) {
            return named({errc::bad_value, concat("its name is longer than ", max_tensor_name, " bytes")});
        }
        if (tensor.n_dims > max_dims) return named({errc::bad_shape, concat("it has more than ", max_dims, " dimensions")});
        for (unsigned i = tensor.n_dims; i < max_dims; ++i) {
            if (tensor.dims[i] != 1) return named({errc::bad_shape, "a dimension beyond its number of dimensions is not 1"});
        }
        auto bytes = tensor_bytes(tensor.type, tensor.dims, tensor.n_dims);
        if (!bytes) return named(std::move(bytes).error());
        tensor.bytes = *bytes;
        tensor.offset = offset;
        tensor.part = 0;
        append_text(out, tensor.name);
        append_number(out, static_cast<std::uint32_t>(tensor.n_dims));
        for (unsigned i = 0; i < tensor.n_dims; ++i) append_number(out, tensor.dims[i]);
        append_number(out, static_cast<std::uint32_t>(tensor.type));
        append_number(out, tensor.offset);
        const auto end = checked_add(offset, *bytes);
        if (!end || *end > (~std::uint64_t{0} >> 1) - alignment) return named({errc::overflow, "the tensors are larger than any file"});
        offset = round_up(*end, alignment);
    }
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const auto& tensor : tensors) names.push_back(tensor.name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
        return error{errc::duplicate, "the tensor is there twice", error::no_offset, concat("tensor ", quoted(*twice))};
    }
    return out;
}

}  // namespace detail

inline result<writer> writer::create(const std::filesystem::path& path, const metadata& meta, std::vector<tensor_info> tensors,
                                     write_options options) {
    const auto within = [&](error e) { return std::move(e).within(quoted(path.string())); };
    auto alignment = detail::read_alignment(meta);
    if (!alignment) return within(std::move(alignment).error());
    auto header = detail::encode_header(meta, *alignment, tensors);
    if (!header) return within(std::move(header).error());
    const std::uint64_t data = round_up<std::uint64_t>(header->size(), *alignment);
    std::uint64_t end = data;
    for (auto& tensor : tensors) {
        tensor.offset += data;
        end = round_up(tensor.offset + tensor.bytes, *alignment);
    }
    options.expected_size = end;
    auto out = atomic_writer::create(path, options);
    if (!out) return std::move(out).error();
    writer made(std::move(*out));
    made.alignment_ = *alignment;
    made.tensors_ = std::move(tensors);
    if (auto ok = made.out_.write(*header); !ok) return std::move(ok).error();
    if (auto ok = made.pad(); !ok) return std::move(ok).error();
    return made;
}

}  // namespace colibri::gguf

// ---- colibri/quant/block_format.hpp

// What a block format is: the concepts that kernels, rows and views are written against.
#include <bit>
#include <concepts>
#include <cstddef>
#include <type_traits>


namespace colibri::quant {

static_assert(std::endian::native == std::endian::little, "blocks are read in place: little-endian hosts only");

/// Whether `F`'s size and block size are those that the file format's table gives for `F::type`.
template <class F>
[[nodiscard]] consteval bool layout_matches_table() {
    const auto row = find_dtype(static_cast<std::uint32_t>(F::type));
    return row && row->block_size == F::block_size && row->block_bytes == sizeof(F);
}

/// One block as it lies in a file: packed fields, its type, its number of weights, and what they mean.
/// `decode(out)` writes `block_size` floats, the same bits on every machine.
template <class F>
concept block_format =
    std::is_trivially_copyable_v<F> && std::is_standard_layout_v<F> && requires(const F block, float* out) {
        { F::type } -> std::convertible_to<dtype>;
        { F::block_size } -> std::convertible_to<std::size_t>;
        { block.decode(out) } noexcept -> std::same_as<void>;
    } && layout_matches_table<F>();

/// A format that can also be made from `block_size` floats without further knowledge.
template <class F>
concept encodable_format = block_format<F> && requires(const float* in) {
    { F::encode(in) } noexcept -> std::same_as<F>;
};

/// A format whose weights are floats themselves (one per block): products take F32 activations.
template <class F>
concept float_format = block_format<F> && F::block_size == 1 && requires(const F block) {
    { block.value() } noexcept -> std::same_as<float>;
};

/// A format of integer codes and a float scale. Weight i is `scale() * code(i)`, refined by the concepts below.
template <class F>
concept code_format = block_format<F> && requires(const F block, std::size_t i) {
    { block.scale() } noexcept -> std::same_as<float>;
    { block.code(i) } noexcept -> std::same_as<int>;
};

/// Weight i is `scale() * code(i) + minimum()`.
template <class F>
concept minimum_format = code_format<F> && requires(const F block) {
    { block.minimum() } noexcept -> std::same_as<float>;
};

/// A super-block of 256 whose runs of `sub_size` weights have integer scales: weight i of run j is
/// `(scale() * sub_scale(j)) * code(i)`.
template <class F>
concept super_format = code_format<F> && requires(const F block, std::size_t j) {
    { F::sub_size } -> std::convertible_to<std::size_t>;
    { block.sub_scale(j) } noexcept -> std::same_as<int>;
};

/// A super-block whose runs also have integer minimums: weight i of run j is
/// `(scale() * sub_scale(j)) * code(i) - minimum_scale() * sub_minimum(j)`.
template <class F>
concept super_minimum_format = super_format<F> && requires(const F block, std::size_t j) {
    { block.minimum_scale() } noexcept -> std::same_as<float>;
    { block.sub_minimum(j) } noexcept -> std::same_as<int>;
};

}  // namespace colibri::quant

// ---- colibri/quant/rounding.hpp

// Keeps a compiler from fusing a product into the sum that follows it.
#include <cstddef>
#include <type_traits>

namespace colibri::quant::detail {

/// Makes the values in `v` final: what follows sees each one rounded to float. g++ fuses a*b+c into one rounding
/// wherever the function's target has FMA, which would make a value depend on compiler flags; it can't fuse across
/// this. The loops before and behind it still vectorise.
template <std::size_t N>
constexpr void settle(float (&v)[N]) noexcept {
    if (!std::is_constant_evaluated()) asm("" : "+m"(v));
}

/// The same for one value.
[[nodiscard]] constexpr float settled(float v) noexcept {
    if (!std::is_constant_evaluated()) {
#if defined(__x86_64__)
        asm("" : "+x"(v));
#elif defined(__aarch64__)
        asm("" : "+w"(v));
#else
        asm("" : "+m"(v));
#endif
    }
    return v;
}

/// Writes `products[i] + addend` for all i, with both operations rounded.
template <std::size_t N>
constexpr void add_rounded(float (&products)[N], float addend, float* out) noexcept {
    settle(products);
    for (std::size_t i = 0; i < N; ++i) out[i] = products[i] + addend;
}

}  // namespace colibri::quant::detail

// ---- colibri/quant/encode.hpp

// Arithmetic that the encoders share: scales and codes without undefined conversions, whatever the input.
#include <bit>
#include <cstddef>
#include <cstdint>


namespace colibri::quant::detail {

inline constexpr std::uint32_t infinity_bits = 0x7f800000u;
inline constexpr std::uint16_t f16_nan = 0x7e00;

/// Largest |x| of N values as a bit pattern; at least `infinity_bits` if there is an infinity or a NaN among them.
template <std::size_t N>
[[nodiscard]] constexpr std::uint32_t largest_magnitude_bits(const float* x) noexcept {
    std::uint32_t top = 0;
    for (std::size_t i = 0; i < N; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
        top = magnitude > top ? magnitude : top;
    }
    return top;
}

template <std::size_t N>
[[nodiscard]] constexpr bool all_finite(const float* x) noexcept {
    return largest_magnitude_bits<N>(x) < infinity_bits;
}

/// The value of largest magnitude with its sign; the first of several.
template <std::size_t N>
[[nodiscard]] constexpr float extreme(const float* x) noexcept {
    float out = 0.0f;
    float magnitude = 0.0f;
    for (std::size_t i = 0; i < N; ++i) {
        const float here = x[i] < 0.0f ? -x[i] : x[i];
        if (here > magnitude) {
            magnitude = here;
            out = x[i];
        }
    }
    return out;
}

struct extent_of_values {
    float least;
    float greatest;
};

/// Least and greatest of N finite values; of equal ones (both zeros) the first.
template <std::size_t N>
[[nodiscard]] constexpr extent_of_values extent(const float* x) noexcept {
    extent_of_values out{x[0], x[0]};
    for (std::size_t i = 1; i < N; ++i) {
        if (x[i] < out.least) out.least = x[i];
        if (x[i] > out.greatest) out.greatest = x[i];
    }
    return out;
}

/// 1 / d, or 0 where that isn't finite: the codes of such a block don't matter, its scale is 0 as a half float.
[[nodiscard]] constexpr float reciprocal(float d) noexcept {
    const float magnitude = d < 0.0f ? -d : d;
    return magnitude > 0x1p-128f ? 1.0f / d : 0.0f;
}

/// v without its fraction, held to 0..top; 0 for a NaN.
[[nodiscard]] constexpr int to_code(float v, int top) noexcept {
    if (!(v > 0.0f)) return 0;
    return v < static_cast<float>(top) ? static_cast<int>(v) : top;
}

/// Nearest integer of v, ties away from zero, for |v| below 2^31; v must be a rounded value (see `settle`).
[[nodiscard]] constexpr int nearest_away(float v) noexcept {
    const int whole = static_cast<int>(v);
    const float rest = v - static_cast<float>(whole);
    return whole + (rest >= 0.5f ? 1 : rest <= -0.5f ? -1 : 0);
}

/// Nearest integer of v, ties to even, for |v| below 2^22; v must be a rounded value (see `settle`).
[[nodiscard]] constexpr float nearest_even(float v) noexcept { return (v + 0x1.8p23f) - 0x1.8p23f; }

/// Writes `(x[i] - least) * inverse`, each operation rounded.
template <std::size_t N>
constexpr void scale_values(const float* x, float least, float inverse, float (&out)[N]) noexcept {
    for (std::size_t i = 0; i < N; ++i) out[i] = (x[i] - least) * inverse;
    settle(out);
}

}  // namespace colibri::quant::detail

// ---- colibri/quant/activation.hpp

// Activations as 8-bit codes: what quantised weights are multiplied with.
#include <bit>
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// Values that share one activation scale in products with weights of format F: 32 for blocks of 32, 256 for
/// super-blocks.
template <code_format F>
inline constexpr std::size_t activation_group = F::block_size;

/// Codes whose sum is kept: the runs for which some format with this group has its own minimum or zero point.
template <std::size_t Group>
inline constexpr std::size_t activation_run = Group == 32 ? 32 : 16;

/// One column of k quantised activations, k a multiple of `Group` (32 or 256): value i is `scales[i / Group] *
/// codes[i]`.
template <std::size_t Group>
    requires(Group == 32 || Group == 256)
struct activation_view {
    static constexpr std::size_t group = Group;
    static constexpr std::size_t run = activation_run<Group>;

    const std::int8_t* codes;   ///< k codes, -127..127
    const float* scales;        ///< k / group, never negative; NaN where the group had a NaN or an infinity
    const std::int16_t* sums;   ///< k / run sums of `run` codes
};

/// n columns of k quantised activations in memory that the caller holds. Columns start at multiples of 64 bytes in
/// `codes`; the codes between k and the next multiple of 64 are zero.
template <std::size_t Group>
    requires(Group == 32 || Group == 256)
struct activation_matrix {
    static constexpr std::size_t group = Group;
    static constexpr std::size_t run = activation_run<Group>;

    std::int8_t* codes = nullptr;
    float* scales = nullptr;
    std::int16_t* sums = nullptr;
    std::size_t k = 0;
    std::size_t columns = 0;

    [[nodiscard]] static constexpr std::size_t code_stride(std::size_t k) noexcept {
        return round_up<std::size_t>(k, 64);
    }
    /// Bytes of memory for n columns of k values; a multiple of 64.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t k, std::size_t n) noexcept {
        return n * code_stride(k) + round_up(n * (k / Group) * sizeof(float), std::size_t{64}) +
               round_up(n * (k / run) * sizeof(std::int16_t), std::size_t{64});
    }
    /// A matrix over `bytes(k, n)` bytes at `memory`, which is aligned to 64 and outlives it. Writes nothing.
    [[nodiscard]] static activation_matrix over(std::byte* memory, std::size_t k, std::size_t n) noexcept {
        activation_matrix out;
        out.codes = reinterpret_cast<std::int8_t*>(memory);
        memory += n * code_stride(k);
        out.scales = reinterpret_cast<float*>(memory);
        memory += round_up(n * (k / Group) * sizeof(float), std::size_t{64});
        out.sums = reinterpret_cast<std::int16_t*>(memory);
        out.k = k;
        out.columns = n;
        return out;
    }

    [[nodiscard]] std::int8_t* column_codes(std::size_t c) const noexcept { return codes + c * code_stride(k); }
    [[nodiscard]] float* column_scales(std::size_t c) const noexcept { return scales + c * (k / Group); }
    [[nodiscard]] std::int16_t* column_sums(std::size_t c) const noexcept { return sums + c * (k / run); }
    [[nodiscard]] activation_view<Group> column(std::size_t c) const noexcept {
        return {column_codes(c), column_scales(c), column_sums(c)};
    }
};

/// Writes the codes of `Group` values and returns their scale d = max|x| / 127; every code is x * (1 / d) to the
/// nearest integer, ties to even, each operation rounded to float. A group whose d would be below 2^-126 is all zero
/// with d = 0; one with an infinity or a NaN has codes 0 and d = NaN, so that products with it are NaN.
template <std::size_t Group>
constexpr float quantise_group(const float* x, std::int8_t* codes) noexcept {
    const std::uint32_t top = detail::largest_magnitude_bits<Group>(x);
    const bool finite = top < detail::infinity_bits;
    const float d = finite ? std::bit_cast<float>(top) / 127.0f : 0.0f;
    if (!(d >= 0x1p-126f)) {
        for (std::size_t i = 0; i < Group; ++i) codes[i] = 0;
        return finite ? 0.0f : std::bit_cast<float>(0x7fc00000u);
    }
    const float inverse = 1.0f / d;
    float scaled[Group] = {};
    for (std::size_t i = 0; i < Group; ++i) scaled[i] = x[i] * inverse;
    detail::settle(scaled);
    for (std::size_t i = 0; i < Group; ++i) codes[i] = static_cast<std::int8_t>(detail::nearest_even(scaled[i]));
    return d;
}

/// Quantises k values (a multiple of `Group`): k codes, k / Group scales, k / activation_run<Group> sums. The scalar
/// reference of the kernels, which write the same bytes.
template <std::size_t Group>
constexpr void quantise_activations(const float* x, std::size_t k, std::int8_t* codes, float* scales,
                                    std::int16_t* sums) noexcept {
    constexpr std::size_t run = activation_run<Group>;
    for (std::size_t g = 0; g < k / Group; ++g) {
        scales[g] = quantise_group<Group>(x + g * Group, codes + g * Group);
    }
    for (std::size_t r = 0; r < k / run; ++r) {
        int sum = 0;
        for (std::size_t i = 0; i < run; ++i) sum += codes[r * run + i];
        sums[r] = static_cast<std::int16_t>(sum);
    }
}

/// Quantises column c of `out` from out.k values, padding included.
template <std::size_t Group>
void quantise_column(const float* x, const activation_matrix<Group>& out, std::size_t c) noexcept {
    std::int8_t* codes = out.column_codes(c);
    quantise_activations<Group>(x, out.k, codes, out.column_scales(c), out.column_sums(c));
    for (std::size_t i = out.k; i < activation_matrix<Group>::code_stride(out.k); ++i) codes[i] = 0;
}

}  // namespace colibri::quant

// ---- colibri/quant/decode.hpp

// The order of operations that gives codes their values, shared by the formats of one shape.
#include <cstddef>


namespace colibri::quant::detail {

/// `scale * code`: one rounding.
template <class F>
constexpr void decode_codes(const F& block, float* out) noexcept {
    const float d = block.scale();
    for (std::size_t i = 0; i < F::block_size; ++i) out[i] = d * static_cast<float>(block.code(i));
}

/// `scale * code + minimum`: the product is rounded, then the sum.
template <class F>
constexpr void decode_minimum(const F& block, float* out) noexcept {
    const float d = block.scale();
    float products[F::block_size] = {};
    for (std::size_t i = 0; i < F::block_size; ++i) products[i] = d * static_cast<float>(block.code(i));
    add_rounded(products, block.minimum(), out);
}

/// `(scale * sub_scale) * code`: both products are rounded.
template <class F>
constexpr void decode_super(const F& block, float* out) noexcept {
    const float d = block.scale();
    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
        const float run_scale = d * static_cast<float>(block.sub_scale(j));
        for (std::size_t i = j * F::sub_size; i < (j + 1) * F::sub_size; ++i) {
            out[i] = run_scale * static_cast<float>(block.code(i));
        }
    }
}

/// `(scale * sub_scale) * code - minimum_scale * sub_minimum`: every product is rounded, then the difference.
template <class F>
constexpr void decode_super_minimum(const F& block, float* out) noexcept {
    const float d = block.scale();
    const float dmin = block.minimum_scale();
    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
        const float run_scale = d * static_cast<float>(block.sub_scale(j));
        const float run_minimum = settled(dmin * static_cast<float>(block.sub_minimum(j)));
        float products[F::sub_size] = {};
        for (std::size_t i = 0; i < F::sub_size; ++i) {
            products[i] = run_scale * static_cast<float>(block.code(j * F::sub_size + i));
        }
        add_rounded(products, -run_minimum, out + j * F::sub_size);
    }
}

}  // namespace colibri::quant::detail

// ---- colibri/quant/floats.hpp

// Weights that are floats: F32, F16, BF16.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// One IEEE binary32 number.
struct f32 {
    static constexpr dtype type = dtype::f32;
    static constexpr std::size_t block_size = 1;

    float bits;

    [[nodiscard]] constexpr float value() const noexcept { return bits; }
    constexpr void decode(float* out) const noexcept { *out = bits; }
    [[nodiscard]] static constexpr f32 encode(const float* in) noexcept { return {*in}; }
};

/// One IEEE binary16 number. Encoding rounds to nearest even; too large becomes infinity.
struct f16 {
    static constexpr dtype type = dtype::f16;
    static constexpr std::size_t block_size = 1;

    std::uint16_t bits;

    [[nodiscard]] constexpr float value() const noexcept { return f16_to_f32(bits); }
    constexpr void decode(float* out) const noexcept { *out = value(); }
    [[nodiscard]] static constexpr f16 encode(const float* in) noexcept { return {f32_to_f16(*in)}; }
};

/// The upper half of an IEEE binary32 number. Encoding rounds to nearest even.
struct bf16 {
    static constexpr dtype type = dtype::bf16;
    static constexpr std::size_t block_size = 1;

    std::uint16_t bits;

    [[nodiscard]] constexpr float value() const noexcept { return bf16_to_f32(bits); }
    constexpr void decode(float* out) const noexcept { *out = value(); }
    [[nodiscard]] static constexpr bf16 encode(const float* in) noexcept { return {f32_to_bf16(*in)}; }
};

static_assert(float_format<f32> && float_format<f16> && float_format<bf16>);

}  // namespace colibri::quant

// ---- colibri/quant/iq4.hpp

// IQ4_NL and IQ4_XS: 4-bit codes that point into a table of unevenly spaced values.
#include <array>
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// The sixteen values that IQ4_NL and IQ4_XS codes stand for. Part of the file format.
inline constexpr std::array<std::int8_t, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

/// 32 weights: `d * iq4_values[code]`, codes packed as in Q4_0. 4.5 bits per weight.
struct iq4_nl {
    static constexpr dtype type = dtype::iq4_nl;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    /// The value that the code stands for, -127..113.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return iq4_values[static_cast<std::size_t>((qs[i % 16] >> (i / 16 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

/// 256 weights in 8 runs of 32: `(d * scale) * iq4_values[code]`, scales -32..31. 4.25 bits per weight. Run j has the
/// 16 bytes of `qs` from 16j, packed as in Q4_0. Its 6-bit scale plus 32: the low four bits are the low (even j) or
/// high half of `scales_l[j/2]`, the upper two are bits 2j and 2j+1 of `scales_h`.
struct iq4_xs {
    static constexpr dtype type = dtype::iq4_xs;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t scales_h;
    std::uint8_t scales_l[4];
    std::uint8_t qs[128];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        const int low = (scales_l[j / 2] >> (j % 2 * 4)) & 15;
        const int high = (scales_h >> (j * 2)) & 3;
        return (low | high << 4) - 32;
    }
    /// The value that the code stands for, -127..113.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return iq4_values[static_cast<std::size_t>((qs[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(code_format<iq4_nl> && super_format<iq4_xs>);

}  // namespace colibri::quant

// ---- colibri/quant/mxfp4.hpp

// MXFP4: 4-bit floats (E2M1) with a power of two for every 32.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// Twice the values of the sixteen E2M1 codes; code 8 (minus zero) is plain 0. Part of the file format.
inline constexpr std::array<std::int8_t, 16> mxfp4_values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// 32 weights: `2^(e-128) * mxfp4_values[code]`, codes packed as in Q4_0. 4.25 bits per weight.
/// The exponent 255, NaN in the OCP microscaling text, is the ordinary 2^127 here, as in the reference decoder.
struct mxfp4 {
    static constexpr dtype type = dtype::mxfp4;
    static constexpr std::size_t block_size = 32;

    std::uint8_t e;
    std::uint8_t qs[16];

    /// 2^(e-128), exact: subnormal for e below 2.
    [[nodiscard]] constexpr float scale() const noexcept {
        const std::uint32_t bits = e < 2 ? 0x200000u << e : static_cast<std::uint32_t>(e - 1) << 23;
        return std::bit_cast<float>(bits);
    }
    /// Twice the value that the code stands for, -12..12.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return mxfp4_values[static_cast<std::size_t>((qs[i % 16] >> (i / 16 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The exponent is two below that of the largest magnitude, so that it becomes 4 to 8 times the scale (6 at most
    /// is representable); each code is the nearest value, the smaller code on a tie. The format has no NaN: a block
    /// with an infinity or a NaN decodes to infinities.
    [[nodiscard]] static constexpr mxfp4 encode(const float* in) noexcept {
        const std::uint32_t top = detail::largest_magnitude_bits<block_size>(in);
        mxfp4 out{};
        if (top >= detail::infinity_bits) {
            out.e = 255;
            for (auto& byte : out.qs) byte = 0x77;
            return out;
        }
        const std::uint32_t exponent = top >> 23;
        out.e = static_cast<std::uint8_t>(exponent > 2 ? exponent - 2 : 0);
        float values[16] = {};
        for (std::size_t code = 0; code < 16; ++code) {
            values[code] = out.scale() * static_cast<float>(mxfp4_values[code]);
        }
        for (std::size_t i = 0; i < block_size; ++i) {
            std::size_t best = 0;
            float least = distance(values[0], in[i]);
            for (std::size_t code = 1; code < 16; ++code) {
                if (const float here = distance(values[code], in[i]); here < least) {
                    least = here;
                    best = code;
                }
            }
            out.qs[i % 16] = static_cast<std::uint8_t>(out.qs[i % 16] | best << (i / 16 * 4));
        }
        return out;
    }

private:
    [[nodiscard]] static constexpr float distance(float a, float b) noexcept { return a < b ? b - a : a - b; }
};

static_assert(code_format<mxfp4> && encodable_format<mxfp4>);

}  // namespace colibri::quant

// ---- colibri/quant/q2_k.hpp

// Q2_K: 2-bit codes in super-blocks of 256.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// 256 weights in 16 runs of 16: `(d * scale) * code - dmin * minimum`, codes 0..3. 2.625 bits per weight.
/// `scales[j]` holds run j's 4-bit scale in its low and the 4-bit minimum in its high half. Each half of 128 weights
/// has 32 bytes of `qs`: byte l holds weights l, l+32, l+64, l+96 of the half, from the lowest bit pair up.
struct q2_k {
    static constexpr dtype type = dtype::q2_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t scales[16];
    std::uint8_t qs[64];
    std::uint16_t d;     ///< f16, multiplies the scales
    std::uint16_t dmin;  ///< f16, multiplies the minimums

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum_scale() const noexcept { return f16_to_f32(dmin); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales[j] & 15; }
    [[nodiscard]] constexpr int sub_minimum(std::size_t j) const noexcept { return scales[j] >> 4; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super_minimum(*this, out); }
};

static_assert(super_minimum_format<q2_k>);

}  // namespace colibri::quant

// ---- colibri/quant/q3_k.hpp

// Q3_K: 3-bit codes in super-blocks of 256.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// 256 weights in 16 runs of 16: `(d * scale) * code`, codes -4..3, scales -32..31. 3.4375 bits per weight. The low
/// two bits of the codes lie in `qs` as in Q2_K; the third is bit i/32 of `hmask[i % 32]` and, when clear, takes 4
/// off. 6-bit scales plus 32: the low four bits of run j are the low (j < 8) or high half of `scales[j % 8]`; the
/// upper two are bits 2*(j/4) and up of `scales[8 + j % 4]`.
struct q3_k {
    static constexpr dtype type = dtype::q3_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t hmask[32];
    std::uint8_t qs[64];
    std::uint8_t scales[12];
    std::uint16_t d;  ///< f16

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        const int low = (scales[j % 8] >> (j / 8 * 4)) & 15;
        const int high = (scales[8 + j % 4] >> (j / 4 * 2)) & 3;
        return (low | high << 4) - 32;
    }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        const int high = (hmask[i % 32] >> (i / 32)) & 1;
        return (low | high << 2) - 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<q3_k>);

}  // namespace colibri::quant

// ---- colibri/quant/q4.hpp

// Q4_0 and Q4_1: 4-bit codes in blocks of 32.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// 32 weights: `d * code`, codes -8..7, stored plus 8. 4.5 bits per weight.
/// Byte l of `qs` holds weight l in its low and weight l+16 in its high half.
struct q4_0 {
    static constexpr dtype type = dtype::q4_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return ((qs[i % 16] >> (i / 16 * 4)) & 15) - 8; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The scale maps the value of largest magnitude to -8. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q4_0 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, {}};
        const float d = detail::extreme<block_size>(in) / -8.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, 0.0f, detail::reciprocal(d), scaled);
        q4_0 out{f32_to_f16(d), {}};
        for (std::size_t i = 0; i < 16; ++i) {
            const int low = detail::to_code(scaled[i] + 8.5f, 15);
            const int high = detail::to_code(scaled[i + 16] + 8.5f, 15);
            out.qs[i] = static_cast<std::uint8_t>(low | high << 4);
        }
        return out;
    }
};

/// 32 weights: `d * code + m`, codes 0..15, packed as in Q4_0. 5 bits per weight.
struct q4_1 {
    static constexpr dtype type = dtype::q4_1;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t m;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum() const noexcept { return f16_to_f32(m); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return (qs[i % 16] >> (i / 16 * 4)) & 15; }

    constexpr void decode(float* out) const noexcept { detail::decode_minimum(*this, out); }

    /// Code 0 is the least value, code 15 the greatest. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q4_1 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, detail::f16_nan, {}};
        const auto [least, greatest] = detail::extent<block_size>(in);
        const float d = (greatest - least) / 15.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, least, detail::reciprocal(d), scaled);
        q4_1 out{f32_to_f16(d), f32_to_f16(least), {}};
        for (std::size_t i = 0; i < 16; ++i) {
            const int low = detail::to_code(scaled[i] + 0.5f, 15);
            const int high = detail::to_code(scaled[i + 16] + 0.5f, 15);
            out.qs[i] = static_cast<std::uint8_t>(low | high << 4);
        }
        return out;
    }
};

static_assert(code_format<q4_0> && minimum_format<q4_1> && encodable_format<q4_0> && encodable_format<q4_1>);

}  // namespace colibri::quant

// ---- colibri/quant/q4_k.hpp

// Q4_K and Q5_K: 4- and 5-bit codes in super-blocks of 256 with 6-bit scales and minimums.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// Eight 6-bit scales and eight 6-bit minimums in 12 bytes, as Q4_K and Q5_K pack them.
/// Runs 0..3: the scale is the low six bits of byte j, the minimum those of byte j+4. Runs 4..7: the low four bits of
/// scale and minimum are the low and high half of byte j+4; their upper two bits are the top two bits of bytes j-4
/// and j.
struct packed_scales {
    std::uint8_t bytes[12];

    [[nodiscard]] constexpr int scale(std::size_t j) const noexcept {
        return j < 4 ? bytes[j] & 63 : (bytes[j + 4] & 15) | (bytes[j - 4] >> 6) << 4;
    }
    [[nodiscard]] constexpr int minimum(std::size_t j) const noexcept {
        return j < 4 ? bytes[j + 4] & 63 : bytes[j + 4] >> 4 | (bytes[j] >> 6) << 4;
    }
};

/// 256 weights in 8 runs of 32: `(d * scale) * code - dmin * minimum`, codes 0..15. 4.5 bits per weight.
/// Each quarter of 64 weights has 32 bytes of `qs`: byte l holds weight l in its low and weight l+32 in its high half.
struct q4_k {
    static constexpr dtype type = dtype::q4_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;     ///< f16, multiplies the scales
    std::uint16_t dmin;  ///< f16, multiplies the minimums
    packed_scales scales;
    std::uint8_t qs[128];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum_scale() const noexcept { return f16_to_f32(dmin); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales.scale(j); }
    [[nodiscard]] constexpr int sub_minimum(std::size_t j) const noexcept { return scales.minimum(j); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return (qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super_minimum(*this, out); }
};

/// As Q4_K with a fifth bit: codes 0..31; the top bit of weight i is bit i/32 of `qh[i % 32]`. 5.5 bits per weight.
struct q5_k {
    static constexpr dtype type = dtype::q5_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;     ///< f16, multiplies the scales
    std::uint16_t dmin;  ///< f16, multiplies the minimums
    packed_scales scales;
    std::uint8_t qh[32];
    std::uint8_t qs[128];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum_scale() const noexcept { return f16_to_f32(dmin); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales.scale(j); }
    [[nodiscard]] constexpr int sub_minimum(std::size_t j) const noexcept { return scales.minimum(j); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
        const int high = (qh[i % 32] >> (i / 32)) & 1;
        return low | high << 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super_minimum(*this, out); }
};

static_assert(super_minimum_format<q4_k> && super_minimum_format<q5_k>);

}  // namespace colibri::quant

// ---- colibri/quant/q5.hpp

// Q5_0 and Q5_1: 5-bit codes in blocks of 32.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// 32 weights: `d * code`, codes -16..15, stored plus 16. 5.5 bits per weight.
/// The low four bits lie in `qs` as in Q4_0; the fifth of weight i is bit i%8 of `qh[i/8]`.
struct q5_0 {
    static constexpr dtype type = dtype::q5_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qh[4];
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i % 16] >> (i / 16 * 4)) & 15;
        const int high = (qh[i / 8] >> (i % 8)) & 1;
        return (low | high << 4) - 16;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The scale maps the value of largest magnitude to -16. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q5_0 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, {}, {}};
        const float d = detail::extreme<block_size>(in) / -16.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, 0.0f, detail::reciprocal(d), scaled);
        q5_0 out{f32_to_f16(d), {}, {}};
        for (std::size_t i = 0; i < block_size; ++i) {
            const int code = detail::to_code(scaled[i] + 16.5f, 31);
            out.qs[i % 16] = static_cast<std::uint8_t>(out.qs[i % 16] | (code & 15) << (i / 16 * 4));
            out.qh[i / 8] = static_cast<std::uint8_t>(out.qh[i / 8] | (code >> 4) << (i % 8));
        }
        return out;
    }
};

/// 32 weights: `d * code + m`, codes 0..31, packed as in Q5_0. 6 bits per weight.
struct q5_1 {
    static constexpr dtype type = dtype::q5_1;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t m;  ///< f16
    std::uint8_t qh[4];
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum() const noexcept { return f16_to_f32(m); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i % 16] >> (i / 16 * 4)) & 15;
        const int high = (qh[i / 8] >> (i % 8)) & 1;
        return low | high << 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_minimum(*this, out); }

    /// Code 0 is the least value, code 31 the greatest. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q5_1 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, detail::f16_nan, {}, {}};
        const auto [least, greatest] = detail::extent<block_size>(in);
        const float d = (greatest - least) / 31.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, least, detail::reciprocal(d), scaled);
        q5_1 out{f32_to_f16(d), f32_to_f16(least), {}, {}};
        for (std::size_t i = 0; i < block_size; ++i) {
            const int code = detail::to_code(scaled[i] + 0.5f, 31);
            out.qs[i % 16] = static_cast<std::uint8_t>(out.qs[i % 16] | (code & 15) << (i / 16 * 4));
            out.qh[i / 8] = static_cast<std::uint8_t>(out.qh[i / 8] | (code >> 4) << (i % 8));
        }
        return out;
    }
};

static_assert(code_format<q5_0> && minimum_format<q5_1> && encodable_format<q5_0> && encodable_format<q5_1>);

}  // namespace colibri::quant

// ---- colibri/quant/q6_k.hpp

// Q6_K: 6-bit codes in super-blocks of 256.
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// 256 weights in 16 runs of 16: `(d * scale) * code`, codes -32..31, signed 8-bit scales. 6.5625 bits per weight.
/// Each half of 128 weights has 64 bytes of `ql` and 32 of `qh`. Low four bits: weights 0..63 of the half are the
/// low, 64..127 the high halves of the `ql` bytes. Upper two: byte l of `qh` holds those of weights l, l+32, l+64,
/// l+96, lowest pair first.
struct q6_k {
    static constexpr dtype type = dtype::q6_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t ql[128];
    std::uint8_t qh[64];
    std::int8_t scales[16];
    std::uint16_t d;  ///< f16

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales[j]; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
        const int high = (qh[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        return (low | high << 4) - 32;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<q6_k>);

}  // namespace colibri::quant

// ---- colibri/quant/q8.hpp

// Q8_0 and Q8_K: 8-bit codes.
#include <bit>
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// 32 weights: `d * code`, codes -128..127 (an encoder writes -127..127). 8.5 bits per weight.
struct q8_0 {
    static constexpr dtype type = dtype::q8_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::int8_t qs[32];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return qs[i]; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The scale maps the largest magnitude to 127; codes are rounded to the nearest, ties away from zero. A block
    /// with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q8_0 encode(const float* in) noexcept {
        const std::uint32_t top = detail::largest_magnitude_bits<block_size>(in);
        if (top >= detail::infinity_bits) return {detail::f16_nan, {}};
        const float d = std::bit_cast<float>(top) / 127.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, 0.0f, detail::reciprocal(d), scaled);
        q8_0 out{f32_to_f16(d), {}};
        for (std::size_t i = 0; i < block_size; ++i) {
            out.qs[i] = static_cast<std::int8_t>(detail::nearest_away(scaled[i]));
        }
        return out;
    }
};

/// 256 values: `d * code`, and the sum of the codes of each run of 16. An intermediate format: files don't hold it as
/// weights.
struct q8_k {
    static constexpr dtype type = dtype::q8_k;
    static constexpr std::size_t block_size = 256;

    float d;
    std::int8_t qs[256];
    std::int16_t bsums[16];

    [[nodiscard]] constexpr float scale() const noexcept { return d; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return qs[i]; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// As activations are quantised (see `quantise_group`): ties to even, NaN where a value isn't finite.
    [[nodiscard]] static constexpr q8_k encode(const float* in) noexcept {
        q8_k out{};
        quantise_activations<block_size>(in, block_size, out.qs, &out.d, out.bsums);
        return out;
    }
};

static_assert(code_format<q8_0> && code_format<q8_k> && encodable_format<q8_0> && encodable_format<q8_k>);

}  // namespace colibri::quant

// ---- colibri/quant/format_list.hpp

// The one list of block formats; everything that depends on which formats exist is derived from it.
#include <cstddef>
#include <cstdint>
#include <type_traits>


namespace colibri::quant {

/// A list of types.
template <class... Formats>
struct format_list {
    static constexpr std::size_t size = sizeof...(Formats);
};

/// Every weight format that can be computed with. A new format is one struct and one name here.
using weight_formats =
    format_list<f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4>;

/// Calls `fn(std::type_identity<F>{})` for every format F of the list, in order.
template <class... Formats, class Fn>
constexpr void for_each_format(format_list<Formats...>, Fn&& fn) {
    (fn(std::type_identity<Formats>{}), ...);
}

namespace detail {

template <class... Formats>
[[nodiscard]] consteval bool all_valid(format_list<Formats...>) {
    const dtype types[] = {Formats::type...};
    for (std::size_t i = 0; i < sizeof...(Formats); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (types[i] == types[j]) return false;
        }
    }
    return (block_format<Formats> && ...);
}

template <class... Formats>
[[nodiscard]] constexpr bool contains(format_list<Formats...>, dtype type) noexcept {
    return ((Formats::type == type) || ...);
}

template <class T>
struct as_result {
    using type = result<T>;
};
template <class T>
struct as_result<result<T>> {
    using type = result<T>;
};

}  // namespace detail

static_assert(detail::all_valid(weight_formats{}), "a format contradicts dtype_table, or a type is listed twice");

/// Whether weights of this type can be decoded and multiplied.
[[nodiscard]] constexpr bool is_supported(dtype type) noexcept { return detail::contains(weight_formats{}, type); }

/// The error for a type that nothing here can run.
[[nodiscard]] inline error unsupported_format(dtype type) {
    if (const auto shown = name(type); shown != "?") {
        return {errc::unsupported,
                concat("weights of type ", shown, " can't be run yet; convert the model to another type")};
    }
    return {errc::unsupported, concat("tensor type number ", static_cast<std::uint32_t>(type),
                                      " is not known; a newer Colibri may read it")};
}

namespace detail {

template <class Result, class Fn, class First, class... Rest>
[[nodiscard]] Result visit_in(format_list<First, Rest...>, dtype type, Fn& fn) {
    if (type == First::type) {
        if constexpr (std::is_void_v<std::invoke_result_t<Fn&, std::type_identity<First>>>) {
            fn(std::type_identity<First>{});
            return {};
        } else {
            return fn(std::type_identity<First>{});
        }
    }
    if constexpr (sizeof...(Rest) > 0) return visit_in<Result>(format_list<Rest...>{}, type, fn);
    return unsupported_format(type);
}

}  // namespace detail

/// Turns a run-time type into a compile-time one: calls `fn(std::type_identity<F>{})` for the format F of `type` and
/// returns what it returns (the same type for all F) in a result; a `result` that fn returns is passed on as it is.
/// errc::unsupported, with the type's name, for anything that isn't in `weight_formats`.
template <class Fn>
[[nodiscard]] auto visit_format(dtype type, Fn&& fn) {
    using plain = std::invoke_result_t<Fn&, std::type_identity<f32>>;
    return detail::visit_in<typename detail::as_result<plain>::type>(weight_formats{}, type, fn);
}

}  // namespace colibri::quant

// ---- colibri/quant/reference_dot.hpp

// Products of a row of weights and a column of activations in the canonical order of operations.
#include <cmath>
#include <cstddef>
#include <cstdint>


namespace colibri::quant {

/// Dot product of k weights and k F32 activations, any k: 16 partial sums by index mod 16, one fused multiply-add
/// each, added as a tree (i and i+8, then 4, 2, 1 apart). Kernels on targets with FMA equal it bit for bit.
template <float_format F>
[[nodiscard]] float dot_reference(const F* row, const float* x, std::size_t k) noexcept {
    float sums[16] = {};
    for (std::size_t i = 0; i < k; ++i) sums[i % 16] = std::fma(row[i].value(), x[i], sums[i % 16]);
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) sums[i] += sums[i + apart];
    }
    return sums[0];
}

namespace detail {

/// Sum of code * activation code over n weights from `begin` of a block.
template <code_format F>
[[nodiscard]] constexpr std::int32_t code_sum(const F& block, const std::int8_t* codes, std::size_t begin,
                                              std::size_t n) noexcept {
    std::int32_t sum = 0;
    for (std::size_t i = begin; i < begin + n; ++i) sum += block.code(i) * codes[i];
    return sum;
}

}  // namespace detail

/// Dot product of k weights (whole blocks) and k quantised activations. Per block, in order: the integer sum, exact
/// (in super-blocks with the integer scales of the runs multiplied in), becomes a float and is multiplied by the
/// rounded product of both scales in one fused multiply-add into the sum; the minimums follow in a second one.
/// Kernels on targets with FMA equal it bit for bit.
template <code_format F>
[[nodiscard]] float dot_reference(const F* row, activation_view<activation_group<F>> y, std::size_t k) noexcept {
    constexpr std::size_t run = activation_run<F::block_size>;
    float acc = 0.0f;
    for (std::size_t b = 0; b < k / F::block_size; ++b) {
        const F& block = row[b];
        const std::int8_t* codes = y.codes + b * F::block_size;
        [[maybe_unused]] const std::int16_t* sums = y.sums + b * (F::block_size / run);
        const float scale = block.scale() * y.scales[b];
        if constexpr (super_format<F>) {
            std::int32_t sum = 0;
            for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
                sum += block.sub_scale(j) * detail::code_sum(block, codes, j * F::sub_size, F::sub_size);
            }
            acc = std::fma(static_cast<float>(sum), scale, acc);
            if constexpr (super_minimum_format<F>) {
                std::int32_t minimums = 0;
                for (std::size_t r = 0; r < F::block_size / run; ++r) {
                    minimums += block.sub_minimum(r * run / F::sub_size) * sums[r];
                }
                acc = std::fma(-static_cast<float>(minimums), block.minimum_scale() * y.scales[b], acc);
            }
        } else {
            acc = std::fma(static_cast<float>(detail::code_sum(block, codes, 0, F::block_size)), scale, acc);
            if constexpr (minimum_format<F>) {
                acc = std::fma(static_cast<float>(sums[0]), block.minimum() * y.scales[b], acc);
            }
        }
    }
    return acc;
}

}  // namespace colibri::quant

// ---- colibri/quant/rows.hpp

// Rows of blocks to rows of floats and back.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>


namespace colibri::quant {

/// Writes the n values (a multiple of F::block_size) of a row.
template <block_format F>
constexpr void decode_row(const F* row, std::size_t n, float* out) noexcept {
    for (std::size_t b = 0; b < n / F::block_size; ++b) row[b].decode(out + b * F::block_size);
}

/// Writes the blocks of n values (a multiple of F::block_size). What becomes of values that aren't finite is said at
/// `F::encode`.
template <encodable_format F>
constexpr void encode_row(const float* in, std::size_t n, F* row) noexcept {
    for (std::size_t b = 0; b < n / F::block_size; ++b) row[b] = F::encode(in + b * F::block_size);
}

/// Bytes of a row of n values of any type in `dtype_table`.
/// Errors: unsupported (no such type), bad_shape (n is no whole number of blocks), overflow.
[[nodiscard]] inline result<std::size_t> row_bytes(dtype type, std::uint64_t n) {
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    if (!row) return unsupported_format(type);
    if (n % row->block_size != 0) {
        return error{errc::bad_shape,
                     concat("a row of ", n, " is not a whole number of ", row->name, " blocks of ", row->block_size)};
    }
    const auto bytes = checked_mul<std::uint64_t>(n / row->block_size, row->block_bytes);
    if (!bytes || *bytes > std::numeric_limits<std::size_t>::max()) {
        return error{errc::overflow, concat("a row of ", n, " ", row->name, " is larger than memory")};
    }
    return static_cast<std::size_t>(*bytes);
}

/// Alignment that blocks of this type need to be used in place; 1 for a type that isn't supported.
[[nodiscard]] constexpr std::size_t block_alignment(dtype type) noexcept {
    std::size_t out = 1;
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if (F::type == type) out = alignof(F);
    });
    return out;
}

/// Decodes a row of out.size() values from bytes of any alignment. Errors: as `row_bytes`; truncated or bad_count if
/// `bytes` isn't the row's size; unsupported.
[[nodiscard]] inline result<void> decode_row(dtype type, std::span<const std::byte> bytes, std::span<float> out);

/// Encodes a row into bytes of any alignment. Errors: as `decode_row`; unsupported also for formats that can only be
/// read.
[[nodiscard]] inline result<void> encode_row(dtype type, std::span<const float> in, std::span<std::byte> bytes);

namespace detail {

[[nodiscard]] inline result<void> check_row(dtype type, std::size_t values, std::size_t bytes) {
    auto needed = row_bytes(type, values);
    if (!needed) return std::move(needed).error();
    if (bytes == *needed) return {};
    return error{bytes < *needed ? errc::truncated : errc::bad_count,
                 concat("a row of ", values, " ", name(type), " takes ", *needed, " bytes, not ", bytes)};
}

}  // namespace detail

inline result<void> decode_row(dtype type, std::span<const std::byte> bytes, std::span<float> out) {
    if (auto sound = detail::check_row(type, out.size(), bytes.size()); !sound) return sound;
    return visit_format(type, [&]<class F>(std::type_identity<F>) {
        for (std::size_t b = 0; b < out.size() / F::block_size; ++b) {
            F block;
            std::memcpy(&block, bytes.data() + b * sizeof(F), sizeof(F));
            block.decode(out.data() + b * F::block_size);
        }
    });
}

inline result<void> encode_row(dtype type, std::span<const float> in, std::span<std::byte> bytes) {
    if (auto sound = detail::check_row(type, in.size(), bytes.size()); !sound) return sound;
    return visit_format(type, [&]<class F>(std::type_identity<F>) -> result<void> {
        if constexpr (encodable_format<F>) {
            for (std::size_t b = 0; b < in.size() / F::block_size; ++b) {
                const F block = F::encode(in.data() + b * F::block_size);
                std::memcpy(bytes.data() + b * sizeof(F), &block, sizeof(F));
            }
            return {};
        } else {
            return error{errc::unsupported, concat("there is no encoder for ", name(F::type), " yet")};
        }
    });
}

}  // namespace colibri::quant

// ---- colibri/tensor/shape.hpp

// Sizes of a tensor's dimensions.
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>


namespace colibri {

/// One to four dimensions, the fastest first: `dims()[0]` is the number of columns. Missing ones are 1, none is 0,
/// and the number of elements fits 64 bits: a shape that exists is sound.
class shape {
public:
    static constexpr std::size_t max_rank = 4;

    /// One element.
    constexpr shape() = default;

    /// A shape of 1..4 given dimensions. Errors: bad_shape (none, more than four, a zero), overflow (too many
    /// elements).
    [[nodiscard]] static result<shape> make(std::span<const std::uint64_t> dims);
    [[nodiscard]] static result<shape> make(std::initializer_list<std::uint64_t> dims) {
        return make(std::span<const std::uint64_t>(dims.begin(), dims.size()));
    }

    [[nodiscard]] constexpr const std::array<std::uint64_t, max_rank>& dims() const noexcept { return dims_; }
    /// Elements of one row, `dims()[0]`.
    [[nodiscard]] constexpr std::uint64_t columns() const noexcept { return dims_[0]; }
    /// Rows of all slices together.
    [[nodiscard]] constexpr std::uint64_t rows() const noexcept { return dims_[1] * dims_[2] * dims_[3]; }
    /// Matrices of `dims()[0]` x `dims()[1]`: the experts of a stack.
    [[nodiscard]] constexpr std::uint64_t slices() const noexcept { return dims_[2] * dims_[3]; }
    [[nodiscard]] constexpr std::uint64_t elements() const noexcept { return columns() * rows(); }
    /// The shape of one slice.
    [[nodiscard]] constexpr shape slice() const noexcept {
        shape out = *this;
        out.dims_[2] = out.dims_[3] = 1;
        return out;
    }

    /// "576 x 1536", without the ones at the end.
    [[nodiscard]] std::string text() const;

    friend constexpr bool operator==(const shape&, const shape&) = default;

private:
    std::array<std::uint64_t, max_rank> dims_ = {1, 1, 1, 1};
};

inline result<shape> shape::make(std::span<const std::uint64_t> dims) {
    if (dims.empty() || dims.size() > max_rank) {
        return error{errc::bad_shape, concat("a tensor has 1 to 4 dimensions, not ", dims.size())};
    }
    shape out;
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 0) return error{errc::bad_shape, concat("dimension ", i, " of a tensor is zero")};
        const auto product = checked_mul(elements, dims[i]);
        if (!product) return error{errc::overflow, "the dimensions of a tensor have more elements than 64 bits count"};
        elements = *product;
        out.dims_[i] = dims[i];
    }
    return out;
}

inline std::string shape::text() const {
    std::size_t rank = max_rank;
    while (rank > 1 && dims_[rank - 1] == 1) --rank;
    std::string out = concat(dims_[0]);
    for (std::size_t i = 1; i < rank; ++i) out += concat(" x ", dims_[i]);
    return out;
}

}  // namespace colibri

// ---- colibri/tensor/tensor_ref.hpp

// A tensor whose type is known at run time: what a file's directory gives.
#include <cstddef>
#include <cstdint>
#include <span>


namespace colibri {

/// Type, shape and bytes of a tensor that somebody else holds. Rows are contiguous, each a whole number of blocks. It
/// may hold any type of `dtype_table`; whether it can be computed with is asked when it becomes a `tensor_view`.
class tensor_ref {
public:
    /// One F32 element without bytes; assign to it.
    tensor_ref() = default;

    /// A tensor over exactly the bytes that its type and shape need, which outlive it.
    /// Errors: unsupported (no such type), bad_shape (a row that isn't whole blocks), overflow, truncated (too few bytes), bad_count
    /// (too many), bad_alignment (the address is no multiple of the format's alignment, at most 4).
    [[nodiscard]] static result<tensor_ref> make(dtype type, const shape& dims, std::span<const std::byte> bytes);

    [[nodiscard]] dtype type() const noexcept { return type_; }
    [[nodiscard]] const colibri::shape& dims() const noexcept { return dims_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }

    [[nodiscard]] std::size_t columns() const noexcept { return static_cast<std::size_t>(dims_.columns()); }
    [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(dims_.rows()); }
    [[nodiscard]] std::size_t slices() const noexcept { return static_cast<std::size_t>(dims_.slices()); }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return row_bytes_ * rows(); }
    [[nodiscard]] std::span<const std::byte> row(std::size_t r) const noexcept {
        return {data_ + r * row_bytes_, row_bytes_};
    }

    /// Matrix i of a stack (expert i), 0 <= i < slices().
    [[nodiscard]] tensor_ref slice(std::size_t i) const noexcept {
        tensor_ref out = *this;
        out.dims_ = dims_.slice();
        out.data_ = data_ + i * out.bytes();
        return out;
    }

    /// The same tensor with its bytes elsewhere: `data` has bytes() bytes with the format's alignment.
    [[nodiscard]] tensor_ref at(const std::byte* data) const noexcept {
        tensor_ref out = *this;
        out.data_ = data;
        return out;
    }

private:
    dtype type_ = dtype::f32;
    colibri::shape dims_;
    std::size_t row_bytes_ = sizeof(float);
    const std::byte* data_ = nullptr;
};

inline result<tensor_ref> tensor_ref::make(dtype type, const colibri::shape& dims, std::span<const std::byte> bytes) {
    auto row = quant::row_bytes(type, dims.columns());
    if (!row) return std::move(row).error();
    const auto what = [&] { return concat("a tensor of ", dims.text(), " ", name(type)); };
    const auto total = checked_mul<std::uint64_t>(*row, dims.rows());
    if (!total) return error{errc::overflow, concat(what(), " is larger than any memory")};
    if (bytes.size() != *total) {
        return error{bytes.size() < *total ? errc::truncated : errc::bad_count,
                     concat(what(), " takes ", *total, " bytes, not ", bytes.size())};
    }
    const std::size_t alignment = quant::block_alignment(type);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
        return error{errc::bad_alignment, concat(what(), " must start at a multiple of ", alignment, " bytes")};
    }
    tensor_ref out;
    out.type_ = type;
    out.dims_ = dims;
    out.row_bytes_ = *row;
    out.data_ = bytes.data();
    return out;
}

}  // namespace colibri

// ---- colibri/tensor/tensor_view.hpp

// A tensor whose format is known to the compiler: what kernels see.
#include <cstddef>
#include <span>
#include <type_traits>


namespace colibri {

/// A matrix of `rows` rows of `columns` weights in format F; rows are contiguous and whole blocks. Holds no memory.
template <quant::block_format F>
struct tensor_view {
    using format = F;

    const F* data = nullptr;
    std::size_t rows = 0;
    std::size_t columns = 0;  ///< weights of a row, a multiple of F::block_size

    [[nodiscard]] constexpr std::size_t blocks_per_row() const noexcept { return columns / F::block_size; }
    [[nodiscard]] constexpr std::size_t row_bytes() const noexcept { return blocks_per_row() * sizeof(F); }
    [[nodiscard]] constexpr const F* row(std::size_t r) const noexcept { return data + r * blocks_per_row(); }
    /// Rows first..first+count-1 as a matrix of their own.
    [[nodiscard]] constexpr tensor_view row_range(std::size_t first, std::size_t count) const noexcept {
        return {row(first), count, columns};
    }
};

/// The tensor as a matrix in format F. Errors: bad_type if it has another type.
template <quant::block_format F>
[[nodiscard]] result<tensor_view<F>> view_as(const tensor_ref& tensor) {
    if (tensor.type() != F::type) {
        return error{errc::bad_type,
                     concat("a tensor of type ", name(tensor.type()), " is used where ", name(F::type), " is needed")};
    }
    return tensor_view<F>{reinterpret_cast<const F*>(tensor.data()), tensor.rows(), tensor.columns()};
}

/// From the erased to the typed tensor: calls `fn(tensor_view<F>)` for the tensor's format and returns its result
/// (see `visit_format`). Meant to be called once per operation, outside of loops. Errors: unsupported, and what fn
/// returns.
template <class Fn>
[[nodiscard]] auto with_view(const tensor_ref& tensor, Fn&& fn) {
    return quant::visit_format(tensor.type(), [&]<class F>(std::type_identity<F>) {
        return fn(tensor_view<F>{reinterpret_cast<const F*>(tensor.data()), tensor.rows(), tensor.columns()});
    });
}

}  // namespace colibri

// ---- colibri/sampling/weight.hpp

// Unnormalised probabilities as integers: the same on every machine, and their sum is exact in any order.
#include <array>
#include <cstddef>
#include <cstdint>
#include <numbers>

namespace colibri::sampling::detail {

// A choice among tokens must not depend on compiler, flags or CPU. Floating-point sums do (fused multiply-add, order), so
// probabilities stand as 40-bit fixed-point weights 2^40 e^(logit - best) while something is decided; a token whose
// probability is below 2^-40 of the best one's has weight 0. 2^22 weights add up without overflow.

__extension__ using uint128 = unsigned __int128;

inline constexpr int weight_bits = 40;
inline constexpr std::uint64_t full_weight = std::uint64_t{1} << weight_bits;

/// Largest number r with r * r <= value < 2^126.
[[nodiscard]] constexpr std::uint64_t floor_sqrt(uint128 value) noexcept {
    std::uint64_t root = 0;
    for (int bit = 62; bit >= 0; --bit) {
        const std::uint64_t next = root | (std::uint64_t{1} << bit);
        if (static_cast<uint128>(next) * next <= value) root = next;
    }
    return root;
}

/// 2^(-j/256) in units of 2^-62 for j = 0..255, from square roots of 1/2 alone.
[[nodiscard]] constexpr std::array<std::uint64_t, 256> make_powers() noexcept {
    std::array<std::uint64_t, 8> root{};  // 2^(-1/2), 2^(-1/4), ...
    std::uint64_t value = std::uint64_t{1} << 61;
    for (auto& r : root) {
        value = floor_sqrt(static_cast<uint128>(value) << 62);
        r = value;
    }
    std::array<std::uint64_t, 256> out{};
    for (std::size_t j = 0; j < 256; ++j) {
        uint128 product = std::uint64_t{1} << 62;
        for (std::size_t bit = 0; bit < 8; ++bit) {
            if ((j >> (7 - bit)) & 1u) product = (product * root[bit]) >> 62;
        }
        out[j] = static_cast<std::uint64_t>(product);
    }
    return out;
}

inline constexpr std::array<std::uint64_t, 256> powers_of_half = make_powers();

/// Largest value of `distance`: as good as infinite.
inline constexpr std::uint64_t far_away = std::uint64_t{1} << 60;

/// How far `logit` is below `best` in bits (base-2 logarithm of the probabilities' ratio), in units of 2^-40. Both finite,
/// logit <= best. One subtraction, one multiplication, one conversion: nothing that could be fused.
[[nodiscard]] constexpr std::uint64_t distance(float best, float logit) noexcept {
    constexpr double scale = std::numbers::log2e * static_cast<double>(full_weight);
    const double scaled = (static_cast<double>(best) - static_cast<double>(logit)) * scale;
    return scaled < static_cast<double>(far_away) ? static_cast<std::uint64_t>(scaled) : far_away;
}

/// 2^40 * 2^(-distance / 2^40), error below 2^-36 of the result before the last bit is cut.
[[nodiscard]] constexpr std::uint64_t weight_at(std::uint64_t distance) noexcept {
    const std::uint64_t halvings = distance >> 40;
    if (halvings > weight_bits) return 0;
    const std::uint64_t step = (distance >> 32) & 0xffu;
    // 2^-g for the remaining g < 1/256: 1 - y + y^2/2 - y^3/6 with y = g ln 2; the next term is below 2.3e-12.
    constexpr std::uint64_t ln2 = 0xb17217f7u;  // units of 2^-32
    const std::uint64_t y = ((distance & 0xffffffffu) * ln2) >> 32;
    const std::uint64_t y2 = (y * y) >> 40;
    const std::uint64_t y3 = (y2 * y) >> 40;
    const std::uint64_t rest = full_weight - y + y2 / 2 - y3 / 6;
    return static_cast<std::uint64_t>((static_cast<uint128>(powers_of_half[step]) * rest) >> 62) >> halvings;
}

/// Weight of `logit` if the best logit is `best`.
[[nodiscard]] constexpr std::uint64_t weight(float best, float logit) noexcept { return weight_at(distance(best, logit)); }

}  // namespace colibri::sampling::detail

// ---- colibri/sampling/candidates.hpp

// The tokens that may come next, as a range that steps narrow and change.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>


namespace colibri {

/// Number of a token in the vocabulary.
using token_id = std::int32_t;

}  // namespace colibri

namespace colibri::sampling {

/// Candidates' logits lie between minus and plus this.
inline constexpr float largest_logit = std::numeric_limits<float>::max();

/// One token that may come next. `probability` is among the candidates that remain, after `normalize()`.
struct candidate {
    token_id id = -1;
    float logit = 0.0f;
    float probability = 0.0f;
};

/// The order of candidates: highest logit first, equal ones by id. It is total, so every selection is unique.
struct better {
    [[nodiscard]] constexpr bool operator()(const candidate& a, const candidate& b) const noexcept {
        return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    }
};

/// Reusable storage of the candidates of one token: after the first token of a vocabulary nothing is allocated.
/// `load` only remembers the logits. While every token is still in play, changes are kept beside them and the best ones are
/// found by passing over the logits, so that neither greedy decoding nor top-k copies a vocabulary; the list of candidates is
/// made when a step first needs it. NaN and minus infinity are never candidates; plus infinity counts as the largest float.
/// A range (contiguous, of `candidate`); iterating makes the list. Not thread-safe.
class candidates {
public:
    candidates() = default;
    explicit candidates(std::span<const float> logits) { load(logits); }

    /// Starts over with one logit per token, index = id. The memory must stay until the list was made or replaced.
    void load(std::span<const float> logits);

    /// Sets logit = change(index in `ids`, logit) for each candidate in `ids` (distinct; ids that are no candidates are passed
    /// over). A result of NaN or minus infinity removes the candidate.
    template <class Change>
    void change(std::span<const token_id> ids, Change&& change);

    /// Sets logit = change(logit), finite and of the same order, for all candidates. Makes the list.
    template <class Change>
    void change_all(Change&& change);

    /// Keeps the best `count` (at least 1), sorted.
    void keep_best(std::size_t count);

    /// Keeps the candidates whose logit is at least `least`.
    void keep_at_least(float least);

    /// Removes candidates for which `keep(candidate)` is false, in order; the others keep their order.
    template <class Keep>
    void keep_if(Keep&& keep);

    /// Makes the first `count` candidates (or all) the best ones, sorted.
    void sort_front(std::size_t count);
    void sort() { sort_front(size()); }

    /// Sorts and removes the first `count` candidates; at least one stays.
    void drop_front(std::size_t count);

    /// Sets the probabilities of all that remain.
    void normalize();

    /// Logit of the best candidate; minus infinity if there is none.
    [[nodiscard]] float best();
    /// Sum of all weights (see weight.hpp); at least 2^40.
    [[nodiscard]] std::uint64_t total_weight();
    [[nodiscard]] std::uint64_t weight(const candidate& of) { return detail::weight(best(), of.logit); }

    /// Number of logits that were loaded.
    [[nodiscard]] std::size_t vocabulary() const noexcept { return logits_.size(); }
    [[nodiscard]] std::size_t size() { return list().size(); }
    [[nodiscard]] bool empty() { return listed_ ? list_.empty() : !possible(best()); }
    [[nodiscard]] const candidate* begin() { return list().data(); }
    [[nodiscard]] const candidate* end() { return list().data() + list().size(); }
    [[nodiscard]] const candidate& operator[](std::size_t index) { return list()[index]; }

    /// Marks the chosen candidate; its probability is set.
    void choose(std::size_t index);
    [[nodiscard]] bool chosen() const noexcept { return chosen_; }
    /// The chosen candidate; id -1 if nobody chose.
    [[nodiscard]] const candidate& choice() const noexcept { return choice_; }

    /// Whether the order is by id or sorted, hence independent of how selections are done inside.
    [[nodiscard]] bool canonical_order() { return sorted_ == list().size() || by_id_; }

private:
    static constexpr std::size_t block = 64;
    static constexpr float impossible = -std::numeric_limits<float>::infinity();

    const std::vector<candidate>& list() {
        if (!listed_) make_list();
        return list_;
    }
    [[nodiscard]] static float limited(float logit) noexcept { return std::min(logit, largest_logit); }
    [[nodiscard]] static bool possible(float logit) noexcept { return logit > impossible; }  // false for NaN too
    [[nodiscard]] float current(std::size_t id) const noexcept {
        if (!overrides_.empty() && slot_[id] != 0) return overrides_[slot_[id] - 1].logit;
        return logits_[id];
    }
    void make_list();
    void forget_overrides() noexcept;
    void find_block_maxima();
    [[nodiscard]] float scan_block(std::size_t b) const;
    void gather(float least);

    std::span<const float> logits_;
    bool listed_ = true;
    bool by_id_ = true;               ///< list_ is in order of ids
    std::size_t sorted_ = 0;          ///< so many at the front of list_ are the best, in order
    std::uint64_t total_ = 0;         ///< 0: not known
    std::vector<candidate> list_;
    std::vector<candidate> overrides_;  ///< tokens with other logits than logits_ says, while there is no list
    std::vector<std::uint32_t> slot_;   ///< per id: 1 + place in overrides_ or in `ids` of change(); 0 elsewhere
    std::vector<float> block_max_;  ///< largest current logit of each block of ids
    bool maxima_known_ = false;
    std::vector<float> maxima_;     ///< block_max_, to be reordered
    bool chosen_ = false;
    candidate choice_;
};

inline void candidates::load(std::span<const float> logits) {
    forget_overrides();
    list_.clear();
    logits_ = logits;
    listed_ = false;
    maxima_known_ = false;
    by_id_ = true;
    sorted_ = 0;
    total_ = 0;
    chosen_ = false;
    choice_ = {};
}

inline void candidates::forget_overrides() noexcept {
    for (const auto& one : overrides_) slot_[static_cast<std::size_t>(one.id)] = 0;
    overrides_.clear();
}

inline void candidates::make_list() {
    list_.reserve(logits_.size());
    for (std::size_t id = 0; id < logits_.size(); ++id) {
        const float logit = current(id);
        if (possible(logit)) list_.push_back({static_cast<token_id>(id), limited(logit), 0.0f});
    }
    forget_overrides();
    listed_ = true;
}

template <class Change>
void candidates::change(std::span<const token_id> ids, Change&& change) {
    if (slot_.size() < logits_.size()) slot_.resize(logits_.size(), 0);
    const auto known = [&](token_id id) { return id >= 0 && static_cast<std::size_t>(id) < logits_.size(); };
    if (!listed_) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (!known(ids[i])) continue;
            auto& slot = slot_[static_cast<std::size_t>(ids[i])];
            if (slot == 0) {
                overrides_.push_back({ids[i], limited(logits_[static_cast<std::size_t>(ids[i])]), 0.0f});
                slot = static_cast<std::uint32_t>(overrides_.size());
            }
            auto& logit = overrides_[slot - 1].logit;
            if (possible(logit)) logit = limited(change(i, logit));
        }
        maxima_known_ = false;
        return;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (known(ids[i])) slot_[static_cast<std::size_t>(ids[i])] = static_cast<std::uint32_t>(i + 1);
    }
    for (auto& one : list_) {
        const std::uint32_t slot = slot_[static_cast<std::size_t>(one.id)];
        if (slot != 0) one.logit = limited(change(std::size_t{slot} - 1, one.logit));
    }
    for (const token_id id : ids) {
        if (known(id)) slot_[static_cast<std::size_t>(id)] = 0;
    }
    sorted_ = 0;
    keep_if([](const candidate& one) { return possible(one.logit); });
}

template <class Change>
void candidates::change_all(Change&& change) {
    list();
    for (auto& one : list_) one.logit = change(one.logit);
    total_ = 0;
}

template <class Keep>
void candidates::keep_if(Keep&& keep) {
    list();
    std::size_t kept = 0;
    std::size_t sorted = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
        if (!keep(static_cast<const candidate&>(list_[i]))) continue;
        if (i < sorted_) ++sorted;
        list_[kept++] = list_[i];
    }
    list_.resize(kept);
    sorted_ = sorted;
    total_ = 0;
}

// 16 lanes of elementwise comparisons become vector maxima without -ffast-math, as one reduction would not; a NaN loses
// every comparison.
inline void candidates::find_block_maxima() {
    if (maxima_known_) return;
    constexpr std::size_t lanes = 16;
    const std::size_t whole = logits_.size() / block;
    block_max_.resize((logits_.size() + block - 1) / block);
    for (std::size_t b = 0; b < whole; ++b) {
        const float* const from = logits_.data() + b * block;
        float lane[lanes];
        for (std::size_t j = 0; j < lanes; ++j) lane[j] = impossible;
        for (std::size_t i = 0; i < block; i += lanes) {
            for (std::size_t j = 0; j < lanes; ++j) lane[j] = from[i + j] > lane[j] ? from[i + j] : lane[j];
        }
        for (std::size_t width = lanes / 2; width > 0; width /= 2) {
            for (std::size_t j = 0; j < width; ++j) lane[j] = lane[j + width] > lane[j] ? lane[j + width] : lane[j];
        }
        block_max_[b] = lane[0];
    }
    if (whole < block_max_.size()) block_max_[whole] = scan_block(whole);
    constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
    for (const auto& one : overrides_) block_max_[static_cast<std::size_t>(one.id) / block] = unknown;
    for (const auto& one : overrides_) {
        const std::size_t b = static_cast<std::size_t>(one.id) / block;
        if (block_max_[b] != block_max_[b]) block_max_[b] = scan_block(b);
    }
    maxima_known_ = true;
}

inline float candidates::scan_block(std::size_t b) const {
    float most = impossible;
    const std::size_t end = std::min(logits_.size(), (b + 1) * block);
    for (std::size_t id = b * block; id < end; ++id) {
        const float logit = current(id);
        most = logit > most ? logit : most;
    }
    return most;
}

inline void candidates::gather(float least) {
    list_.reserve(logits_.size());
    for (std::size_t b = 0; b < block_max_.size(); ++b) {
        if (!(block_max_[b] >= least)) continue;
        const std::size_t end = std::min(logits_.size(), (b + 1) * block);
        for (std::size_t id = b * block; id < end; ++id) {
            const float logit = current(id);
            if (logit >= least && possible(logit)) list_.push_back({static_cast<token_id>(id), limited(logit), 0.0f});
        }
    }
    forget_overrides();
    listed_ = true;
}

inline void candidates::keep_best(std::size_t count) {
    count = std::max<std::size_t>(count, 1);
    // So many blocks have a logit of at least the count-th largest maximum. With 8 times as many blocks the gathered list is
    // short; with fewer the list of everything is no slower.
    if (!listed_ && count <= logits_.size() / block / 8) {
        find_block_maxima();
        maxima_.assign(block_max_.begin(), block_max_.end());
        const auto nth = maxima_.begin() + static_cast<std::ptrdiff_t>(count - 1);
        std::nth_element(maxima_.begin(), nth, maxima_.end(), std::greater<>{});
        gather(*nth);
        // Minus infinity there means fewer than `count` blocks with candidates, all of which were gathered.
    }
    sort_front(std::min(count, size()));
    if (list_.size() > count) {
        list_.resize(count);
        total_ = 0;
    }
}

inline void candidates::keep_at_least(float least) {
    if (!listed_) {
        find_block_maxima();
        gather(least);
    } else {
        keep_if([least](const candidate& one) { return one.logit >= least; });
    }
}

inline void candidates::sort_front(std::size_t count) {
    list();
    count = std::min(count, list_.size());
    if (sorted_ >= count) return;
    const auto from = list_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto to = list_.begin() + static_cast<std::ptrdiff_t>(count);
    if (to != list_.end()) std::nth_element(from, to, list_.end(), better{});
    std::sort(from, to, better{});
    sorted_ = count;
    by_id_ = false;
}

inline void candidates::drop_front(std::size_t count) {
    if (empty()) return;
    count = std::min(count, list_.size() - 1);
    sort_front(list_.size());
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(count));
    sorted_ = list_.size();
    total_ = 0;
}

inline float candidates::best() {
    if (listed_ && sorted_ > 0) return list_.front().logit;
    float most = impossible;
    if (listed_) {
        for (const auto& one : list_) most = std::max(most, one.logit);
        return most;
    }
    find_block_maxima();
    for (const float one : block_max_) most = std::max(most, one);
    return limited(most);
}

inline std::uint64_t candidates::total_weight() {
    if (total_ == 0) {
        const float most = best();
        for (const auto& one : list()) total_ += detail::weight(most, one.logit);
    }
    return total_;
}

inline void candidates::normalize() {
    if (empty()) return;
    const float most = best();
    const auto total = static_cast<double>(total_weight());
    for (auto& one : list_) {
        one.probability = static_cast<float>(static_cast<double>(detail::weight(most, one.logit)) / total);
    }
}

inline void candidates::choose(std::size_t index) {
    choice_ = list()[index];
    choice_.probability = static_cast<float>(static_cast<double>(weight(choice_)) / static_cast<double>(total_weight()));
    chosen_ = true;
}

}  // namespace colibri::sampling

// ---- colibri/sampling/history.hpp

// The last tokens of a text.
#include <algorithm>
#include <cstddef>
#include <vector>


namespace colibri::sampling {

/// Remembers the newest `limit` tokens (all, without a limit) in a ring. Allocates while it grows to its limit, then no more.
class token_history {
public:
    static constexpr std::size_t unlimited = ~std::size_t{0};

    explicit token_history(std::size_t limit = unlimited) : limit_(limit) {}

    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    [[nodiscard]] std::size_t size() const noexcept { return ring_.size(); }
    [[nodiscard]] bool full() const noexcept { return ring_.size() == limit_; }

    /// The token `age` steps ago, 0 being the newest; age < size().
    [[nodiscard]] token_id operator[](std::size_t age) const noexcept {
        const std::size_t newest = next_ == 0 ? ring_.size() : next_;
        return age < newest ? ring_[newest - 1 - age] : ring_[ring_.size() + newest - 1 - age];
    }

    /// Adds the newest token; the oldest one goes if the limit is reached.
    void push(token_id token) {
        if (limit_ == 0) return;
        if (!full()) {
            ring_.push_back(token);
            return;
        }
        ring_[next_] = token;
        next_ = next_ + 1 == limit_ ? 0 : next_ + 1;
    }

    void clear() noexcept {
        ring_.clear();
        next_ = 0;
    }

private:
    std::size_t limit_;
    std::size_t next_ = 0;  ///< where the oldest token is, once the ring is full
    std::vector<token_id> ring_;
};

}  // namespace colibri::sampling

// ---- colibri/sampling/dry_breakers.hpp

// Texts at which DRY stops looking for repetition.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>


namespace colibri::sampling {

/// Bytes that a token stands for, as generated text would have them. Valid at least until the next call.
using piece_fn = std::function<std::string_view(token_id)>;

/// Finds breakers in a token history. A breaker counts wherever it stands in the text, also across the border of two tokens,
/// however the text around it was cut. Keeps what it needs of the vocabulary; 1 byte per token if there are breakers.
class dry_breakers {
public:
    dry_breakers() = default;

    /// Looks at the pieces of ids 0 to vocabulary - 1. Empty breakers are passed over.
    dry_breakers(const std::vector<std::string>& breakers, std::size_t vocabulary, const piece_fn& piece);

    /// Whether the token has a whole breaker in itself.
    [[nodiscard]] bool whole(token_id token) const noexcept { return role(token) == has_breaker; }

    /// How many of the newest tokens lie behind the last breaker; history.size() if there is none.
    [[nodiscard]] std::size_t tokens_since(const token_history& history) const;

private:
    static constexpr std::uint8_t nothing = 0;
    static constexpr std::uint8_t may_begin = 1;
    static constexpr std::uint8_t has_breaker = 2;

    [[nodiscard]] std::uint8_t role(token_id token) const noexcept {
        const auto id = static_cast<std::size_t>(token);
        return token >= 0 && id < role_.size() ? role_[id] : nothing;
    }
    [[nodiscard]] std::string_view piece(token_id token) const {
        const auto found = pieces_.find(token);
        return found == pieces_.end() ? std::string_view() : std::string_view(found->second);
    }
    [[nodiscard]] std::size_t tail(std::string_view rest, const token_history& history, std::size_t age) const;

    std::vector<std::string> breakers_;
    std::vector<std::uint8_t> role_;                    ///< by id
    std::unordered_map<token_id, std::string> pieces_;  ///< of tokens that can be a part of a breaker
};

inline dry_breakers::dry_breakers(const std::vector<std::string>& breakers, std::size_t vocabulary, const piece_fn& piece) {
    for (const auto& one : breakers) {
        if (!one.empty()) breakers_.push_back(one);
    }
    if (breakers_.empty()) return;
    role_.assign(vocabulary, nothing);
    for (std::size_t id = 0; id < vocabulary; ++id) {
        const auto token = static_cast<token_id>(id);
        const std::string_view text = piece(token);
        if (text.empty()) continue;
        bool inside = false;
        for (const std::string_view breaker : breakers_) {
            if (text.find(breaker) != std::string_view::npos) {
                role_[id] = has_breaker;
                break;
            }
            for (std::size_t cut = 1; cut < breaker.size(); ++cut) {
                // Does the text end with the breaker's beginning; can it go on with the rest of the breaker?
                if (text.ends_with(breaker.substr(0, cut))) role_[id] = may_begin;
                const std::string_view rest = breaker.substr(cut);
                inside = inside || rest.starts_with(text) || text.starts_with(rest);
            }
        }
        if (role_[id] != has_breaker && (role_[id] == may_begin || inside)) pieces_.emplace(token, text);
        if (role_[id] == has_breaker && inside) pieces_.emplace(token, text);
    }
}

inline std::size_t dry_breakers::tokens_since(const token_history& history) const {
    if (breakers_.empty()) return history.size();
    for (std::size_t age = 0; age < history.size(); ++age) {
        const std::uint8_t kind = role(history[age]);
        if (kind == nothing) continue;
        if (kind == has_breaker) return age;
        const std::string_view text = piece(history[age]);
        std::size_t longest = 0;
        for (const std::string_view breaker : breakers_) {
            for (std::size_t cut = 1; cut < breaker.size(); ++cut) {
                if (!text.ends_with(breaker.substr(0, cut))) continue;
                longest = std::max(longest, tail(breaker.substr(cut), history, age));
            }
        }
        if (longest > 0) return age - longest;
    }
    return history.size();
}

// How many tokens newer than `age` hold `rest`, which they must begin with; 0 if they don't.
inline std::size_t dry_breakers::tail(std::string_view rest, const token_history& history, std::size_t age) const {
    std::size_t used = 0;
    while (!rest.empty()) {
        if (used == age) return 0;
        const std::string_view text = piece(history[age - 1 - used]);
        ++used;
        if (text.empty()) return 0;
        if (text.starts_with(rest)) return used;
        if (!rest.starts_with(text)) return 0;
        rest.remove_prefix(text.size());
    }
    return used;
}

}  // namespace colibri::sampling

// ---- colibri/sampling/dry.hpp

// "Don't repeat yourself": a penalty for tokens that would go on with a repetition.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>


namespace colibri::sampling {

/// Numbers of the DRY penalty. multiplier 0 or last_n 0: off; last_n below 0: the whole text.
struct dry_settings {
    float multiplier = 0.0f;
    float base = 1.75f;
    std::int32_t allowed_length = 2;
    std::int32_t last_n = -1;
};

/// If the last n tokens of the text stand in it before, n >= allowed_length, the token that followed them there loses
/// multiplier * base^(n - allowed_length) of its logit. Repetitions are not followed beyond a breaker; a token that holds a
/// breaker is never penalised. (The idea and the names of its settings are those of its inventor's pull request to
/// text-generation-webui, 2024.) Cost: O(tokens in the window).
class dry {
public:
    explicit dry(const dry_settings& settings, dry_breakers breakers = {})
        : settings_(settings), breakers_(std::move(breakers)),
          history_(settings.last_n < 0 ? token_history::unlimited : static_cast<std::size_t>(settings.last_n)) {}

    void operator()(candidates& c);
    void accept(token_id token) {
        if (on()) history_.push(token);
    }
    void reset() { history_.clear(); }

private:
    struct repeated {
        token_id next;         ///< the token that went on after a repetition
        std::uint32_t length;  ///< of that repetition, in tokens
    };

    [[nodiscard]] bool on() const noexcept {
        return settings_.multiplier != 0.0f && settings_.base >= 1.0f && settings_.last_n != 0;
    }
    void measure(std::size_t limit);
    [[nodiscard]] float penalty(std::uint32_t length) const;

    dry_settings settings_;
    dry_breakers breakers_;
    token_history history_;
    std::vector<std::uint32_t> match_;
    std::vector<repeated> found_;
    std::vector<token_id> ids_;
};

// match_[k]: how many of the newest tokens equal those k places further back, at most. The Z-function (Gusfield, "Algorithms on
// Strings, Trees and Sequences", 1.4) of the history read backwards: [left, right) is the match that reaches furthest.
inline void dry::measure(std::size_t limit) {
    const std::size_t size = history_.size();
    match_.assign(size, 0);
    std::size_t left = 0;
    std::size_t right = 0;
    for (std::size_t k = 1; k < size; ++k) {
        std::size_t length = k < right ? std::min<std::size_t>(match_[k - left], right - k) : 0;
        while (k + length < size && history_[length] == history_[k + length]) ++length;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
        match_[k] = static_cast<std::uint32_t>(length);
    }
    for (auto& length : match_) length = static_cast<std::uint32_t>(std::min<std::size_t>(length, limit));
}

inline float dry::penalty(std::uint32_t length) const {
    // Powers by multiplication are the same everywhere; they end where a float does.
    double power = 1.0;
    for (auto n = static_cast<std::uint32_t>(std::max(settings_.allowed_length, 0)); n < length && power < 1e38; ++n) {
        power *= static_cast<double>(settings_.base);
        if (settings_.base == 1.0f) break;
    }
    return static_cast<float>(std::min(power, 1e38) * static_cast<double>(settings_.multiplier));
}

inline void dry::operator()(candidates& c) {
    const auto allowed = static_cast<std::size_t>(std::max(settings_.allowed_length, 0));
    if (!on() || history_.size() <= allowed) return;
    const std::size_t limit = breakers_.tokens_since(history_);
    if (limit < allowed) return;
    measure(limit);
    found_.clear();
    for (std::size_t k = 1; k < match_.size(); ++k) {
        const token_id next = history_[k - 1];
        if (match_[k] >= allowed && !breakers_.whole(next)) found_.push_back({next, match_[k]});
    }
    std::sort(found_.begin(), found_.end(), [](const repeated& a, const repeated& b) {
        return a.next != b.next ? a.next < b.next : a.length > b.length;
    });
    const auto last = std::unique(found_.begin(), found_.end(), [](const repeated& a, const repeated& b) {
        return a.next == b.next;
    });
    found_.erase(last, found_.end());
    ids_.clear();
    for (const auto& one : found_) ids_.push_back(one.next);
    c.change(ids_, [this](std::size_t i, float logit) {
        return std::clamp(logit - penalty(found_[i].length), -largest_logit, largest_logit);
    });
}

}  // namespace colibri::sampling

// ---- colibri/sampling/penalties.hpp

// Steps that change single logits: fixed biases, and penalties for tokens that the text already has.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>


namespace colibri::sampling {

/// A number added to a token's logit; minus infinity forbids the token.
struct bias {
    token_id id = 0;
    float amount = 0.0f;

    friend bool operator==(const bias&, const bias&) = default;
};

/// Adds fixed amounts to logits. Several biases of one token add up; ids that the vocabulary doesn't have do nothing.
class logit_bias {
public:
    logit_bias() = default;
    explicit logit_bias(std::span<const bias> biases);

    void operator()(candidates& c) const {
        if (!ids_.empty()) c.change(ids_, [this](std::size_t i, float logit) { return logit + amounts_[i]; });
    }
    [[nodiscard]] bool empty() const noexcept { return ids_.empty(); }

private:
    std::vector<token_id> ids_;
    std::vector<float> amounts_;
};

/// Lowers the logits of tokens among the last `last_n`: divided by `repeat` where positive, multiplied where negative (Keskar
/// et al. 2019, with the sign corrected), then less `frequency` times the number of occurrences, less `presence`.
/// `last_n` 0 does nothing, below 0 means the whole text. Cost: O(distinct tokens in the window).
class penalties {
public:
    penalties(std::int32_t last_n, float repeat, float frequency = 0.0f, float presence = 0.0f)
        : repeat_(repeat), frequency_(frequency), presence_(presence),
          history_(last_n < 0 ? token_history::unlimited : static_cast<std::size_t>(last_n)) {}

    void operator()(candidates& c);
    void accept(token_id token);
    void reset();

private:
    struct entry {
        std::uint32_t count = 0;
        bool listed = false;
    };

    float repeat_;
    float frequency_;
    float presence_;
    token_history history_;
    std::vector<entry> seen_;         ///< by id
    std::vector<token_id> distinct_;  ///< ids in the window, and some that left it since
};

inline logit_bias::logit_bias(std::span<const bias> biases) {
    std::vector<bias> sorted(biases.begin(), biases.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const bias& a, const bias& b) { return a.id < b.id; });
    for (const auto& one : sorted) {
        if (!ids_.empty() && ids_.back() == one.id) {
            amounts_.back() += one.amount;
        } else {
            ids_.push_back(one.id);
            amounts_.push_back(one.amount);
        }
    }
}

inline void penalties::operator()(candidates& c) {
    if (history_.size() == 0 || (repeat_ == 1.0f && frequency_ == 0.0f && presence_ == 0.0f)) return;
    std::size_t kept = 0;
    for (const token_id id : distinct_) {
        auto& one = seen_[static_cast<std::size_t>(id)];
        one.listed = one.count > 0;
        if (one.listed) distinct_[kept++] = id;
    }
    distinct_.resize(kept);
    // In double, products of two floats or of a float and a count are exact: fused or not, the result is the same.
    c.change(distinct_, [this](std::size_t i, float logit) {
        const auto count = static_cast<double>(seen_[static_cast<std::size_t>(distinct_[i])].count);
        const auto factor = static_cast<double>(repeat_);
        const auto before = static_cast<double>(logit);
        const double repeated = before > 0.0 ? before / factor : before * factor;
        const double less = count * static_cast<double>(frequency_) + static_cast<double>(presence_);
        constexpr auto most = static_cast<double>(largest_logit);
        return static_cast<float>(std::clamp(repeated - less, -most, most));
    });
}

inline void penalties::accept(token_id token) {
    if (token < 0 || history_.limit() == 0) return;
    if (history_.full()) --seen_[static_cast<std::size_t>(history_[history_.size() - 1])].count;
    history_.push(token);
    const auto id = static_cast<std::size_t>(token);
    if (id >= seen_.size()) seen_.resize(std::max(id + 1, seen_.size() * 2));
    ++seen_[id].count;
    if (!seen_[id].listed) {
        seen_[id].listed = true;
        distinct_.push_back(token);
    }
}

inline void penalties::reset() {
    for (const token_id id : distinct_) seen_[static_cast<std::size_t>(id)] = {};
    distinct_.clear();
    history_.clear();
}

}  // namespace colibri::sampling

// ---- colibri/sampling/random.hpp

// Random numbers that are the same for the same seed on every machine.
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <random>


namespace colibri::sampling {

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021): 256 bits of state, period
/// 2^256 - 1. The state is filled by SplitMix64 (Steele, Lea, Flood, 2014), as its authors advise. `stream` gives independent
/// sequences for the same seed, one per step that draws. A std::uniform_random_bit_generator; but use `uniform` and `below`,
/// since the standard's distributions differ between libraries.
class generator {
public:
    using result_type = std::uint64_t;

    explicit constexpr generator(std::uint64_t seed, std::uint64_t stream = 0) noexcept {
        std::uint64_t counter = seed;
        for (std::uint64_t skip = 0; skip < stream; ++skip) counter = split_mix(counter);
        for (auto& word : state_) word = split_mix(counter);
    }

    /// 64 random bits.
    constexpr std::uint64_t operator()() noexcept {
        const std::uint64_t out = std::rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return out;
    }

    /// A multiple of 2^-53 in [0, 1), all equally likely.
    constexpr double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

    /// A whole number in [0, count), count > 0; no number is likelier than another by more than count / 2^64.
    constexpr std::uint64_t below(std::uint64_t count) noexcept {
        return static_cast<std::uint64_t>((static_cast<detail::uint128>((*this)()) * count) >> 64);
    }

    static constexpr std::uint64_t min() noexcept { return 0; }
    static constexpr std::uint64_t max() noexcept { return ~std::uint64_t{0}; }

private:
    static constexpr std::uint64_t split_mix(std::uint64_t& counter) noexcept {
        counter += 0x9e3779b97f4a7c15u;
        std::uint64_t z = counter;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    std::array<std::uint64_t, 4> state_{};
};

/// A seed nobody chose, short enough to be read and typed: 32 bits of the system's entropy, of the clock where there is none.
[[nodiscard]] inline std::uint64_t random_seed() noexcept {
    try {
        return std::random_device{}();
    } catch (const std::exception&) {
        auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        return generator{now}() >> 32;
    }
}

}  // namespace colibri::sampling

// ---- colibri/sampling/selection.hpp

// Steps that choose one of the candidates: greedy, draw, mirostat.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>


namespace colibri::sampling {

/// Chooses the best candidate (of equal ones that with the lowest id).
struct greedy {
    void operator()(candidates& c) const {
        c.keep_best(1);
        if (!c.empty()) c.choose(0);
    }
};

namespace detail {

/// Index of a candidate drawn by weight. There must be one.
[[nodiscard]] inline std::size_t draw_index(candidates& c, generator& random) {
    if (!c.canonical_order()) c.sort();
    const float best = c.best();
    const std::uint64_t target = random.below(c.total_weight());
    std::uint64_t reached = 0;
    std::size_t index = 0;
    for (const auto& one : c) {
        reached += weight(best, one.logit);
        if (reached > target) break;
        ++index;
    }
    return index;
}

/// Surprise of a candidate in bits: -log2 of its probability.
[[nodiscard]] inline double surprise(candidates& c, float logit) {
    constexpr double unit = static_cast<double>(full_weight);
    const double below_best = static_cast<double>(distance(c.best(), logit)) / unit;
    return below_best + math::log(static_cast<double>(c.total_weight()) / unit) / std::numbers::ln2;
}

}  // namespace detail

/// Chooses by chance, each candidate with its probability.
class draw {
public:
    explicit draw(std::uint64_t seed) : seed_(seed), random_(seed) {}

    void operator()(candidates& c) {
        if (!c.empty()) c.choose(detail::draw_index(c, random_));
    }
    void reset() { random_ = generator(seed_); }

private:
    std::uint64_t seed_;
    generator random_;
};

/// Chooses by chance among as many of the best candidates as keep the text's mean surprise near `tau` bits: Mirostat (Basu et
/// al. 2021), algorithm 1, which fits a Zipf exponent to the best 100. `eta` is the learning rate.
class mirostat {
public:
    mirostat(float tau, float eta, std::uint64_t seed) : tau_(tau), eta_(eta), seed_(seed), random_(seed) { reset(); }

    void operator()(candidates& c);
    void reset() {
        random_ = generator(seed_);
        limit_ = 2.0f * tau_;
    }

private:
    [[nodiscard]] std::size_t count(candidates& c) const;

    float tau_;
    float eta_;
    float limit_ = 0.0f;  ///< the paper's mu
    std::uint64_t seed_;
    generator random_;
};

/// Mirostat, algorithm 2: candidates with a surprise above the running limit are left out.
class mirostat_v2 {
public:
    mirostat_v2(float tau, float eta, std::uint64_t seed) : tau_(tau), eta_(eta), seed_(seed), random_(seed) { reset(); }

    void operator()(candidates& c);
    void reset() {
        random_ = generator(seed_);
        limit_ = 2.0f * tau_;
    }

private:
    float tau_;
    float eta_;
    float limit_ = 0.0f;
    std::uint64_t seed_;
    generator random_;
};

namespace detail {

/// Draws one and moves the limit by the learning rate times how far its surprise was off.
inline void draw_and_learn(candidates& c, generator& random, float& limit, float tau, float eta) {
    const std::size_t index = draw_index(c, random);
    c.choose(index);
    const auto off = static_cast<float>(surprise(c, c.choice().logit) - static_cast<double>(tau));
    const auto change = static_cast<float>(static_cast<double>(eta) * static_cast<double>(off));
    limit -= change;
}

}  // namespace detail

inline std::size_t mirostat::count(candidates& c) const {
    constexpr std::size_t fitted = 100;
    c.sort_front(fitted);
    // Exponent s of p ~ rank^-s by least squares over ratios of neighbours. Float factors: exact products, fused or not.
    double products = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i + 1 < std::min(fitted, c.size()); ++i) {
        const auto ranks = static_cast<float>(math::log(static_cast<double>(i + 2) / static_cast<double>(i + 1)));
        const float ratio = c[i].logit - c[i + 1].logit;
        products += static_cast<double>(ranks) * static_cast<double>(ratio);
        squares += static_cast<double>(ranks) * static_cast<double>(ranks);
    }
    if (!(squares > 0.0)) return 1;
    const double s = std::max(products / squares, 1e-3);  // all logits equal: 0, and 1/s must exist
    const double excess = s - 1.0;
    const double size = math::log(static_cast<double>(std::max<std::size_t>(c.vocabulary(), 2)));
    // log of (excess 2^mu / (1 - N^-excess)); the quotient goes to 2^mu / ln N where the exponent is 1.
    const double shrunk = std::abs(excess) < 1e-6 ? 1.0 / size : excess / (1.0 - math::exp(-excess * size));
    const auto limit = static_cast<float>(static_cast<double>(limit_) * std::numbers::ln2);  // rounded: can't be fused
    const double wanted = math::exp((static_cast<double>(limit) + math::log(shrunk)) / s);
    if (!(wanted > 1.0)) return 1;
    return wanted < static_cast<double>(c.size()) ? static_cast<std::size_t>(wanted) : c.size();
}

inline void mirostat::operator()(candidates& c) {
    if (c.empty()) return;
    c.keep_best(count(c));
    detail::draw_and_learn(c, random_, limit_, tau_, eta_);
}

inline void mirostat_v2::operator()(candidates& c) {
    if (c.empty()) return;
    // Surprise grows by the distance from the best candidate, so the limit is a distance; the best one always stays.
    const double room = static_cast<double>(limit_) - detail::surprise(c, c.best());
    const float best = c.best();
    constexpr double unit = static_cast<double>(detail::full_weight);
    c.keep_if([&](const candidate& one) {
        return one.logit == best || static_cast<double>(detail::distance(best, one.logit)) / unit <= room;
    });
    detail::draw_and_learn(c, random_, limit_, tau_, eta_);
}

}  // namespace colibri::sampling

// ---- colibri/sampling/temperature.hpp

// Steps that flatten or sharpen the distribution.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>


namespace colibri::sampling {

/// Divides all logits by t; t <= 0 keeps the best candidate only.
struct temperature {
    float t = 0.8f;

    void operator()(candidates& c) const {
        if (!(t > 0.0f)) return c.keep_best(1);
        if (t == 1.0f) return;
        c.change_all([this](float logit) { return std::clamp(logit / t, -largest_logit, largest_logit); });
    }
};

/// Temperature between t - range and t + range, higher where the model is less sure: the entropy as a fraction of the
/// possible one, raised to `exponent`. range <= 0 is plain temperature.
struct dynamic_temperature {
    float t = 0.8f;
    float range = 0.0f;
    float exponent = 1.0f;

    void operator()(candidates& c) const;
};

namespace detail {

/// Entropy of the candidates in bits.
[[nodiscard]] inline double entropy(candidates& c) {
    const float best = c.best();
    uint128 sum = 0;
    for (const auto& one : c) {
        const std::uint64_t distance = detail::distance(best, one.logit);
        sum += static_cast<uint128>(weight_at(distance)) * distance;
    }
    const std::uint64_t total = c.total_weight();
    constexpr double unit = static_cast<double>(full_weight);
    const double mean = static_cast<double>(static_cast<std::uint64_t>(sum / total)) / unit;
    const double spread = math::log(static_cast<double>(total) / unit) / std::numbers::ln2;
    return mean + spread;
}

}  // namespace detail

inline void dynamic_temperature::operator()(candidates& c) const {
    if (!(range > 0.0f)) return temperature{t}(c);
    if (c.size() <= 1) return;
    const double possible = math::log(static_cast<double>(c.size())) / std::numbers::ln2;
    const double fraction = std::max(detail::entropy(c), 0.0) / possible;
    const float low = std::max(0.0f, t - range);
    const float high = t + range;
    const double power = fraction > 0.0 ? math::pow(fraction, static_cast<double>(exponent)) : (exponent == 0.0f ? 1.0 : 0.0);
    const auto above = static_cast<float>(static_cast<double>(high - low) * power);  // rounded, so that it can't be fused
    temperature{low + above}(c);
}

}  // namespace colibri::sampling

// ---- colibri/sampling/truncation.hpp

// Steps that remove candidates: top-k, top-p, min-p, typical, top-n-sigma, XTC.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>


namespace colibri::sampling {

// All of these leave at least one candidate where there was one. `min_keep` is the least number that stays, if there are so
// many. What is compared with a probability is exact (see weight.hpp), so the same tokens stay on every machine.

/// Keeps the k most probable; k <= 0 keeps all.
struct top_k {
    std::int32_t k = 40;

    void operator()(candidates& c) const {
        if (k > 0) c.keep_best(static_cast<std::size_t>(k));
    }
};

/// Keeps the shortest run of most probable tokens that together reach probability p (nucleus sampling, Holtzman et al. 2020).
struct top_p {
    float p = 0.95f;
    std::size_t min_keep = 1;

    void operator()(candidates& c) const;
};

/// Keeps tokens at least p times as probable as the best one (Nguyen et al. 2024).
struct min_p {
    float p = 0.05f;
    std::size_t min_keep = 1;

    void operator()(candidates& c) const;
};

/// Keeps the tokens whose surprise is nearest to the expected one until they have probability p (locally typical sampling,
/// Meister et al. 2023).
class typical {
public:
    float p = 0.95f;
    std::size_t min_keep = 1;

    explicit typical(float p_in, std::size_t min_keep_in = 1) : p(p_in), min_keep(min_keep_in) {}
    void operator()(candidates& c);

private:
    struct entry {
        std::uint64_t gap;  ///< distance from the expected surprise, units of 2^-40 bit
        token_id id;
        std::uint64_t weight;
    };
    std::vector<entry> order_;
};

/// Keeps tokens whose logit is within n standard deviations of all logits from the best (Tang et al. 2024); n <= 0 keeps all.
struct top_n_sigma {
    float n = 1.0f;

    void operator()(candidates& c) const;
};

/// "Exclude top choices": with the given probability, of all tokens of at least `threshold` only the least probable stays.
/// Thresholds above 0.5 do nothing. Draws from its own stream of the seed.
class xtc {
public:
    float probability = 0.5f;
    float threshold = 0.1f;
    std::size_t min_keep = 1;

    xtc(float probability_in, float threshold_in, std::size_t min_keep_in = 1, std::uint64_t seed = 0)
        : probability(probability_in), threshold(threshold_in), min_keep(min_keep_in), seed_(seed), random_(seed, stream) {}

    void operator()(candidates& c);
    void reset() { random_ = generator(seed_, stream); }

private:
    static constexpr std::uint64_t stream = 1;
    std::uint64_t seed_;
    generator random_;
};

namespace detail {

/// The part of `total` that probability p is, p limited to 0..1.
[[nodiscard]] inline std::uint64_t part_of(std::uint64_t total, float p) {
    if (!(p > 0.0f)) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(std::min(p, 1.0f)) * static_cast<double>(total));
}

}  // namespace detail

inline void top_p::operator()(candidates& c) const {
    if (p >= 1.0f || c.empty()) return;
    const std::uint64_t wanted = detail::part_of(c.total_weight(), p);
    const float best = c.best();
    std::uint64_t reached = 0;
    std::size_t kept = 0;
    // The nucleus is small as a rule: sort ever longer prefixes instead of everything.
    for (std::size_t sorted = 256; kept < c.size(); sorted *= 4) {
        c.sort_front(sorted);
        for (const std::size_t end = std::min(sorted, c.size()); kept < end;) {
            reached += detail::weight(best, c[kept].logit);
            ++kept;
            if (reached >= wanted && kept >= min_keep) return c.keep_best(kept);
        }
    }
}

inline void min_p::operator()(candidates& c) const {
    if (!(p > 0.0f) || c.empty()) return;
    // Rounded to float before it is added, so that it can't be fused.
    const auto below = static_cast<float>(math::log(static_cast<double>(std::min(p, 1.0f))));
    const float least = c.best() + below;
    if (min_keep > 1) {
        c.sort_front(min_keep);
        if (c.size() <= min_keep) return;
        if (c[min_keep - 1].logit < least) return c.keep_best(min_keep);
    }
    c.keep_at_least(least);
}

inline void typical::operator()(candidates& c) {
    if (p >= 1.0f || c.empty()) return;
    // The surprise of a token is its distance from the best plus the same constant for all, which cancels.
    const float best = c.best();
    const std::uint64_t total = c.total_weight();
    detail::uint128 sum = 0;
    order_.clear();
    for (const auto& one : c) {
        const std::uint64_t distance = detail::distance(best, one.logit);
        const std::uint64_t weight = detail::weight_at(distance);
        sum += static_cast<detail::uint128>(weight) * distance;
        order_.push_back({distance, one.id, weight});
    }
    const auto expected = static_cast<std::uint64_t>(sum / total);
    for (auto& one : order_) one.gap = one.gap > expected ? one.gap - expected : expected - one.gap;
    const auto nearer = [](const entry& a, const entry& b) { return a.gap != b.gap ? a.gap < b.gap : a.id < b.id; };
    std::sort(order_.begin(), order_.end(), nearer);
    const std::uint64_t wanted = detail::part_of(total, p);
    std::uint64_t reached = 0;
    std::size_t kept = 0;
    while (kept < order_.size() && (reached <= wanted || kept < min_keep)) reached += order_[kept++].weight;
    if (kept == order_.size()) return;
    const entry last = order_[kept - 1];
    c.keep_if([&](const candidate& one) {
        const std::uint64_t distance = detail::distance(best, one.logit);
        const std::uint64_t gap = distance > expected ? distance - expected : expected - distance;
        return !nearer(last, {gap, one.id, 0});
    });
}

inline void top_n_sigma::operator()(candidates& c) const {
    if (!(n > 0.0f) || c.size() <= 1) return;
    const auto count = static_cast<double>(c.size());
    double sum = 0.0;
    for (const auto& one : c) sum += static_cast<double>(one.logit);
    const auto mean = static_cast<float>(sum / count);
    double squares = 0.0;
    for (const auto& one : c) {
        const auto off = static_cast<double>(one.logit - mean);
        squares += off * off;  // a product of two floats is exact in double, fused or not
    }
    const auto deviation = static_cast<float>(std::sqrt(squares / count));
    const float allowed = n * deviation;
    const double least = static_cast<double>(c.best()) - static_cast<double>(allowed);
    c.keep_if([least](const candidate& one) { return static_cast<double>(one.logit) >= least; });
}

inline void xtc::operator()(candidates& c) {
    if (!(probability > 0.0f) || !(threshold <= 0.5f) || c.size() < 2) return;
    if (random_.uniform() >= static_cast<double>(probability)) return;
    const auto wanted = static_cast<double>(threshold) * static_cast<double>(c.total_weight());
    const float best = c.best();
    std::size_t reaching = 0;
    for (std::size_t sorted = 64; reaching < c.size(); sorted *= 4) {
        c.sort_front(sorted);
        const std::size_t end = std::min(sorted, c.size());
        while (reaching < end && static_cast<double>(detail::weight(best, c[reaching].logit)) >= wanted) ++reaching;
        if (reaching < end) break;
    }
    if (reaching >= 2 && c.size() - (reaching - 1) >= min_keep) c.drop_front(reaching - 1);
}

}  // namespace colibri::sampling

// ---- colibri/sampling/chain.hpp

// Steps one behind the other: composed by `|` while compiling, or as a list at run time.
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>


namespace colibri::sampling {

/// Anything that changes, removes or chooses candidates: a call with them that returns nothing. A step that needs to know the
/// text also has `accept(token_id)`; one with a state has `reset()`, which brings it back to the start.
template <class T>
concept step = requires(std::remove_reference_t<T>& s, candidates& c) {
    { s(c) } -> std::same_as<void>;
};

/// Tells a step that the text goes on with `token`, if it wants to know.
template <step Step>
void accept(Step& s, token_id token) {
    if constexpr (requires { s.accept(token); }) s.accept(token);
}

/// Brings a step back to the start, if it has a state.
template <step Step>
void reset(Step& s) {
    if constexpr (requires { s.reset(); }) s.reset();
}

/// Steps known at compile time, itself a step. Made by `|`: `auto chain = top_k{40} | top_p{0.95f} | draw{seed};`
template <step... Steps>
class chain {
public:
    explicit constexpr chain(std::tuple<Steps...> steps) : steps_(std::move(steps)) {}

    void operator()(candidates& c) {
        std::apply([&](auto&... s) { (s(c), ...); }, steps_);
    }
    void accept(token_id token) {
        std::apply([&](auto&... s) { (sampling::accept(s, token), ...); }, steps_);
    }
    void reset() {
        std::apply([](auto&... s) { (sampling::reset(s), ...); }, steps_);
    }
    [[nodiscard]] constexpr std::tuple<Steps...>&& release() && { return std::move(steps_); }

private:
    std::tuple<Steps...> steps_;
};

namespace detail {

template <step... Steps>
constexpr std::tuple<Steps...> steps_of(chain<Steps...> c) {
    return std::move(c).release();
}
template <step Step>
constexpr std::tuple<Step> steps_of(Step s) {
    return std::tuple<Step>(std::move(s));
}

template <step... Steps>
constexpr chain<Steps...> chain_of(std::tuple<Steps...> steps) {
    return chain<Steps...>(std::move(steps));
}

}  // namespace detail

/// The first step, then the second.
template <class First, class Second>
    requires step<First> && step<Second> && (!std::same_as<std::remove_cvref_t<First>, candidates>)
constexpr auto operator|(First&& first, Second&& second) {
    return detail::chain_of(std::tuple_cat(detail::steps_of<>(std::remove_cvref_t<First>(std::forward<First>(first))),
                                           detail::steps_of<>(std::remove_cvref_t<Second>(std::forward<Second>(second)))));
}

/// Runs a step, or a chain of them, on candidates: `candidates | top_k{40} | temperature{0.7f}`.
template <step Step>
candidates& operator|(candidates& c, Step&& s) {
    s(c);
    return c;
}

/// One of our own steps, which one is known at run time.
using any_step = std::variant<logit_bias, penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature,
                              dynamic_temperature, greedy, draw, mirostat, mirostat_v2>;

/// Steps known at run time, in order; itself a step.
class step_list {
public:
    step_list() = default;

    void add(any_step s) { steps_.push_back(std::move(s)); }
    [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
    [[nodiscard]] const any_step& operator[](std::size_t index) const { return steps_[index]; }

    void operator()(candidates& c) {
        for (auto& one : steps_) std::visit([&](auto& s) { s(c); }, one);
    }
    void accept(token_id token) {
        for (auto& one : steps_) std::visit([&](auto& s) { sampling::accept(s, token); }, one);
    }
    void reset() {
        for (auto& one : steps_) std::visit([](auto& s) { sampling::reset(s); }, one);
    }

private:
    std::vector<any_step> steps_;
};

}  // namespace colibri::sampling

// ---- colibri/colibri.hpp

// All of Colibri's public headers, layer by layer; scripts/amalgamate.py keeps this list.

#endif
