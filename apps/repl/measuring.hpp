// What the commands share that run a model over a text and measure.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "colibri/eval/window_runner.hpp"
#include "repl/arguments.hpp"
#include "repl/exit_code.hpp"
#include "repl/output.hpp"

namespace colibri::repl {

/// Tokens of a window when -c isn't given.
inline constexpr std::uint32_t default_window = 512;

/// The bytes of the file of -f without one final line end; nothing if it can't be read, which is told then.
[[nodiscard]] std::optional<std::string> read_text_file(const std::string& path, output& out);

/// Whether `path` may be written: it isn't there, or --force is given and it is no part of the model; and its folder can be written to.
/// Tells why not; `ok` if it may.
[[nodiscard]] exit_code may_write(const std::string& path, const options& given, output& out);

/// Opens options::model for windows of `window` tokens. Errors are told; then there is none and `failed` says how.
[[nodiscard]] std::optional<model> open_for_windows(const options& given, std::uint32_t window, bool logits, session_options& use,
                                                    output& out, exit_code& failed);

/// Shows how far windows are, what is left, and a figure: a line that is replaced in a terminal, else a line every ten seconds.
class window_progress {
public:
    /// `begin`: windows that were done before.
    window_progress(output& out, std::size_t total, std::size_t begin = 0);
    void show(std::size_t done, std::string_view figure);
    [[nodiscard]] double seconds() const;

private:
    using clock = std::chrono::steady_clock;

    output& out_;
    std::size_t total_, begin_;
    clock::time_point start_ = clock::now();
    clock::time_point next_line_ = start_ + std::chrono::seconds(10);
};

/// The exit code of an error of a measurement, which is told.
[[nodiscard]] exit_code tell(const error& problem, output& out);

}  // namespace colibri::repl
