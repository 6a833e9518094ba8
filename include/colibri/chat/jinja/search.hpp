// Finding text in text, with the work counted: the library's own search may take the product of both lengths.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "colibri/chat/jinja/meter.hpp"

namespace colibri::jinja::detail {

/// True if `part` stands in `text` at `at`. The rest of a long part is looked at, and counted, only if its beginning fits.
[[nodiscard]] inline bool stands_at(meter& m, std::string_view text, std::string_view part, std::size_t at) {
    constexpr std::size_t head = 32;
    if (text.substr(at, std::min(head, part.size())) != part.substr(0, head)) return false;
    if (part.size() <= head) return true;
    m.touch(part.size());
    return text.substr(at + head, part.size() - head) == part.substr(head);
}

/// First offset from `from` on at which `part` stands in `text`, or npos. Counts the bytes passed.
[[nodiscard]] inline std::size_t find_bytes(meter& m, std::string_view text, std::string_view part, std::size_t from = 0) {
    if (part.empty()) return from <= text.size() ? from : text.npos;
    for (std::size_t at = from; part.size() <= text.size() && at <= text.size() - part.size(); ++at) {
        const std::size_t next = text.find(part.front(), at);
        m.touch(std::min(next, text.size()) - at);
        if (next == text.npos || next > text.size() - part.size()) return text.npos;
        at = next;
        if (stands_at(m, text, part, at)) return at;
        if (at % 4 == 0) m.step();
    }
    return text.npos;
}

/// Last offset, at most `most`, at which `part` stands in `text`, or npos. Counts the bytes passed.
[[nodiscard]] inline std::size_t rfind_bytes(meter& m, std::string_view text, std::string_view part,
                                             std::size_t most = std::string_view::npos) {
    if (part.size() > text.size()) return text.npos;
    for (std::size_t at = std::min(most, text.size() - part.size());; --at) {
        if (stands_at(m, text, part, at)) return at;
        if (at % 4 == 0) m.step();
        if (at == 0) return text.npos;
    }
}

}  // namespace colibri::jinja::detail
