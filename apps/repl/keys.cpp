#include "repl/keys.hpp"

#include "colibri/text/utf8.hpp"
#include "repl/display.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view paste_begin = "\033[200~";
constexpr std::string_view paste_end = "\033[201~";
constexpr char escape = '\033';

bool has_modifier(std::string_view parameters) {
    const auto semicolon = parameters.find(';');
    return semicolon != std::string_view::npos && parameters.substr(semicolon + 1) != "1";
}

// Final byte and parameters of a control sequence, as terminals send them for cursor and editing keys.
key_kind csi_kind(std::string_view parameters, char final) {
    const bool modified = has_modifier(parameters);
    switch (final) {
        case 'A': return key_kind::up;
        case 'B': return key_kind::down;
        case 'C': return modified ? key_kind::word_right : key_kind::right;
        case 'D': return modified ? key_kind::word_left : key_kind::left;
        case 'H': return key_kind::home;
        case 'F': return key_kind::end;
        case 'u': return parameters.substr(0, parameters.find(';')) == "13" ? key_kind::newline : key_kind::unknown;
        case '~': break;
        default: return key_kind::unknown;
    }
    const auto number = parameters.substr(0, parameters.find(';'));
    if (number == "1" || number == "7") return key_kind::home;
    if (number == "4" || number == "8") return key_kind::end;
    if (number == "3") return key_kind::del;
    if (number == "5") return key_kind::page_up;
    if (number == "6") return key_kind::page_down;
    if (number == "27" && parameters.ends_with(";13")) return key_kind::newline;
    return key_kind::unknown;
}

// Length of the UTF-8 sequence that a lead byte announces, 1 if it can't be one.
std::size_t announced(unsigned char lead) {
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 && lead < 0xe0 ? 2 : 1;
}

}  // namespace

void key_decoder::feed(std::string_view bytes) { bytes_ += bytes; }

bool key_decoder::drop_through(char byte) {
    const auto at = bytes_.rfind(byte);
    if (pasting_ || at == std::string::npos || bytes_.find(paste_begin) < at) return false;
    bytes_.erase(0, at + 1);
    return true;
}

std::optional<key> key_decoder::take(std::size_t length, key k) {
    bytes_.erase(0, length);
    return k;
}

std::optional<key> key_decoder::next() {
    if (pasting_) return next_paste();
    if (bytes_.empty()) return std::nullopt;
    const auto first = static_cast<unsigned char>(bytes_.front());
    switch (first) {
        case '\r': return take(1, {key_kind::enter});
        case '\n': return take(1, {key_kind::newline});
        case '\t': return take(1, {key_kind::tab});
        case 0x08:  // Ctrl-H
        case 0x7f: return take(1, {key_kind::backspace});
        case escape: return next_escape();
        default: break;
    }
    if (first < 0x20)
        return take(1, {key_kind::ctrl, std::string(1, static_cast<char>(first == 0 ? ' ' : first + '`'))});
    const std::size_t length = announced(first);
    if (bytes_.size() < length) {
        // A sequence that can still become whole waits for the rest.
        for (std::size_t i = 1; i < bytes_.size(); ++i) {
            if ((static_cast<unsigned char>(bytes_[i]) & 0xc0) != 0x80) return take(1, {key_kind::text, "\ufffd"});
        }
        return std::nullopt;
    }
    const auto code = text::decode_utf8(bytes_, 0);
    if (!code.valid) return take(1, {key_kind::text, "\ufffd"});
    return take(code.size, {key_kind::text, bytes_.substr(0, code.size)});
}

std::optional<key> key_decoder::next_paste() {
    const auto end = bytes_.find(paste_end);
    if (end == std::string::npos) return std::nullopt;
    return end_paste(end, paste_end.size());
}

std::optional<key> key_decoder::end_paste(std::size_t end, std::size_t skip) {
    const std::string raw = bytes_.substr(0, end);
    bytes_.erase(0, end + skip);
    pasting_ = false;
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
        if (raw[i] == '\r') {
            text += '\n';
            if (i + 1 < raw.size() && raw[i + 1] == '\n') ++i;
        } else {
            text += raw[i];
        }
    }
    std::size_t replaced = 0;
    return key{key_kind::paste, valid_utf8(text, replaced)};
}

std::optional<key> key_decoder::next_escape() {
    if (bytes_.size() < 2) return std::nullopt;
    const char second = bytes_[1];
    if (second == '[') return next_csi();
    if (second == 'O') {
        if (bytes_.size() < 3) return std::nullopt;
        return take(3, {csi_kind({}, bytes_[2])});
    }
    if (second == '\r' || second == '\n') return take(2, {key_kind::newline});
    if (second == 0x7f || second == 0x08) return take(2, {key_kind::word_backspace});
    if (second == escape) return take(1, {key_kind::escape});
    if (second > 0x20 && second < 0x7f) return take(2, {key_kind::alt, std::string(1, second)});
    return take(1, {key_kind::escape});
}

std::optional<key> key_decoder::next_csi() {
    std::size_t end = 2;
    while (end < bytes_.size() && (bytes_[end] < 0x40 || bytes_[end] > 0x7e)) {
        if (bytes_[end] < 0x20) return take(end, {key_kind::unknown});  // broken off by another key
        ++end;
    }
    if (end == bytes_.size()) return std::nullopt;
    if (bytes_[end] == '[' && end == 2) {  // the console's function keys: ESC [ [ letter
        if (bytes_.size() < 4) return std::nullopt;
        return take(4, {key_kind::unknown});
    }
    if (std::string_view(bytes_).starts_with(paste_begin)) {
        bytes_.erase(0, paste_begin.size());
        pasting_ = true;
        return next_paste();
    }
    const auto kind = csi_kind(std::string_view(bytes_).substr(2, end - 2), bytes_[end]);
    return take(end + 1, {kind});
}

std::optional<key> key_decoder::flush() {
    if (pasting_) return end_paste(bytes_.size(), 0);
    if (bytes_.empty()) return std::nullopt;
    if (bytes_.front() != escape) return take(1, {key_kind::text, "\ufffd"});
    if (bytes_.size() == 1) return take(1, {key_kind::escape});
    if (bytes_.size() == 2) return take(2, {key_kind::alt, bytes_.substr(1)});
    return take(bytes_.size(), {key_kind::unknown});
}

}  // namespace colibri::repl
