// generation_config.json's recommendations as the keys general.sampling.*.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/convert/hf_folder.hpp"
#include "colibri/gguf/metadata.hpp"
#include "colibri/sampling/metadata.hpp"

namespace colibri::convert {

/// Writes the settings that the file has and that our own sampler takes; others are told in `notes`. Nothing is written where it
/// says that nothing is to be sampled. Errors: those of reading; bad_type (names the key).
[[nodiscard]] inline result<void> write_sampling(const std::filesystem::path& folder, gguf::metadata& out,
                                                 std::vector<std::string>& notes) {
    auto tree = read_optional_json(folder, "generation_config.json");
    if (!tree) return std::move(tree).error();
    config_reader in(*tree, "generation_config.json");
    if (!in.truth("do_sample", true)) return in.problem() ? result<void>(*in.problem()) : result<void>();
    constexpr std::pair<std::string_view, std::string_view> settings[] = {{"temperature", "temp"},
                                                                          {"top_k", "top_k"},
                                                                          {"top_p", "top_p"},
                                                                          {"min_p", "min_p"},
                                                                          {"repetition_penalty", "penalty_repeat"}};
    for (const auto& [theirs, ours] : settings) {
        if (!in.has(theirs)) continue;
        const double number = in.number(theirs);
        const std::string key = concat("general.sampling.", ours);
        if (theirs == "top_k" && std::abs(number) < 1e9 && std::trunc(number) == number)
            out.set(key, static_cast<std::int32_t>(number));
        else out.set(key, static_cast<float>(number));
        if (const auto usable = sampling::params_from(out); !usable) {
            out.remove(key);
            notes.push_back(concat("the recommendation ", quoted(theirs),
                                   " of generation_config.json is left out: ", usable.error().message));
        }
    }
    if (in.problem()) return *in.problem();
    return {};
}

}  // namespace colibri::convert
