// Text that remembers which bytes came from the template and which from somebody's data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

/// Where bytes come from. Only trusted bytes may become control tokens.
enum class origin : std::uint8_t {
    untrusted,  ///< typed by a user, made by a model or a tool
    trusted,    ///< written in the template, or handed in by the program as trusted
};

/// Bytes [begin, end) of one origin.
struct text_run {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool trusted = false;
    [[nodiscard]] bool operator==(const text_run&) const = default;
};

/// Text and its runs: in order, without gaps, never empty, neighbours of different origin.
struct marked_text {
    std::string text;
    std::vector<text_run> runs;

    /// All of `text` with one origin.
    [[nodiscard]] static marked_text of(std::string text, origin from) {
        marked_text out{std::move(text), {}};
        if (!out.text.empty()) out.runs.push_back({0, out.text.size(), from == origin::trusted});
        return out;
    }

    /// Appends `more`; joins it to the last run if that has the same origin.
    void append(std::string_view more, origin from) {
        if (more.empty()) return;
        const bool trusted = from == origin::trusted;
        const std::size_t begin = text.size();
        text += more;
        if (!runs.empty() && runs.back().trusted == trusted) runs.back().end = text.size();
        else runs.push_back({begin, text.size(), trusted});
    }

    /// Cuts everything from byte `size` on; nothing happens if the text is shorter.
    void resize(std::size_t size) {
        if (size >= text.size()) return;
        text.resize(size);
        while (!runs.empty() && runs.back().begin >= size) runs.pop_back();
        if (!runs.empty()) runs.back().end = size;
    }
};

}  // namespace colibri
