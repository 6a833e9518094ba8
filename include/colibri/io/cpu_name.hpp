// What the processor calls itself.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "colibri/core/escape.hpp"
#include "colibri/io/system_text.hpp"

namespace colibri {

/// The processor's name from /proc/cpuinfo below `root`, escaped for a terminal; empty if it has none there.
[[nodiscard]] inline std::string cpu_name(const std::filesystem::path& root = "/") {
    const auto text = detail::read_system_text(root / "proc/cpuinfo");
    if (!text) return {};
    for (const std::string_view key : {"model name", "Model", "Hardware"}) {  // x86; single-board computers; old ARM kernels
        for (const std::string_view line : detail::pieces_of(*text, '\n')) {
            const auto colon = line.find(':');
            if (colon == std::string_view::npos) continue;
            const auto name = line.substr(0, colon);
            if (name.substr(0, name.find_last_not_of(" \t") + 1) != key) continue;
            const auto begin = line.find_first_not_of(" \t", colon + 1);
            if (begin != std::string_view::npos) return escaped(line.substr(begin));
        }
    }
    return {};
}

}  // namespace colibri
