// Lines from standard input, without an editor.
#pragma once

#include <optional>
#include <string>

#include "colibri/core/error.hpp"

namespace colibri::repl {

/// Reads lines from a descriptor as they come. A byte-order mark at the start and '\r' in front of a line end are left
/// out, ill-formed UTF-8 becomes U+FFFD; the last line needs no line end.
class line_source {
public:
    explicit line_source(int fd) noexcept : fd_(fd) {}

    enum class status { line, end, interrupted };
    struct next_line {
        status how = status::end;
        std::string text = {};
    };

    /// Waits for the next line. `interrupted` only inside noticed_interrupts. Errors: io.
    [[nodiscard]] result<next_line> next();

private:
    int fd_;
    std::string bytes_;
    bool at_start_ = true;
    bool at_end_ = false;
};

}  // namespace colibri::repl
