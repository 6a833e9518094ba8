#include "repl/history.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "colibri/io/file_handle.hpp"
#include "repl/display.hpp"
#include "repl/files.hpp"

namespace colibri::repl {
namespace {

// Drops the oldest entries until both limits hold.
void trim(std::vector<std::string>& entries) {
    std::size_t bytes = 0;
    std::size_t kept = 0;
    while (kept < entries.size() && kept < history::max_entries) {
        bytes += entries[entries.size() - 1 - kept].size() + 1;
        if (bytes > history::max_bytes && kept > 0) break;
        ++kept;
    }
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(kept));
}

result<std::vector<std::string>> read_entries(const std::filesystem::path& file) {
    std::vector<std::string> entries;
    std::error_code problem;
    if (!std::filesystem::is_regular_file(file, problem)) return entries;
    auto bytes = read_whole_file(file);
    if (!bytes) return std::move(bytes).error();
    for (std::string_view rest = *bytes; !rest.empty();) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        std::size_t replaced = 0;
        auto entry = decode_history_entry(valid_utf8(rest.substr(0, end), replaced));
        if (!entry.empty()) entries.push_back(std::move(entry));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    trim(entries);
    return entries;
}

// Makes the missing folders above `file`, for their owner only.
result<void> make_folders(const std::filesystem::path& folder) {
    std::error_code problem;
    if (folder.empty() || std::filesystem::is_directory(folder, problem)) return {};
    if (auto above = make_folders(folder.parent_path()); !above) return above;
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return detail::system_error("make", folder, errno);
    return {};
}

// Keeps other programs from writing while it lives. Where locks don't work, the last writer wins.
class folder_lock {
public:
    explicit folder_lock(const std::filesystem::path& folder)
        : handle_(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        while (handle_.is_open() && ::flock(handle_.get(), LOCK_EX) != 0 && errno == EINTR) continue;
    }

private:
    unique_fd handle_;
};

}  // namespace

std::optional<std::filesystem::path> default_history_file() {
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
        return std::filesystem::path(state) / "colibri" / "history";
    }
    if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
        return std::filesystem::path(home) / ".local" / "state" / "colibri" / "history";
    }
    return std::nullopt;
}

std::string encode_history_entry(std::string_view entry) {
    std::string out;
    for (const char c : entry) {
        if (c == '\\') out += "\\\\";
        else if (c == '\n') out += "\\n";
        else if (c == '\r') out += "\\r";
        else out += c;
    }
    return out;
}

std::string decode_history_entry(std::string_view line) {
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] != '\\' || i + 1 == line.size()) {
            out += line[i];
            continue;
        }
        const char next = line[++i];
        out += next == 'n' ? '\n' : next == 'r' ? '\r' : next;
    }
    return out;
}

result<void> history::attach(std::filesystem::path file) {
    auto read = read_entries(file);
    if (!read) return std::move(read).error();
    file_ = std::move(file);
    if (entries_.empty()) entries_ = std::move(*read);
    return {};
}

result<void> history::add(std::string_view entry) {
    if (entry.empty() || (!entries_.empty() && entries_.back() == entry)) return {};
    entries_.emplace_back(entry);
    trim(entries_);
    if (!file_) return {};
    const auto folder = file_->parent_path();
    if (auto made = make_folders(folder); !made) return made;
    const folder_lock lock(folder);
    auto saved = read_entries(*file_);
    if (!saved) return std::move(saved).error();
    if (!saved->empty() && saved->back() == entry) return {};
    saved->emplace_back(entry);
    trim(*saved);
    std::string bytes;
    for (const auto& each : *saved) bytes += encode_history_entry(each) + '\n';
    return replace_private_file(*file_, bytes);
}

}  // namespace colibri::repl
