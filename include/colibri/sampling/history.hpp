// The last tokens of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "colibri/sampling/candidates.hpp"

namespace colibri::sampling {

/// Remembers the newest `limit` tokens (all, without a limit) in a ring. Allocates while it grows to its limit, then no
/// more.
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
