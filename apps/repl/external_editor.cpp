#include "repl/external_editor.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "colibri/io/file_handle.hpp"
#include "repl/files.hpp"

namespace colibri::repl {
namespace {

const char* chosen_editor() {
    for (const char* name : {"VISUAL", "EDITOR"}) {
        if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
    }
    return nullptr;
}

// Removes the file whatever happens.
struct temporary_file {
    std::string path;
    ~temporary_file() { ::unlink(path.c_str()); }
};

// Runs `command FILE` and returns wait's status, -1 if it couldn't be started. As with system(3), Ctrl-C and Ctrl-\ are
// the editor's alone meanwhile.
int run_and_wait(const char* command, const std::string& file) {
    const std::string script = concat(command, " \"$1\"");
    struct sigaction ignore {
    }, interrupt{}, quit{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &interrupt);
    ::sigaction(SIGQUIT, &ignore, &quit);
    int status = -1;
    const pid_t child = ::fork();
    if (child == 0) {
        for (const int signal : {SIGINT, SIGQUIT, SIGPIPE, SIGTSTP}) std::signal(signal, SIG_DFL);
        ::execl("/bin/sh", "sh", "-c", script.c_str(), "sh", file.c_str(), static_cast<char*>(nullptr));
        ::_exit(127);
    }
    if (child > 0) {
        while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    }
    ::sigaction(SIGINT, &interrupt, nullptr);
    ::sigaction(SIGQUIT, &quit, nullptr);
    return status;
}

}  // namespace

result<std::string> edit_in_external_editor(std::string_view text) {
    const char* command = chosen_editor();
    if (command == nullptr) {
        return error{errc::not_found, "no editor is known: set the environment variable VISUAL or EDITOR"};
    }
    std::error_code problem;
    auto folder = std::filesystem::temp_directory_path(problem);
    if (problem) folder = "/tmp";
    temporary_file file{(folder / "colibri-message-XXXXXX.md").string()};
    unique_fd handle(::mkstemps(file.path.data(), 3));  // mode 0600
    if (!handle.is_open()) return detail::system_error("write", file.path, errno);
    std::string content(text);
    if (!content.empty()) content += '\n';
    for (std::string_view rest = content; !rest.empty();) {
        const ssize_t done = ::write(handle.get(), rest.data(), rest.size());
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return detail::system_error("write", file.path, errno);
        rest.remove_prefix(static_cast<std::size_t>(done));
    }
    handle.close();

    const int status = run_and_wait(command, file.path);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return error{errc::canceled, concat("the editor ", quoted(std::string_view(command)),
                                            " failed, so the message stays as it was")};
    }
    auto edited = read_whole_file(file.path);
    if (!edited) return edited;
    std::size_t replaced = 0;
    return as_text(*edited, replaced);
}

}  // namespace colibri::repl
