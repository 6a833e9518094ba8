// All options of all commands in one struct, and the table that describes each: from it come the parsing of arguments,
// the help texts, shell completion, /set and /show, and what /save writes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/sampling/params.hpp"

namespace colibri::repl {

/// What was asked for. Empty: not asked for, so the model's own value or the default holds.
struct options {
    // Model
    std::optional<std::string> model;
    std::optional<std::int64_t> context, threads, threads_batch, batch, ubatch;
    std::optional<std::string> weights, memory, record_heat, cache_k, cache_v, simd, chat_template;
    std::optional<bool> mmap, mlock;
    // What is asked
    std::optional<std::string> prompt, prompt_file, system;
    bool raw = false;
    bool special = false;
    bool show_prompt = false;
    // Answer
    std::optional<std::int64_t> predict;
    std::vector<std::string> stops;
    sampling::params sampling;
    // Output
    std::optional<std::string> color;
    std::optional<bool> verbose;
    bool json = false;
    bool no_history = false;
    // tokenize, inspect
    bool ids = false;
    bool decode = false;
    bool no_bos = false;
    bool no_tensors = false;
    // bench; lists as they were typed, checked
    std::optional<std::string> thread_list, thread_batch_list, ubatch_list, cache_k_list, cache_v_list;
    std::optional<std::string> prompt_tokens, gen_tokens, depth, sequences;
    std::vector<std::string> prompt_gen;
    std::optional<std::int64_t> repeat;
    std::optional<std::string> format;
    bool no_warmup = false;
    // plan
    bool probe = false;
    std::optional<std::string> disk_bandwidth, memory_bandwidth;
    // eval, imatrix
    std::optional<std::int64_t> chunks, save_frequency;
    std::optional<std::string> output_file, base, save_base, token_list;
    std::vector<std::string> in_files;
    bool exact = false;
    bool resume = false;
    bool force = false;
    bool process_output = false;
    bool show_statistics = false;
};

/// Commands of the program, as bits of option_row::commands.
enum command_bits : unsigned {
    for_chat = 1, for_run = 2, for_tokenize = 4, for_inspect = 8, for_bench = 16, for_plan = 32, for_eval = 128, for_imatrix = 256
};

/// A setting of options::sampling; its name, range and meaning are the library's.
struct sampling_target {};

/// What an option's value is and where it goes.
using option_target = std::variant<sampling_target, bool options::*, std::optional<bool> options::*,
                                   std::optional<std::int64_t> options::*, std::optional<std::string> options::*,
                                   std::vector<std::string> options::*>;

/// One line of the table.
struct option_row {
    std::string_view name = {};          ///< "top-k"
    std::string_view short_name = {};    ///< "ub", or empty
    std::string_view value = {};         ///< what stands for the value in help ("N"); empty: a switch
    std::string_view help = {};          ///< ends without a point
    std::string_view default_text = {};  ///< shown in help; empty: nothing to show
    unsigned commands = 0;
    option_target target = sampling_target{};
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::string_view choices = {};  ///< separated by blanks; with FILE among them a file name may stand too
    bool list = false;              ///< several numbers or choices: see numbers_of and words_of
    bool settable = false;          ///< /set changes it, /save writes it
    bool switch_value = true;       ///< what a switch sets
};

/// All options, in the order of help. Commands may differ in what a name means: then it has several rows.
[[nodiscard]] std::span<const option_row> all_options();

/// Heading of the group that this row of `all_options` belongs to.
[[nodiscard]] std::string_view group_of(const option_row& row);

/// The row with that long name ('_' counts as '-'), one of the `commands` first; or null.
[[nodiscard]] const option_row* find_option(std::string_view name, unsigned commands = ~0u);

/// Sets the option from text. Errors: invalid_argument; the option's name isn't in front.
[[nodiscard]] result<void> set_option(options& o, const option_row& row, std::string_view text);

/// Makes the option as if it had never been given.
void unset_option(options& o, const option_row& row);

/// The values given, as text that `set_option` takes (several for a list); nothing if not given.
[[nodiscard]] std::vector<std::string> given_values(const options& o, const option_row& row);

}  // namespace colibri::repl
