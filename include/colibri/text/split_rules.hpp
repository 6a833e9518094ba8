// The rules by which published tokenizers cut text into words, one list per family.
//
// Each family's rules stand in words beside its table. "Word" is a run of letters, "number" a run of digits and other
// numbers, "symbols" a run of what is neither white space nor letter nor number, "cut off" says that earlier rules did
// so.
#pragma once

#include <string_view>

#include "colibri/text/splitter.hpp"

namespace colibri::text::split_rules {

namespace sets {
using namespace classes;
inline constexpr code_range ascii_letter_ranges[] = {{'A', 'Z'}, {'a', 'z'}};
inline constexpr code_range ascii_symbol_ranges[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
inline constexpr code_range ascii_digit_ranges[] = {{'0', '9'}};
inline constexpr code_range space_range[] = {{' ', ' '}};
inline constexpr code_range slash_range[] = {{'/', '/'}};
inline constexpr code_range line_feed_range[] = {{'\n', '\n'}};
inline constexpr code_range default_symbol_ranges[] = {{'$', '$'}, {'+', '+'}, {'<', '>'},
                                                       {'^', '^'}, {'|', '|'}, {'~', '~'}};
inline constexpr code_range falcon_symbol_ranges[] = {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'},
                                                      {'`', '`'}, {'|', '|'}, {'~', '~'}};
inline constexpr code_range bloom_breaks[] = {{'!', '!'},     {'(', ')'},       {',', ','},       {'.', '.'},
                                              {'?', '?'},     {'|', '|'},       {0x60C, 0x60C},   {0x6D4, 0x6D4},
                                              {0x964, 0x964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};
inline constexpr code_range east_asian_ranges[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};  // DeepSeek LLM and Coder
inline constexpr code_range kana_han_ranges[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
inline constexpr code_range korean_ranges[] = {{0x3131, 0x318E}, {0xAC00, 0xD7A3}};
inline constexpr code_range circled_letter_ranges[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
inline constexpr code_range bopomofo_ranges[] = {{0x3105, 0x312F}};
inline constexpr code_range chinese_symbol_ranges[] = {{0x2014, 0x2014}, {0x2018, 0x2019}, {0x201C, 0x201D},
                                                       {0x2026, 0x2026}, {0x3001, 0x303F}, {0xFE30, 0xFE4F},
                                                       {0xFF01, 0xFF01}, {0xFF0C, 0xFF0C}, {0xFF1A, 0xFF1B}};
inline constexpr code_range deepseek_llm_symbol_ranges[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                                            {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
inline constexpr code_range deepseek_llm_letter_ranges[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
    {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
    {0x376, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
    {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
    {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
    {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};

inline constexpr char_set letters{letter}, letters_marks{letter | mark}, numbers{number}, spaces{white_space},
    han_only{han};
inline constexpr char_set space{.more = space_range}, line_breaks{newline}, breaks_slash{newline, 0, slash_range};
inline constexpr char_set symbols{any, white_space | letter | number};
inline constexpr char_set symbols_no_marks{any, white_space | letter | mark | number};
inline constexpr char_set symbols_no_breaks{any, white_space | letter | number | newline};
inline constexpr char_set not_break_letter_number{any, newline | letter | number};
inline constexpr char_set punctuation_symbol{punctuation | symbol};
inline constexpr char_set not_break_letter_symbol{any, newline | letter | punctuation | symbol};
inline constexpr char_set word_letters{letter | mark}, word_letters_no_han{letter | mark, han};
inline constexpr char_set ascii_letters{.more = ascii_letter_ranges}, ascii_symbols{.more = ascii_symbol_ranges};
inline constexpr char_set ascii_digits{.more = ascii_digit_ranges};
inline constexpr char_set punctuation_only{punctuation}, punctuation_ascii{punctuation, 0, ascii_symbol_ranges};
inline constexpr char_set default_symbols{punctuation, 0, default_symbol_ranges},
    falcon_symbols{punctuation, 0, falcon_symbol_ranges};
inline constexpr char_set bloom_text{any, white_space, {}, bloom_breaks};
inline constexpr char_set east_asian{.more = east_asian_ranges}, kana_han{.more = kana_han_ranges};
inline constexpr char_set korean{.more = korean_ranges}, bopomofo{.more = bopomofo_ranges};
inline constexpr char_set chinese_symbols{.more = chinese_symbol_ranges};
inline constexpr char_set deepseek_llm_letters{.more = deepseek_llm_letter_ranges};
inline constexpr char_set deepseek_llm_symbols{.more = deepseek_llm_symbol_ranges};
inline constexpr char_set word_characters{letter | mark | nd | nl | pc, 0, circled_letter_ranges};
inline constexpr char_set line_feed{.more = line_feed_range}, not_line_feed{any, 0, {}, line_feed_range};
}  // namespace sets

// Alternatives that several families share.
inline constexpr alternative contraction{.kind = form::contraction},
    small_contraction{.kind = form::contraction, .any_case = false};
inline constexpr alternative newlines{.kind = form::newlines}, spaces{.kind = form::spaces};
inline constexpr alternative word{.prefix = &sets::not_break_letter_number, .body = &sets::letters};
inline constexpr alternative one_number{.body = &sets::numbers, .most = 1},
    three_numbers{.body = &sets::numbers, .most = 3};
inline constexpr alternative all_numbers{.body = &sets::numbers};
inline constexpr alternative symbols_to_breaks{
    .prefix = &sets::space, .body = &sets::symbols, .tail = &sets::line_breaks};
inline constexpr alternative symbols_to_slash{
    .prefix = &sets::space, .body = &sets::symbols, .tail = &sets::breaks_slash};
inline constexpr alternative cased_lower{
    .kind = form::word_lower, .prefix = &sets::not_break_letter_number, .body = &sets::word_letters};
inline constexpr alternative cased_upper{
    .kind = form::word_upper, .prefix = &sets::not_break_letter_number, .body = &sets::word_letters};
inline constexpr alternative cased_lower_contraction{.kind = form::word_lower,
                                                     .prefix = &sets::not_break_letter_number,
                                                     .body = &sets::word_letters,
                                                     .contraction = true};
inline constexpr alternative cased_upper_contraction{.kind = form::word_upper,
                                                     .prefix = &sets::not_break_letter_number,
                                                     .body = &sets::word_letters,
                                                     .contraction = true};
inline constexpr alternative one_break{.body = &sets::line_breaks, .most = 1};
inline constexpr alternative east_asian_run{.body = &sets::east_asian}, kana_han_run{.body = &sets::kana_han};

// GPT-2: contractions; words, numbers and symbols with a space before them; white space.
inline constexpr alternative gpt2_words[] = {small_contraction,
                                             {.prefix = &sets::space, .body = &sets::letters},
                                             {.prefix = &sets::space, .body = &sets::numbers},
                                             {.prefix = &sets::space, .body = &sets::symbols},
                                             spaces};
inline constexpr split_rule gpt2[] = {{gpt2_words}};

// StarCoder: every number character alone, then as GPT-2.
inline constexpr alternative single_numbers[] = {one_number};
inline constexpr split_rule starcoder[] = {{single_numbers}, {gpt2_words}};

// Llama 3: contractions in any case; words with any one symbol or space before them; numbers of up to three; symbols
// with the newlines behind them; newlines with the white space before them; white space.
inline constexpr alternative llama3_words[] = {contraction, word, three_numbers, symbols_to_breaks, newlines, spaces};
inline constexpr split_rule llama3[] = {{llama3_words}};

// Qwen 2: as Llama 3, numbers one by one.
inline constexpr alternative qwen2_words[] = {contraction, word, one_number, symbols_to_breaks, newlines, spaces};
inline constexpr split_rule qwen2[] = {{qwen2_words}};

// Qwen 3.5: marks belong to words.
inline constexpr alternative qwen35_words[] = {
    contraction, {.prefix = &sets::not_break_letter_number, .body = &sets::letters_marks},
    one_number,  {.prefix = &sets::space, .body = &sets::symbols_no_marks, .tail = &sets::line_breaks},
    newlines,    spaces};
inline constexpr split_rule qwen35[] = {{qwen35_words}};

// Mistral's Tekken: words end before a capital that follows a small letter; symbols with newlines and slashes.
inline constexpr alternative tekken_words[] = {cased_lower,      cased_upper, one_number,
                                               symbols_to_slash, newlines,    spaces};
inline constexpr split_rule tekken[] = {{tekken_words}};

// GPT-4o: as Tekken, contractions stay with their word, numbers of up to three.
inline constexpr alternative gpt4o_words[] = {
    cased_lower_contraction, cased_upper_contraction, three_numbers, symbols_to_slash, newlines, spaces};
inline constexpr split_rule gpt4o[] = {{gpt4o_words}};

// Kimi K2: Han characters apart, otherwise as GPT-4o without slashes.
inline constexpr alternative kimi_words[] = {{.body = &sets::han_only},
                                             {.kind = form::word_lower,
                                              .prefix = &sets::not_break_letter_number,
                                              .body = &sets::word_letters_no_han,
                                              .contraction = true},
                                             {.kind = form::word_upper,
                                              .prefix = &sets::not_break_letter_number,
                                              .body = &sets::word_letters_no_han,
                                              .contraction = true},
                                             three_numbers,
                                             symbols_to_breaks,
                                             newlines,
                                             spaces};
inline constexpr split_rule kimi_k2[] = {{kimi_words}};

// DeepSeek V3: numbers of up to three; kana and Han; then words with marks, symbols.
inline constexpr alternative numbers_by_three[] = {three_numbers};
inline constexpr alternative kana_han_runs[] = {kana_han_run};
inline constexpr alternative deepseek_v3_words[] = {
    {.prefix = &sets::ascii_symbols, .needs_prefix = true, .body = &sets::ascii_letters},
    {.prefix = &sets::not_break_letter_symbol, .body = &sets::letters_marks},
    {.prefix = &sets::space, .body = &sets::punctuation_symbol, .tail = &sets::line_breaks},
    newlines,
    spaces};
inline constexpr split_rule deepseek_v3[] = {{numbers_by_three}, {kana_han_runs}, {deepseek_v3_words}};

// DeepSeek Coder: line breaks; words; punctuation; east Asian runs; single numbers, each cut off in turn.
inline constexpr alternative single_breaks[] = {one_break};
inline constexpr alternative spaced_words[] = {{.prefix = &sets::spaces, .body = &sets::letters}};
inline constexpr alternative spaced_punctuation[] = {{.prefix = &sets::spaces, .body = &sets::punctuation_only}};
inline constexpr alternative east_asian_runs[] = {east_asian_run};
inline constexpr split_rule deepseek_coder[] = {
    {single_breaks}, {spaced_words}, {spaced_punctuation}, {east_asian_runs}, {single_numbers}};

// DeepSeek LLM: the same with listed letters and symbols, white space at the end of a piece, whole numbers.
[[nodiscard]] inline std::size_t spaces_at_end(scanner& scan, std::size_t at) {
    return scan.white(at).end == scan.text().size() ? scan.white(at).end : at;
}
inline constexpr alternative deepseek_llm_words[] = {{.prefix = &sets::spaces, .body = &sets::deepseek_llm_letters}};
inline constexpr alternative deepseek_llm_symbols[] = {{.prefix = &sets::spaces, .body = &sets::deepseek_llm_symbols}};
inline constexpr alternative ending_spaces[] = {{.kind = form::own, .match = spaces_at_end}};
inline constexpr alternative whole_numbers[] = {all_numbers};
inline constexpr split_rule deepseek_llm[] = {{single_breaks}, {deepseek_llm_words}, {deepseek_llm_symbols},
                                              {ending_spaces}, {east_asian_runs},    {whole_numbers}};

// Falcon: punctuation and some symbols; as GPT-2; ASCII digits by three. The default is the same without the backtick
// and with numbers cut off first.
inline constexpr alternative falcon_symbols[] = {{.body = &sets::falcon_symbols}};
inline constexpr alternative default_symbols[] = {{.body = &sets::default_symbols}};
inline constexpr alternative three_digits[] = {{.body = &sets::ascii_digits, .least = 3, .most = 3}};
inline constexpr split_rule falcon[] = {{falcon_symbols}, {gpt2_words}, {three_digits}};
inline constexpr split_rule fallback[] = {{default_symbols}, {gpt2_words}, {whole_numbers}, {three_digits}};

// BLOOM: anything up to white space or listed punctuation, with a space before it. Viking: numbers one by one.
inline constexpr alternative bloom_words[] = {{.prefix = &sets::space, .body = &sets::bloom_text}};
inline constexpr split_rule bloom[] = {{bloom_words}};
inline constexpr split_rule viking[] = {{bloom_words}, {single_numbers}};

// Chameleon: markers of images; tabs, line feeds and pairs of spaces; single numbers; single punctuation; as GPT-2.
[[nodiscard]] inline std::size_t sentinel_marker(scanner& scan, std::size_t at) {
    constexpr std::string_view opening = "<sentinel:";
    if (scan.text().substr(at, opening.size()) != opening) return at;
    std::size_t count = 0;
    const std::size_t end = scan.skip(at + opening.size(), sets::ascii_digits, ~std::size_t{0}, count);
    return count > 0 && scan.text().substr(end, 1) == ">" ? end + 1 : at;
}
[[nodiscard]] inline std::size_t image_marker(scanner& scan, std::size_t at) {
    constexpr std::string_view opening = "IMGIMG";
    const std::string_view rest = scan.text().substr(at);
    if (!rest.starts_with(opening)) return at;
    std::size_t end = opening.size();
    while (end < rest.size() && end < opening.size() + 4 && rest[end] >= 'A' && rest[end] <= 'I') ++end;
    return end > opening.size() && end < rest.size() && rest[end] == 'Z' ? at + end + 1 : at;
}
[[nodiscard]] inline std::size_t layout_character(scanner& scan, std::size_t at) {
    const std::string_view rest = scan.text().substr(at, 4);
    if (rest.front() == '\t' || rest.front() == '\n') return at + 1;
    if (rest == "    ") return at + 4;
    return rest.starts_with("  ") ? at + 2 : at;
}
inline constexpr alternative sentinel_markers[] = {{.kind = form::own, .match = sentinel_marker}};
inline constexpr alternative image_markers[] = {{.kind = form::own, .match = image_marker}};
inline constexpr alternative layout_characters[] = {{.kind = form::own, .match = layout_character}};
inline constexpr alternative single_punctuation[] = {{.body = &sets::punctuation_ascii, .most = 1}};
inline constexpr split_rule chameleon[] = {{sentinel_markers}, {image_markers},      {layout_characters},
                                           {single_numbers},   {single_punctuation}, {gpt2_words}};

// BailingMoE: as Qwen 2. (Published with one newline behind white space, which matches the same, and possessively.)
inline constexpr const auto& bailing_moe = qwen2;

// Seed Coder: as Qwen 2, but symbols without the newlines behind them.
inline constexpr alternative seed_coder_words[] = {
    contraction, word, one_number, {.prefix = &sets::space, .body = &sets::symbols_no_breaks}, newlines, spaces};
inline constexpr split_rule seed_coder[] = {{seed_coder_words}};

// EXAONE MoE: several words with single spaces between them are one piece; symbols with one newline or slash.
inline constexpr alternative exaone_moe_words[] = {
    contraction, {.kind = form::phrase, .prefix = &sets::not_break_letter_number},
    one_number,  {.prefix = &sets::space, .body = &sets::symbols, .tail = &sets::breaks_slash, .most_tail = 1},
    newlines,    spaces};
inline constexpr split_rule exaone_moe[] = {{exaone_moe_words}};

/// Appends the ends of pieces of `text` such that decimal digits are grouped by three from the right of their run. With
/// `apart`, a run is cut off from what surrounds it, and one that a word character follows is left alone.
inline void group_digits(std::string_view text, std::vector<std::size_t>& ends, bool apart) {
    const scanner scan(text);
    const auto digit = [&](std::size_t i) { return !scan.at_end(i) && (scan.read(i).known & classes::nd) != 0; };
    const auto cut = [&](std::size_t end) {
        if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
    };
    for (std::size_t at = 0; at < text.size();) {
        if (!digit(at)) {
            at = scan.read(at).end;
            continue;
        }
        std::size_t count = 0, end = at;
        for (; digit(end); ++count) end = scan.read(end).end;
        const bool grouped = !apart || !scan.is(end, sets::word_characters);
        if (grouped && apart) cut(at);
        for (; at < end; --count) {
            if (grouped && count % 3 == 0) cut(at);
            at = scan.read(at).end;
        }
        if (grouped && apart) cut(end);
    }
    cut(text.size());
}

// Tiny Aya: digits by three from the right, then as GPT-4o.
inline constexpr split_rule tiny_aya[] = {
    {.cut = [](std::string_view text, std::vector<std::size_t>& ends) { group_digits(text, ends, true); }},
    {gpt4o_words}};

// SuperBPE: numbers, and in them digits by three from the right.
inline constexpr split_rule superbpe[] = {
    {whole_numbers},
    {.cut = [](std::string_view text, std::vector<std::size_t>& ends) { group_digits(text, ends, false); }}};

// Jais 2: as Llama 3, with white space in powers of two that another white space or the end follows.
[[nodiscard]] inline std::size_t spaces_by_powers(scanner& scan, std::size_t at) {
    if (scan.white(at).end <= at) return at;
    const bool ends_text = scan.white(at).end == scan.text().size();
    std::size_t count = 0;
    (void)scan.skip(at, sets::spaces, 513, count);  // one more than the longest piece: is there another behind it?
    for (const std::size_t power : {512u, 256u, 128u, 64u, 32u, 16u, 8u, 4u, 2u, 1u}) {
        if (count > power || (count == power && ends_text) || power == 1)
            return scan.skip(at, sets::spaces, power, count);
    }
    return at;
}
inline constexpr alternative jais2_words[] = {
    contraction, word, three_numbers, symbols_to_breaks, newlines, {.kind = form::own, .match = spaces_by_powers}};
inline constexpr split_rule jais2[] = {{jais2_words}};

// MiniCPM 5: numbers by three, then as Llama 3.
inline constexpr alternative minicpm5_words[] = {contraction, word, all_numbers, symbols_to_breaks, newlines, spaces};
inline constexpr split_rule minicpm5[] = {{numbers_by_three}, {minicpm5_words}};

// Ufakzeka: as Qwen 2 without contractions.
inline constexpr alternative ufakzeka_words[] = {word, one_number, symbols_to_breaks, newlines, spaces};
inline constexpr split_rule ufakzeka[] = {{ufakzeka_words}};

// Laguna: runs of line feeds apart from the lines, then as Qwen 2.
inline constexpr alternative lines[] = {{.body = &sets::not_line_feed}, {.body = &sets::line_feed}};
inline constexpr split_rule laguna[] = {{lines}, {qwen2_words}};

// Youtu: Korean, Chinese punctuation, Bopomofo, kana with Han; then as GPT-4o with single numbers.
inline constexpr alternative youtu_scripts[] = {
    {.body = &sets::korean}, {.body = &sets::chinese_symbols}, {.body = &sets::bopomofo}, kana_han_run};
inline constexpr alternative youtu_words[] = {
    cased_lower_contraction, cased_upper_contraction, one_number, symbols_to_slash, newlines, spaces};
inline constexpr split_rule youtu[] = {{youtu_scripts}, {youtu_words}};

}  // namespace colibri::text::split_rules
