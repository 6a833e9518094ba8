// Folders and files for the tests of convert/.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "colibri/convert/convert.hpp"
#include "colibri/gguf/file.hpp"
#include "convert/made_files.hpp"
#include "support/golden.hpp"
#include "support/scratch.hpp"

namespace folders {

/// A copy of a golden model's hf/ folder that a test may change.
class copy {
public:
    explicit copy(const std::string& name) {
        std::filesystem::copy(golden::root() / "models" / name / "hf", path(), std::filesystem::copy_options::recursive);
        for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
            std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all, std::filesystem::perm_options::add);
        std::filesystem::permissions(path(), std::filesystem::perms::owner_all, std::filesystem::perm_options::add);
    }
    [[nodiscard]] std::filesystem::path path() const { return work_.path() / "hf"; }
    [[nodiscard]] std::filesystem::path target() const { return work_.path() / "out.gguf"; }
    [[nodiscard]] const std::filesystem::path& work() const { return work_.path(); }

    /// Changes one JSON file.
    void change(const std::string& file, const std::function<void(json&)>& edit) const {
        auto tree = json::parse(scratch::read(path() / file), nullptr, false);
        if (tree.is_discarded()) tree = json::object();
        edit(tree);
        scratch::write(path() / file, tree.dump());
    }

private:
    scratch::folder work_;
};

/// The error of opening a folder; the test fails if it opens.
inline colibri::error refused(const std::filesystem::path& path, const colibri::convert::convert_options& options = {}) {
    const auto made = colibri::convert::conversion::open(path, options);
    REQUIRE(!made);
    return made.error();
}
inline colibri::convert::conversion opened(const std::filesystem::path& path,
                                           const colibri::convert::convert_options& options = {}) {
    auto made = colibri::convert::conversion::open(path, options);
    REQUIRE_MESSAGE(made, (made ? std::string() : made.error().text()));
    return *std::move(made);
}
inline bool has_note(const colibri::convert::conversion& made, const std::string& part) {
    for (const auto& note : made.notes()) {
        if (note.find(part) != std::string::npos) return true;
    }
    return false;
}

}  // namespace folders
