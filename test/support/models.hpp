// The real models of the tests, as scripts/models.sh leaves them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

namespace models {

/// The folder that COLIBRI_MODELS names; else the user's cache folder for Colibri.
inline std::filesystem::path folder() {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    if (const auto named = variable("COLIBRI_MODELS"); !named.empty()) return named;
    if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return std::filesystem::path(cache) / "colibri";
    return std::filesystem::path(variable("HOME")) / ".cache" / "colibri";
}

/// The file of "smollm2" or "gemma3"; nothing (reported as absent) if scripts/models.sh didn't bring it.
inline std::optional<std::filesystem::path> file(const std::string& name) {
    auto path = folder() / (name + ".gguf");
    if (std::filesystem::is_regular_file(path)) return path;
    std::cout << "golden: model " << name << ": absent (scripts/models.sh brings it)\n";
    return std::nullopt;
}

/// True where the machine is too slow for long runs (sanitizers, emulation): run the short cases of real models only.
inline bool short_cases_only() {
    const char* value = std::getenv("COLIBRI_SHORT");
    return value != nullptr && *value != '\0' && *value != '0';
}

}  // namespace models
