// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/quantize/job.hpp"

namespace colibri::quantize_program {

/// What a command line asks for.
struct options {
    quantize::request asked;
    std::optional<quantize::mixture> kind;    ///< without: a target decides
    std::string importance;                   ///< file; empty: none
    std::vector<std::string> type_files;      ///< of --tensor-type-file
    std::string heat;                         ///< file; empty: none
    unsigned threads = 0;                     ///< 0: as many as there are processors
    bool dry_run = false;
    bool json = false;
    bool verbose = false;
    bool help = false;
    bool version = false;
};

/// Reads the words behind the program's name. Errors: invalid_argument.
[[nodiscard]] result<options> parse_options(std::span<const std::string_view> words);

/// All that --help prints.
[[nodiscard]] std::string help_text();

}  // namespace colibri::quantize_program
