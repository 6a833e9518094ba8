// Standard output carries answers, standard error everything else.
#pragma once

#include <string>
#include <string_view>

#include "repl/terminal.hpp"

namespace colibri::repl {

/// Both streams. Nothing is buffered: what was written is seen, also if the process is killed.
class output {
public:
    explicit output(color_choice choice);

    /// Part of an answer, to standard output; in a terminal its control characters are made visible. False when nobody
    /// reads it any more or it can't be written (see `write_failed`): then the work should end.
    bool answer(std::string_view text);

    /// Text of ours to standard output, as it is.
    bool print(std::string_view text);

    /// Makes the next thing on standard output start a line.
    void end_line();

    /// One message on standard error, on a line of its own.
    void say(std::string_view line);
    /// The same in the style of remarks (dim), warnings or errors; an error begins with "colibri: ".
    void remark(std::string_view line);
    void warn(std::string_view line);
    void fail(std::string_view line);

    /// Asks for input, to standard error; the cursor stays behind it.
    void prompt(std::string_view text);

    /// A line that the next one replaces; only in a terminal that can move its cursor.
    void progress(std::string_view line);
    void clear_progress();

    [[nodiscard]] bool out_is_terminal() const noexcept { return out_terminal_; }
    [[nodiscard]] bool err_is_terminal() const noexcept { return err_terminal_; }
    [[nodiscard]] bool color_out() const noexcept { return color_out_; }
    [[nodiscard]] bool color_err() const noexcept { return color_err_; }

    /// Whether the reader of standard output has gone away, which is no error.
    [[nodiscard]] bool closed() const noexcept { return closed_; }
    /// Whether standard output couldn't be written (disk full). Said on standard error when it happened.
    [[nodiscard]] bool write_failed() const noexcept { return failed_; }

private:
    void styled(std::string_view style, std::string_view line);

    bool out_terminal_, err_terminal_, color_out_, color_err_;
    bool out_line_open_ = false;  ///< the last byte to standard output was not a line end
    bool progress_shown_ = false;
    bool closed_ = false;
    bool failed_ = false;
};

}  // namespace colibri::repl
