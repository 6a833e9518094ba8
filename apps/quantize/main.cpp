// The program colibri-quantize.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/cancel.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/eval/imatrix_file.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/quantize/job.hpp"
#include "colibri/version.hpp"
#include "quantize/exit_code.hpp"
#include "quantize/options.hpp"
#include "quantize/report.hpp"
#include "quantize/screen.hpp"

namespace colibri::quantize_program {
namespace {

cancel_flag stop;

/// Whether there is something to clean up. Before that an end at once loses nothing, and nobody may be looking at `stop`: a regular
/// expression can take for ever.
std::atomic<bool> writing{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void ask_to_stop(int) {
    if (writing.load(std::memory_order_relaxed)) return stop.request();
    constexpr std::string_view text = "colibri-quantize: interrupted; nothing was written\n";
    if (::isatty(STDERR_FILENO) != 0) (void)!::write(STDERR_FILENO, "\r\x1b[K", 4);
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    std::_Exit(static_cast<int>(exit_code::interrupted));
}

/// Streams that whoever started this closed would be taken by the files that are opened.
void prepare_process() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF && ::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) {
            std::_Exit(static_cast<int>(exit_code::io));
        }
    }
    ::signal(SIGPIPE, SIG_IGN);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction before {};
        if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
        struct sigaction action {};
        action.sa_handler = ask_to_stop;
        sigemptyset(&action.sa_mask);
        action.sa_flags = SA_RESTART;
        ::sigaction(number, &action, nullptr);
    }
}

exit_code failed(screen& shown, const error& e) {
    if (e.code == errc::canceled) {
        shown.say("colibri-quantize: interrupted; nothing was written");
        return exit_code::interrupted;
    }
    shown.say(concat("colibri-quantize: ", e.text()));
    return status_of(e.code);
}

/// A small text file. Errors: those of file_reader; limit.
result<std::string> read_text(const std::string& path) {
    auto file = file_reader::open(path);
    if (!file) return std::move(file).error();
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    if ((*file)->size() > most) return error{errc::limit, concat(quoted(path), " is too large for what it should be")};
    std::string out(static_cast<std::size_t>((*file)->size()), '\0');
    if (auto ok = (*file)->read_at(0, std::as_writable_bytes(std::span(out))); !ok) return std::move(ok).error();
    return out;
}

/// Reads the files that options name. Errors: theirs, with the option in front.
result<void> read_files(options& given) {
    for (const auto& path : given.type_files) {
        auto text = read_text(path);
        if (!text) return std::move(text).error().within("--tensor-type-file");
        if (auto ok = given.asked.types.rules.add_all(*text); !ok) return std::move(ok).error().within(concat("--tensor-type-file ", quoted(path)));
        given.asked.other_inputs.emplace_back(path);
    }
    if (!given.importance.empty()) {
        auto matrix = eval::read_imatrix(given.importance);
        if (!matrix) return std::move(matrix).error().within("--imatrix");
        given.asked.importance = quantize::importance_weights::of(std::move(*matrix), given.importance);
        given.asked.other_inputs.emplace_back(given.importance);
    }
    if (!given.heat.empty()) {
        auto text = read_text(given.heat);
        if (!text) return std::move(text).error().within("--order");
        auto heat = quantize::read_heat(*text);
        if (!heat) return std::move(heat).error().within(concat("--order ", quoted(given.heat)));
        given.asked.heat = std::move(*heat);
        given.asked.other_inputs.emplace_back(given.heat);
    }
    return {};
}

/// Standard output has what was asked for and nothing else. A reader that went away is no failure.
exit_code print(screen& shown, std::string_view text) {
    shown.clear();
    if (write_all(STDOUT_FILENO, text) || errno == EPIPE) return exit_code::ok;
    return failed(shown, colibri::detail::system_error("write", "standard output", errno));
}

exit_code run(options given) {
    screen shown;
    if (auto ok = read_files(given); !ok) return failed(shown, ok.error());
    const unsigned processors = read_cpu_limits().batch_threads();
    thread_pool pool(given.threads != 0 ? given.threads : processors);
    const auto watch = [&](std::string_view what, bool are_bytes) {
        return [&shown, what, are_bytes](const progress& now) {
            shown.progress(what, now.done, now.total, are_bytes);
            return !stop.requested();
        };
    };
    given.asked.plan_only = given.dry_run;
    const bool has_output = !given.asked.output.empty();
    auto job = quantize::job::prepare(std::move(given.asked), pool, watch("measuring", false));
    shown.clear();
    if (!job) return failed(shown, job.error());
    for (const auto& note : job->planned().notes) shown.say(concat("note: ", note));
    const auto& plan = job->planned();
    if (given.dry_run) {
        if (has_output) {
            if (auto ok = job->check_output(); !ok) return failed(shown, ok.error());
        }
        if (given.json) return print(shown, json_report(*job, given, {}));
        std::string text;
        for (std::size_t i = 0; i < plan.tensors.size(); ++i) text += tensor_line(plan, i) + "\n";
        return print(shown, text + sums_line(*job) + "\n");
    }
    const auto begin = std::chrono::steady_clock::now();
    quantize::pipeline_observer observer{watch("quantising", true), {}};
    if (given.verbose || !shown.has_bar()) observer.written = [&](std::size_t tensor) { shown.say(tensor_line(plan, tensor)); };
    writing.store(true, std::memory_order_relaxed);
    auto done = job->write(pool, observer);
    shown.clear();
    if (!done) return failed(shown, done.error());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    shown.say(concat(sums_line(*job), ", in ", seconds < 60.0 ? concat(fixed(seconds, 1), " s") : time_text(seconds)));
    return given.json ? print(shown, json_report(*job, given, seconds)) : exit_code::ok;
}

exit_code run_program(std::span<const std::string_view> words) {
    auto given = parse_options(words);
    if (!given) {
        screen().say(concat("colibri-quantize: ", given.error().text(), " (see colibri-quantize --help)"));
        return exit_code::usage;
    }
    screen shown;
    if (given->help) return print(shown, help_text());
    if (given->version) return print(shown, concat("colibri-quantize ", version_string, "\n"));
    return run(std::move(*given));
}

}  // namespace
}  // namespace colibri::quantize_program

int main(int argc, char** argv) {
    using namespace colibri::quantize_program;
    prepare_process();
    try {
        const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
        return static_cast<int>(run_program(words));
    } catch (const std::bad_alloc&) {
        screen().say("colibri-quantize: there is not enough memory");
    } catch (const std::exception& e) {
        screen().say(colibri::concat("colibri-quantize: ", std::string_view(e.what())));
    }
    return static_cast<int>(exit_code::model);
}
