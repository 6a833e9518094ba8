// A small text file of figures, a line each, that are kept from one run to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "colibri/io/atomic_writer.hpp"
#include "colibri/io/system_text.hpp"

namespace colibri {

/// Lines that such a file has at most; the oldest go.
inline constexpr std::size_t most_kept_lines = 100;

/// Writes the lines of the file for which `keep(line)` holds, and `line` behind them, in place of what was there. Makes its folder if
/// need be. Of two programs that do this at once one may lose. Errors: those of atomic_writer.
template <class Keep>
[[nodiscard]] result<void> replace_line(const std::filesystem::path& file, Keep&& keep, std::string line) {
    std::error_code ignored;  // the writer says what is wrong with the folder
    std::filesystem::create_directories(file.parent_path(), ignored);
    std::vector<std::string> lines;
    const std::string text = detail::read_system_text(file).value_or("");
    for (const auto old : detail::pieces_of(text, '\n')) {
        if (keep(old)) lines.emplace_back(old);
    }
    lines.push_back(std::move(line));
    auto out = atomic_writer::create(file);
    if (!out) return std::move(out).error();
    for (std::size_t i = lines.size() - std::min(most_kept_lines, lines.size()); i < lines.size(); ++i) {
        if (auto ok = out->write(lines[i] + "\n"); !ok) return ok;
    }
    return out->commit();
}

}  // namespace colibri
