// Talks with a person or a script: reads messages and commands, answers, until the end of input.
#pragma once

#include <optional>
#include <string>

#include "repl/engine.hpp"
#include "repl/exit_code.hpp"
#include "repl/history.hpp"
#include "repl/output.hpp"
#include "repl/repl_commands.hpp"
#include "repl/repl_input.hpp"

namespace colibri::repl {

class repl {
public:
    repl(engine& e, options given, output& out);

    /// Answers `first`, if there is one, then what comes from standard input. With a terminal the result is ok unless
    /// output failed; with a pipe it is that of the first thing that went wrong.
    [[nodiscard]] exit_code run(const std::optional<std::string>& first);

private:
    [[nodiscard]] exit_code read_terminal(int drawing_fd);
    [[nodiscard]] exit_code read_lines();
    void attach_history();

    /// One message or command; false: leave. `stopped`: Ctrl-C came already.
    [[nodiscard]] bool handle(const repl_input& input, bool stopped = false);
    [[nodiscard]] bool command(const repl_input& input);
    void turn(const std::string& text, bool stopped = false);
    void report(const answer& said);
    void went_wrong(exit_code code);
    [[nodiscard]] bool finished() const noexcept { return out_.closed() || out_.write_failed(); }

    void set(std::string_view argument);
    void set_to(std::string_view name, std::string_view value);
    void show(std::string_view topic);
    void show_settings();
    void system(std::string_view text);
    void undo();
    void retry();
    void save(std::string_view name);
    void load(std::string_view name);
    void set_history(std::string_view value);

    engine& engine_;
    options given_;
    output& out_;
    history past_;
    exit_code worst_ = exit_code::ok;  ///< of the first thing that went wrong
    bool interactive_ = false;
    bool answered_ = false;     ///< an answer has been given
    bool has_figures_ = false;  ///< and it is still part of the conversation
};

}  // namespace colibri::repl
