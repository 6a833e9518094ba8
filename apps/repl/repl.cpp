#include "repl/repl.hpp"

#include <unistd.h>

#include <cstdlib>

#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/answering.hpp"
#include "repl/display.hpp"
#include "repl/figures.hpp"
#include "repl/line_editor.hpp"
#include "repl/line_source.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view how_to_leave = "(Ctrl-D or /quit leaves)";
constexpr std::string_view make_larger = "; -c at the start makes the context larger";
constexpr std::string_view make_room =
    "; /undo forgets the last exchange, /clear all of them, and -c at the start makes the context larger";

bool history_wanted(const options& given) {
    const char* off = std::getenv("COLIBRI_NOHISTORY");
    return !given.no_history && !(off != nullptr && *off != '\0');
}

}  // namespace

repl::repl(engine& e, options given, output& out) : engine_(e), given_(std::move(given)), out_(out) {
    if (given_.system) engine_.set_conversation(given_.system, {});
}

exit_code repl::run(const std::optional<std::string>& first) {
    interactive_ = ::isatty(STDIN_FILENO) == 1;
    const int drawing_fd = moves_cursor(STDERR_FILENO) ? STDERR_FILENO : STDOUT_FILENO;
    const bool editing = interactive_ && moves_cursor(drawing_fd);
    greet(engine_, given_, out_, interactive_ ? " | /help lists the commands" : "");
    if (first) turn(*first);
    if (finished()) return out_.write_failed() ? exit_code::io : exit_code::ok;
    const exit_code code = editing ? read_terminal(drawing_fd) : read_lines();
    if (out_.write_failed()) return exit_code::io;
    if (code != exit_code::ok) return code;
    return interactive_ ? exit_code::ok : worst_;
}

void repl::attach_history() {
    const auto file = default_history_file();
    if (!file) return;
    if (auto ok = past_.attach(*file); !ok) out_.warn(concat("the history can't be read: ", ok.error().text()));
}

exit_code repl::read_terminal(int drawing_fd) {
    const noticed_interrupts guard;  // outside of answers; Ctrl-C may come a moment too early or too late for one
    if (history_wanted(given_)) attach_history();
    line_editor editor(drawing_fd, past_, is_open_block, complete_repl_input);
    prompt p{.color = drawing_fd == STDERR_FILENO ? out_.color_err() : out_.color_out()};
    while (!finished()) {
        p.placeholder = answered_ ? "" : "Write a message";
        const auto read = editor.read(p);
        if (read.how == read_end::end) break;
        if (read.how == read_end::interrupted) {
            out_.remark(how_to_leave);
            continue;
        }
        const auto input = parse_input(read.text, read.literal);
        if (input.kind == input_kind::empty) continue;
        // Literal text is remembered in a form that means the same when it comes back.
        const bool same = !read.literal || (parse_input(read.text).kind == input_kind::message &&
                                            parse_input(read.text).text == input.text && !is_open_block(read.text));
        if (auto ok = past_.add(same ? read.text : as_block(read.text)); !ok) {
            out_.warn(concat("the history can't be saved: ", ok.error().text()));
            past_.detach();
        }
        const tty_mode_guard keys(tty_mode::answer);
        if (!handle(input, editor.take_interrupt())) break;
    }
    return exit_code::ok;
}

exit_code repl::read_lines() {
    line_source source(STDIN_FILENO);
    line_joiner joiner;
    bool continued = false;
    while (!finished()) {
        auto line = [&] {
            if (!interactive_) return source.next();
            const noticed_interrupts guard;  // before the prompt: whoever sees it may press Ctrl-C at once
            out_.prompt(continued ? ". " : "> ");
            return source.next();
        }();
        if (!line) {
            out_.fail(line.error().text());
            return exit_code::io;
        }
        if (line->how == line_source::status::interrupted) {
            (void)joiner.finish();
            continued = false;
            out_.remark(concat("\n", how_to_leave));
            continue;
        }
        const bool ended = line->how == line_source::status::end;
        const auto text = ended ? joiner.finish() : joiner.add(line->text);
        continued = !text;
        if (text && !handle(parse_input(*text))) break;
        if (ended) {
            if (interactive_) out_.say("");
            break;
        }
    }
    return exit_code::ok;
}

bool repl::handle(const repl_input& input, bool stopped) {
    switch (input.kind) {
        case input_kind::empty: return true;
        case input_kind::message: turn(input.text, stopped); return true;
        case input_kind::command: return command(input);
    }
    return true;
}

void repl::went_wrong(exit_code code) {
    if (worst_ == exit_code::ok) worst_ = code;
}

void repl::turn(const std::string& text, bool stopped) {
    cancel_flag cancel;
    if (stopped) cancel.request();
    const interruptible interrupts(cancel);
    const auto said = engine_.ask(text, showing_hooks(out_, cancel, given_.show_prompt));
    out_.clear_progress();
    if (said) return report(*said);
    out_.end_line();
    const auto& problem = said.error();
    went_wrong(exit_code_of(problem));
    if (problem.code == errc::canceled) {
        out_.remark("(stopped before the answer began; the message is not kept)");
    } else if (problem.code == errc::context_full) {
        // The library's own advice doesn't know of commands; and where nothing was said before, nothing can be forgotten.
        const std::string reason = problem.text();
        out_.fail(concat(reason.substr(0, reason.rfind("; ")), engine_.messages().empty() ? make_larger : make_room));
    } else {
        out_.fail(problem.text());
    }
}

void repl::report(const answer& said) {
    answered_ = has_figures_ = true;
    out_.end_line();
    if (finished()) return;
    if (said.how == answer_end::canceled) out_.remark("(stopped; what was said stays in the conversation)");
    if (said.how == answer_end::length) out_.remark("(stopped at the limit of -n)");
    if (said.how == answer_end::context) {
        went_wrong(exit_code::context);
        out_.fail(concat("the context of ", engine_.context(), " tokens is full, so the answer ends here", make_room));
    }
    if (given_.verbose.value_or(out_.err_is_terminal())) out_.remark(figures_line(engine_));
}

bool repl::command(const repl_input& input) {
    const auto* row = find_repl_command(input.name);
    if (row == nullptr) {
        out_.fail(unknown_repl_command(input.name));
        went_wrong(exit_code::usage);
        return true;
    }
    if (row->argument.empty() && !input.text.empty()) {
        out_.fail(concat("/", row->name, " takes nothing behind it, but there is ", quoted(input.text)));
        went_wrong(exit_code::usage);
        return true;
    }
    switch (row->which) {
        case repl_command::help: out_.say(repl_help()); break;
        case repl_command::set: set(input.text); break;
        case repl_command::show: show(input.text); break;
        case repl_command::system: system(input.text); break;
        case repl_command::undo: undo(); break;
        case repl_command::retry: retry(); break;
        case repl_command::clear:
            engine_.set_conversation(engine_.system(), {});
            has_figures_ = false;
            out_.remark("all messages are forgotten");
            break;
        case repl_command::save: save(input.text); break;
        case repl_command::load: load(input.text); break;
        case repl_command::stats:
            if (!has_figures_) out_.remark(answered_ ? "the last answer was forgotten, and its speed with it" : "there has been no answer yet");
            if (answered_) out_.say(figures_text(engine_, has_figures_));
            break;
        case repl_command::quit: return false;
    }
    return true;
}

}  // namespace colibri::repl
