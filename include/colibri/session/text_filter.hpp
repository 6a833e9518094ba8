// Turns the bytes of generated tokens into text that can be shown at once.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/text/utf8.hpp"

namespace colibri {

/// Collects bytes and gives them out as soon as it is certain that they are whole UTF-8 characters and not the start of a stop
/// string. Bytes that can't become UTF-8 any more pass unchanged.
class text_filter {
public:
    /// `stops`: texts that end the answer and are not part of it; empty ones are ignored.
    explicit text_filter(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {
        std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
    }

    /// Adds bytes of one token; returns what can be shown now (often nothing). Once a stop string was found (see `stopped`),
    /// returns the rest before it, then nothing.
    [[nodiscard]] std::string push(std::string_view bytes) {
        if (stopped_) return {};
        held_ += bytes;
        std::size_t at = std::string::npos;
        for (const auto& stop : stops_) {
            const auto found = held_.find(stop);
            if (found < at) {
                at = found;
                stop_ = stop;
            }
        }
        if (at != std::string::npos) {
            stopped_ = true;
            held_.resize(at);
            return std::exchange(held_, {});
        }
        std::size_t keep = text::incomplete_tail(held_);
        for (const auto& stop : stops_) {
            for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
                if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) {
                    keep = n;
                    break;
                }
            }
        }
        std::string out = held_.substr(0, held_.size() - keep);
        held_.erase(0, out.size());
        return out;
    }

    /// What is still held when the answer ends for another reason.
    [[nodiscard]] std::string flush() { return std::exchange(held_, {}); }

    [[nodiscard]] bool stopped() const noexcept { return stopped_; }
    /// The stop string that was found.
    [[nodiscard]] const std::string& stop() const noexcept { return stop_; }

private:
    std::vector<std::string> stops_;
    std::string held_;
    std::string stop_;
    bool stopped_ = false;
};

}  // namespace colibri
