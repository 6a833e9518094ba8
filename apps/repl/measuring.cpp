#include "repl/measuring.hpp"

#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/io/output_check.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/source.hpp"

namespace colibri::repl {

std::optional<std::string> read_text_file(const std::string& path, output& out) {
    auto bytes = read_whole_file(expand_home(path));
    if (!bytes) {
        out.fail(bytes.error().text());
        return std::nullopt;
    }
    if (bytes->ends_with('\n')) bytes->pop_back();
    return *std::move(bytes);
}

exit_code may_write(const std::string& path, const options& given, output& out) {
    std::vector<std::filesystem::path> inputs;
    for (const auto* name : {&given.model, &given.prompt_file, &given.base}) {
        if (*name) inputs.push_back(expand_home(**name));
    }
    if (given.model) {  // a split one's other parts; what else is wrong with it, opening it will tell
        if (const auto file = gguf::file::open(*given.model)) {
            for (const auto& part : file->parts()) inputs.push_back(part.path);
        }
    }
    if (auto ok = check_output(path, inputs, given.force); !ok) return tell(ok.error(), out);
    return exit_code::ok;
}

std::optional<model> open_for_windows(const options& given, std::uint32_t window, bool logits, session_options& use, output& out,
                                      exit_code& failed) {
    const auto refuse = [&](const error& problem) {
        out.clear_progress();
        out.fail(problem.text());
        failed = problem.code == errc::invalid_argument ? exit_code::usage : exit_code::model;
        return std::nullopt;
    };
    if (auto ok = choose_target(given); !ok) return refuse(ok.error());
    use = sizes_of(given);
    if (given.exact) {
        if (!given.cache_k) use.cache_k = kv_type::f32;
        if (!given.cache_v) use.cache_v = kv_type::f32;
    }
    use.context = window;
    const auto how = holding_options(given, use);
    if (!how) return refuse(how.error());
    const auto header = model::open_header(given.model.value_or(""), *how);
    if (!header) return refuse(header.error());
    use = eval::window_sizes(*header, use, window, logits);
    auto planned = use;
    planned.outputs += use.outputs / 2;  // what a step's logits become, in half as many bytes
    auto opened = open_source(given, planned, [&out, next = std::chrono::steady_clock::now() + std::chrono::milliseconds(500)](
                                              const progress& p) mutable {
        if (const auto now = std::chrono::steady_clock::now(); now > next) {
            out.progress(concat("reading weights: ", bytes_text(p.done), " of ", bytes_text(p.total)));
            next = now + std::chrono::milliseconds(100);
        }
        return true;
    });
    out.clear_progress();
    if (!opened) return refuse(opened.error());
    for (const auto& note : opened->notes()) out.warn(note);
    for (const auto& note : opened->memory().notes) out.warn(note);
    return *std::move(opened);
}

window_progress::window_progress(output& out, std::size_t total, std::size_t begin) : out_(out), total_(total), begin_(begin) {}

double window_progress::seconds() const { return std::chrono::duration<double>(clock::now() - start_).count(); }

void window_progress::show(std::size_t done, std::string_view figure) {
    std::string line = concat("window ", done, " of ", total_);
    if (!figure.empty()) line += concat(", ", figure);
    if (const double taken = seconds(); done > begin_ && done < total_ && taken >= 1.0) {
        const double left = std::ceil(taken * static_cast<double>(total_ - done) / static_cast<double>(done - begin_));
        line += left < 120.0    ? concat(", ", fixed(left, 0), " s left")
                : left < 7200.0 ? concat(", ", fixed(std::ceil(left / 60.0), 0), " min left")
                                : concat(", ", fixed(left / 3600.0, 1), " h left");
    }
    if (out_.err_is_terminal()) {
        if (done < total_) out_.progress(line);
        else out_.clear_progress();
    } else if (const auto now = clock::now(); now >= next_line_ && done < total_) {
        out_.remark(line);
        next_line_ = now + std::chrono::seconds(10);
    }
}

exit_code tell(const error& problem, output& out) {
    out.clear_progress();
    out.fail(problem.text());
    switch (problem.code) {
        case errc::bad_count:  // a text that is too short
        case errc::invalid_argument: return exit_code::usage;
        case errc::io:
        case errc::not_found:
        case errc::not_a_file: return exit_code::io;
        case errc::canceled: return exit_code::interrupted;
        default: return exit_code::model;
    }
}

}  // namespace colibri::repl
