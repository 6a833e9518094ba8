// Bytes from a terminal made into keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colibri::repl {

/// What a key is. Letters with Ctrl or Alt are `ctrl` and `alt` with the letter in `text`.
enum class key_kind {
    text,   ///< one code point
    paste,  ///< a whole bracketed paste, line ends as '\n'
    enter,
    newline,  ///< Ctrl-J, Alt-Enter, Shift-Enter where the terminal tells
    tab,
    ctrl,
    alt,
    backspace,
    word_backspace,  ///< Alt-Backspace
    del,
    left,
    right,
    up,
    down,
    home,
    end,
    page_up,
    page_down,
    word_left,  ///< Ctrl- or Alt-Left
    word_right,
    escape,   ///< Escape alone
    unknown,  ///< a sequence that means nothing here
};

struct key {
    key_kind kind = key_kind::unknown;
    std::string text = {};
    friend bool operator==(const key&, const key&) = default;
};

/// Collects bytes and gives keys. Incomplete sequences wait for more bytes, or for `flush` when no more came for a
/// moment.
class key_decoder {
public:
    void feed(std::string_view bytes);

    /// The next whole key, or nothing yet.
    [[nodiscard]] std::optional<key> next();

    /// Whether bytes wait for the rest of their sequence, so that the caller should wait only for a moment.
    [[nodiscard]] bool incomplete() const noexcept { return !bytes_.empty() && !pasting_; }

    /// Whether the end of a paste hasn't come yet.
    [[nodiscard]] bool pasting() const noexcept { return pasting_; }

    /// Drops all bytes up to the last `byte`; false (and nothing dropped) if there is none, or in a paste.
    bool drop_through(char byte);

    /// Takes what waits as it is: an escape byte becomes the key Escape, a paste without an end what came of it.
    [[nodiscard]] std::optional<key> flush();

private:
    [[nodiscard]] std::optional<key> take(std::size_t length, key k);
    [[nodiscard]] std::optional<key> next_paste();
    [[nodiscard]] std::optional<key> end_paste(std::size_t end, std::size_t skip);
    [[nodiscard]] std::optional<key> next_escape();
    [[nodiscard]] std::optional<key> next_csi();

    std::string bytes_;
    bool pasting_ = false;
};

}  // namespace colibri::repl
