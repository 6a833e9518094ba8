// Which experts of a mixture were needed, as written down while it ran, and what a cache of another size would have missed.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/weights/cache_policy.hpp"

namespace colibri::weights {

/// Experts that one layer needed in one step: a token, or several that were computed together.
struct heat_line {
    std::uint64_t step = 0;
    std::uint32_t layer = 0;
    std::vector<std::uint32_t> experts;  ///< ascending, each once
};

namespace detail {

/// Takes a number off the front of `text`; false if none is there.
template <class Number>
[[nodiscard]] bool take_number(std::string_view& text, Number& out) noexcept {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (problem != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

[[nodiscard]] inline bool take(std::string_view& text, char c) noexcept {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
}

/// "step layer e1,e2,...": one or more experts, ascending.
[[nodiscard]] inline bool parse_heat_line(std::string_view text, heat_line& out) {
    if (!take_number(text, out.step) || !take(text, ' ') || !take_number(text, out.layer) || !take(text, ' ')) return false;
    out.experts.clear();
    do {
        std::uint32_t expert = 0;
        if (!take_number(text, expert) || (!out.experts.empty() && expert <= out.experts.back())) return false;
        out.experts.push_back(expert);
    } while (take(text, ','));
    return text.empty();
}

}  // namespace detail

/// Calls `each(line)` for the lines of a file that `expert_watch` and `--record-heat` make. Memory: one line.
/// Errors: io; bad_value with the line's number (not such a line, a layer or an expert that the model doesn't have, no line at all).
template <class Each>
[[nodiscard]] result<void> read_heat(const std::filesystem::path& path, std::uint32_t layers, std::uint32_t experts, Each&& each) {
    constexpr std::size_t longest = std::size_t{1} << 16;
    const auto shown = quoted(path.string());
    std::ifstream in(path);
    if (!in) return error{errc::io, concat("can't open ", shown, ": ", std::strerror(errno))};
    std::vector<char> room(longest);
    heat_line line;
    std::uint64_t number = 0;
    while (in.getline(room.data(), static_cast<std::streamsize>(room.size()))) {
        ++number;
        // What was taken includes the line's end, but for the last one's; a NUL is no end.
        const std::string_view text(room.data(), static_cast<std::size_t>(in.gcount()) - (in.eof() ? 0 : 1));
        if (!detail::parse_heat_line(text, line)) {
            return error{errc::bad_value, concat("line ", number, " of ", shown, " isn't 'step layer e1,e2,...' as --record-heat writes it")};
        }
        if (line.layer >= layers || line.experts.back() >= experts) {
            return error{errc::bad_value, concat("line ", number, " of ", shown, " names layer ", line.layer, ", expert ", line.experts.back(),
                                                 "; this model has ", layers, " layers of ", experts, " experts, so it was recorded with another")};
        }
        each(std::as_const(line));
    }
    if (in.bad()) return error{errc::io, concat("reading ", shown, " failed: ", std::strerror(errno))};
    if (!in.eof()) return error{errc::bad_value, concat("line ", number + 1, " of ", shown, " is longer than ", longest, " bytes")};
    if (number == 0) return error{errc::bad_value, concat(shown, " is empty, so nothing is known of the use of experts")};
    return {};
}

/// The newest lines of a recording, so many that a cache is warm after the first half of them.
class recent_heat {
public:
    /// `lines`: most to keep, at least 1.
    explicit recent_heat(std::size_t lines) : most_(lines) {}

    void operator()(const heat_line& line) {
        if (lines_.size() == most_) lines_.pop_front();
        lines_.push_back(line);
    }
    [[nodiscard]] const std::deque<heat_line>& lines() const noexcept { return lines_; }

private:
    std::size_t most_;
    std::deque<heat_line> lines_;
};

/// Misses and uses of experts.
struct replayed_uses {
    std::uint64_t uses = 0, misses = 0;

    [[nodiscard]] double miss_share() const noexcept {
        return uses == 0 ? 0.0 : static_cast<double>(misses) / static_cast<double>(uses);
    }
};

/// Where a layer's experts are among the units of a cache.
struct cached_layer {
    std::uint32_t layer = 0;
    std::size_t cache = 0, first_unit = 0;
};
/// Size of a cache in experts.
struct cache_size {
    std::size_t units = 0, slots = 0;
};

/// What caches as `expert_cache` has them would miss in the second half of `lines`, each step of which that needs more than `most` experts
/// in a layer (a prompt's) warms them without being counted. By cache.
[[nodiscard]] inline std::vector<replayed_uses> replay_heat(const std::deque<heat_line>& lines, std::span<const cached_layer> layers,
                                                            std::span<const cache_size> sizes, std::size_t most) {
    struct replayed {
        cache_policy policy;
        simulated_cache held;
    };
    std::vector<replayed> caches;
    for (const auto& size : sizes) caches.push_back({cache_policy(size.units, size.slots), simulated_cache(size.units, size.slots)});
    std::vector<replayed_uses> out(sizes.size());
    std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto& line = lines[i];
        const auto at = std::find_if(layers.begin(), layers.end(), [&](const cached_layer& l) { return l.layer == line.layer; });
        if (at == layers.end()) continue;
        if (line.step != step) {
            for (auto& cache : caches) cache.policy.tick();
        }
        step = line.step;
        auto& cache = caches[at->cache];
        const bool counted = i >= lines.size() / 2 && line.experts.size() <= most;
        for (const auto expert : line.experts) {
            const std::size_t unit = at->first_unit + expert;
            cache.policy.use(unit);
            const bool missed = cache.held.use(unit, [&](std::size_t u) { return cache.policy.rank(u); });
            if (counted) out[at->cache].uses += 1, out[at->cache].misses += missed ? 1 : 0;
        }
    }
    return out;
}

}  // namespace colibri::weights
