// Reads one message from a terminal: keys in, screen out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "repl/edit_buffer.hpp"
#include "repl/history.hpp"
#include "repl/keys.hpp"
#include "repl/painter.hpp"

namespace colibri::repl {

/// What Tab may put in place of text()[begin, cursor).
struct completions {
    std::size_t begin = 0;
    std::vector<std::string> candidates;  ///< sorted; ending in '/' or ' ' as the text goes on
    bool applies = false;                 ///< false: Tab means a tab character here
};

/// How reading ended.
enum class read_end {
    message,      ///< Enter
    end,          ///< Ctrl-D with nothing typed, or the terminal is gone
    interrupted,  ///< Ctrl-C with nothing typed
};

struct read_result {
    read_end how = read_end::end;
    std::string text = {};
    bool literal = false;  ///< a paste of several lines makes up the message's start: it is text, never a command
};

/// Emacs-like editing of messages of one or more lines; see `docs/cli.md` for the keys. Draws on one descriptor, reads
/// standard input. Keys that come after a message's Enter wait for the next `read`.
class line_editor {
public:
    /// `is_open` says whether Enter should begin a new line, since the text isn't finished; `complete` is asked by Tab.
    line_editor(int drawing_fd, history& past, std::function<bool(std::string_view)> is_open,
                std::function<completions(std::string_view)> complete);

    [[nodiscard]] read_result read(const prompt& p);

    /// Whether Ctrl-C was typed behind the last message; takes it and what was typed before it.
    [[nodiscard]] bool take_interrupt();

private:
    enum class step { go_on, submit, end, interrupted };

    [[nodiscard]] std::optional<key> next_key();
    void read_bytes();
    void paint();

    [[nodiscard]] step handle(const key& k);
    [[nodiscard]] step handle_edit(const key& k);
    [[nodiscard]] step handle_ctrl(char letter);
    void handle_alt(char letter);
    [[nodiscard]] step handle_search(const key& k);
    [[nodiscard]] step enter();
    void paste(std::string_view text);
    [[nodiscard]] bool move_rows(std::ptrdiff_t by);
    void recall(std::ptrdiff_t by);
    void complete(bool again);
    void open_editor();

    /// Ctrl-R: the newest entry at or before `found` that holds `wanted`.
    struct search_state {
        std::string wanted = {};
        std::size_t found = 0;  ///< entries().size(): none
        bool failed = false;
    };
    [[nodiscard]] std::size_t find_back(std::string_view wanted, std::size_t from) const;

    painter painter_;
    history& past_;
    std::function<bool(std::string_view)> is_open_;
    std::function<completions(std::string_view)> complete_;

    key_decoder keys_;
    edit_buffer buffer_;
    prompt prompt_;
    std::optional<search_state> search_;
    bool literal_ = false;
    bool at_end_ = false;  ///< standard input has ended

    std::size_t recalled_ = 0;  ///< entry shown; entries().size() is the draft
    std::string draft_;
    std::optional<std::size_t> wanted_column_;  ///< while keys move up and down
    bool completed_ = false;                    ///< the last key was Tab
};

}  // namespace colibri::repl
