// Standard error: a progress bar in a terminal, lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::quantize_program {

/// Writes to a descriptor, all of it; false if nobody reads or it can't be written.
bool write_all(int descriptor, std::string_view text);

/// "98.2 MiB".
[[nodiscard]] std::string bytes_text(double bytes);
/// "1:05", "2:03:00".
[[nodiscard]] std::string time_text(double seconds);
/// With `digits` behind the point, whatever the locale.
[[nodiscard]] std::string fixed(double number, int digits);

class screen {
public:
    screen();

    /// One line; the bar, if there is one, comes again behind it.
    void say(std::string_view line);
    /// The bar, at most ten times a second. `unit` says whether done and total are bytes.
    void progress(std::string_view what, std::uint64_t done, std::uint64_t total, bool are_bytes);
    void clear();
    [[nodiscard]] bool has_bar() const noexcept { return has_bar_; }

private:
    using clock = std::chrono::steady_clock;
    bool has_bar_;
    bool shown_ = false;
    std::string doing_;
    clock::time_point begin_, last_;
};

}  // namespace colibri::quantize_program
