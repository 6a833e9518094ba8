// A folder of its own for a test, removed at the end, and small helpers to fill it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace scratch {

/// A new empty folder in the system's folder for temporary files; removed with all that is in it when it goes.
class folder {
public:
    folder() {
        static std::atomic<int> counter{0};
        path_ = std::filesystem::temp_directory_path() /
                ("colibri-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)));
        std::filesystem::create_directories(path_);
    }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    ~folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    /// Writes a file (and the folders above it) below this folder.
    std::filesystem::path put(const std::filesystem::path& name, std::string_view text) const {
        const auto target = path_ / name;
        std::filesystem::create_directories(target.parent_path());
        std::ofstream(target, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
        return target;
    }

private:
    std::filesystem::path path_;
};

/// Makes `text` a file's content.
inline void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

/// All bytes of a file.
inline std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Files and folders in a folder.
inline std::size_t count(const std::filesystem::path& path) {
    std::size_t out = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++out;
    return out;
}

}  // namespace scratch
