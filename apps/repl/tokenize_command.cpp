// colibri tokenize: text to tokens and back.
#include <nlohmann/json.hpp>

#include "colibri/core/number.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/text/tokenizer.hpp"
#include "repl/commands.hpp"
#include "repl/prompt_input.hpp"

namespace colibri::repl {
namespace {

// Ids between blanks, commas and brackets.
result<std::vector<text::token_id>> parse_ids(std::string_view text, const text::tokenizer& vocabulary) {
    constexpr std::string_view separators = " \t\r\n,[]";
    std::vector<text::token_id> ids;
    while (true) {
        const auto begin = text.find_first_not_of(separators);
        if (begin == std::string_view::npos) return ids;
        text.remove_prefix(begin);
        const auto word = text.substr(0, text.find_first_of(separators));
        const auto id = parse_number<text::token_id>(word);
        if (!id || !vocabulary.contains(*id)) {
            return error{errc::invalid_argument,
                         concat(quoted(word), " is no token's id; they go from 0 to ", vocabulary.size() - 1)};
        }
        ids.push_back(*id);
        text.remove_prefix(word.size());
    }
}

std::string as_json(const std::vector<text::token_id>& ids, const text::tokenizer& vocabulary) {
    auto tokens = nlohmann::ordered_json::array();
    for (const auto id : ids) {
        const std::string_view bytes = vocabulary.bytes(id);
        nlohmann::ordered_json token{{"id", id}, {"text", text::replace_ill_formed(bytes)}};
        if (!text::is_utf8(bytes)) {
            auto numbers = nlohmann::ordered_json::array();
            for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
            token["bytes"] = std::move(numbers);
        }
        tokens.push_back(std::move(token));
    }
    return nlohmann::ordered_json{{"tokens", std::move(tokens)}}.dump() + "\n";
}

}  // namespace

exit_code tokenize_command(arguments args, output& out) {
    take_model(args);
    if (!args.given.model) {
        out.fail("a model is needed: colibri tokenize MODEL");
        return exit_code::usage;
    }
    const auto input = read_prompt(args, true, out);
    if (input.failed != exit_code::ok) return input.failed;
    if (!input.text) {
        out.fail("a text is needed: give -p TEXT, a FILE, or pipe one in");
        return exit_code::usage;
    }
    const auto file = gguf::file::open(*args.given.model);
    auto vocabulary = file ? text::tokenizer::open(file->meta()) : result<text::tokenizer>(file.error());
    if (!vocabulary) {
        out.fail(file ? std::move(vocabulary).error().within(quoted(*args.given.model)).text() : file.error().text());
        return exit_code::model;
    }
    if (vocabulary->pre_is_guessed()) {
        out.warn("the file doesn't say how its tokenizer cuts words, so the ids may differ from those of its training");
    }
    std::vector<text::token_id> ids;
    if (args.given.decode) {
        auto parsed = parse_ids(*input.text, *vocabulary);
        if (!parsed) {
            out.fail(parsed.error().text());
            return exit_code::usage;
        }
        ids = std::move(*parsed);
    } else {
        ids = vocabulary->encode(*input.text, {.add_special = !args.given.no_bos, .parse_special = args.given.special});
    }
    std::string text;
    if (args.given.json) {
        text = as_json(ids, *vocabulary);
    } else if (args.given.decode && !args.given.ids) {
        text = vocabulary->decode(ids);
    } else if (args.given.ids) {
        for (const auto id : ids) text += concat(text.empty() ? "[" : ", ", id);
        text += text.empty() ? "[]" : "]";
    } else {
        for (const auto id : ids) text += concat(id, "\t", quoted(vocabulary->bytes(id)), "\n");
    }
    out.answer(text);
    out.end_line();
    return exit_code::ok;
}

}  // namespace colibri::repl
