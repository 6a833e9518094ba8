// Limits on what a template may use, and the counters that keep them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "colibri/chat/jinja/failure.hpp"

namespace colibri::jinja {

/// What one template may use. The defaults stop a hostile template within a second and about 64 MiB, and are far above what
/// published templates need: 100 messages take 4,000 to 60,000 steps, and the two templates that look at all messages for each
/// message 8 and 16 million for 2,000 of them.
struct limits {
    std::uint64_t steps = 5'000'000;            ///< evaluated nodes; large values cost more (see meter::touch)
    std::uint64_t steps_per_value = 4'000;      ///< so many more for each string, number, list, ... in the variables
    std::uint32_t parse_depth = 200;            ///< nested blocks and expressions in the source
    std::uint32_t depth = 400;                  ///< nested evaluations (macros, values inside values) while it runs
    std::uint32_t value_depth = 100;            ///< lists in lists in lists
    std::size_t source = std::size_t{1} << 18;  ///< bytes of the template
    std::size_t memory = std::size_t{32} << 20; ///< bytes of values that exist at one time, about
    std::size_t output = std::size_t{16} << 20; ///< bytes of the rendered text
    std::uint32_t range = 100'000;              ///< items of one range()
};

namespace detail {

/// Counts steps, bytes and depth of one run. Not thread-safe; one per run.
class meter {
public:
    explicit meter(const limits& allowed) noexcept : allowed_(allowed) {}
    meter(const meter&) = delete;
    meter& operator=(const meter&) = delete;

    [[nodiscard]] const limits& allowed() const noexcept { return allowed_; }

    /// Counts `n` steps. Stops with failure_kind::limit.
    void step(std::uint64_t n = 1) {
        steps_ += n;
        if (steps_ > allowed_.steps || n > allowed_.steps) fail_limit("it needs more than ", allowed_.steps, " steps");
    }
    /// Counts the work of copying or searching `bytes`: 64 bytes, with the page faults of large texts, take about as long as
    /// one step.
    void touch(std::size_t bytes) { step(bytes / 64); }
    /// Counts work of some nanoseconds per byte (looking at each character).
    void touch_slowly(std::size_t bytes) { step(bytes / 16); }
    /// Counts work of some ten nanoseconds per byte (changing each character).
    void touch_each(std::size_t bytes) { step(bytes / 4); }

    /// Stops if `bytes` more would not fit. A bound for what is being made; `charge` counts what stays.
    void need(std::size_t bytes) const {
        if (bytes > allowed_.memory || live_ > allowed_.memory - bytes) {
            fail_limit("its values need more than ", allowed_.memory, " bytes");
        }
    }
    void charge(std::size_t bytes) {
        need(bytes);
        live_ += bytes;
    }
    void release(std::size_t bytes) noexcept { live_ -= bytes; }

    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
    [[nodiscard]] std::size_t live() const noexcept { return live_; }

private:
    friend class nesting;
    limits allowed_;
    std::uint64_t steps_ = 0;
    std::size_t live_ = 0;
    std::uint32_t depth_ = 0;
};

/// One level of nested evaluation for the time of a scope.
class nesting {
public:
    explicit nesting(meter& m) : meter_(m) {
        if (m.depth_ >= m.allowed_.depth) fail_limit("it nests deeper than ", m.allowed_.depth, " levels");
        ++m.depth_;
    }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;
    ~nesting() { --meter_.depth_; }

private:
    meter& meter_;
};

/// Bytes counted by a meter for as long as this lives; the meter must outlive it. Values made by a caller have none.
class memory_charge {
public:
    memory_charge() = default;
    memory_charge(meter& owner, std::size_t bytes) : owner_(&owner), bytes_(bytes) { owner.charge(bytes); }
    memory_charge(memory_charge&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), bytes_(other.bytes_) {}
    memory_charge& operator=(memory_charge&& other) noexcept {
        if (this != &other) {
            if (owner_ != nullptr) owner_->release(bytes_);
            owner_ = std::exchange(other.owner_, nullptr);
            bytes_ = other.bytes_;
        }
        return *this;
    }
    ~memory_charge() {
        if (owner_ != nullptr) owner_->release(bytes_);
    }

private:
    meter* owner_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace detail
}  // namespace colibri::jinja
