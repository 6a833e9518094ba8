// colibri convert: a Hugging Face folder to a GGUF file.
#include "colibri/convert/convert.hpp"

#include <chrono>
#include <cmath>

#include "colibri/core/concat.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/text/utf8.hpp"
#include "repl/commands.hpp"
#include "repl/format.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

std::string rate_text(double bytes, double seconds) {
    return concat(bytes_text(static_cast<std::uint64_t>(bytes / std::max(seconds, 1e-3))), "/s");
}

// "writing: 41 %, 310 MiB/s, 12 s left"; the time once a second's work tells it.
std::string progress_text(const progress& p, double seconds) {
    std::string out = concat("writing: ", p.done * 100 / std::max<std::uint64_t>(1, p.total), " %");
    if (seconds < 1.0 || p.done == 0) return out;
    const double done = static_cast<double>(p.done), left = seconds * static_cast<double>(p.total - p.done) / done;
    return concat(out, ", ", rate_text(done, seconds), ", ", fixed(std::ceil(left), 0), " s left");
}

// Shows it ten times a second at most.
progress_fn shown_progress(output& out, const cancel_flag& cancel) {
    const auto begin = clock::now();
    return [&out, &cancel, begin, last = begin](const progress& p) mutable {
        if (std::chrono::duration<double>(clock::now() - last).count() >= 0.1) {
            last = clock::now();
            out.progress(progress_text(p, seconds_since(begin)));
        }
        return !cancel.requested();
    };
}

std::string pre_of(const convert::conversion& made) {
    return made.meta().get_or<std::string>("tokenizer.ggml.pre", {}).value_or(std::string());
}

std::uint64_t tokens_of(const convert::conversion& made) {
    const auto* tokens = made.meta().find("tokenizer.ggml.tokens");
    return tokens != nullptr ? tokens->size() : 0;
}

json as_json(const convert::conversion& made) {
    json out{{"architecture", made.family().architecture},
             {"type", info_of(made.type()).name},
             {"pre_tokenizer", pre_of(made)},
             {"tokens", tokens_of(made)},
             {"tensors", made.tensors().size()},
             {"tensor_bytes", made.tensor_bytes()},
             {"source_bytes", made.source_bytes()}};
    out["notes"] = made.notes();
    return out;
}

json listed(const convert::conversion& made) {
    auto out = json::array();
    for (const auto& tensor : made.tensors()) {
        const auto& info = tensor.info;
        out.push_back({{"name", info.name}, {"type", name(info.type)}, {"bytes", info.bytes}});
        out.back()["shape"] = std::vector<std::uint64_t>(info.dims.begin(), info.dims.begin() + info.n_dims);
    }
    return out;
}

std::string summary(const convert::conversion& made) {
    return concat(made.family().architecture, ", ", counted(made.tensors().size(), "tensor"), ", ",
                  bytes_text(made.tensor_bytes()), " of ", info_of(made.type()).name, ", ", counted(tokens_of(made), "token"),
                  " cut as ", pre_of(made));
}

exit_code plan_only(const convert::conversion& made, bool as_json_text, output& out) {
    if (as_json_text) {
        auto text = as_json(made);
        text["tensor_list"] = listed(made);
        out.print(text.dump() + "\n");
        return exit_code::ok;
    }
    std::string text;
    for (const auto& tensor : made.tensors()) {
        text += concat(escaped(tensor.info.name), "  ", gguf::shape_text(tensor.info), "  ", name(tensor.info.type), "\n");
    }
    out.print(concat(text, summary(made), "\n"));
    return exit_code::ok;
}

exit_code failed(const error& problem, output& out) {
    if (problem.code == errc::canceled) {
        out.remark("interrupted: nothing was written");
        return exit_code::interrupted;
    }
    out.fail(problem.text());
    if (problem.code == errc::invalid_argument) return exit_code::usage;
    const bool file = problem.code == errc::io || problem.code == errc::not_found || problem.code == errc::not_a_file;
    return file ? exit_code::io : exit_code::model;
}

}  // namespace

exit_code convert_command(const arguments& args, output& out) {
    const auto& given = args.given;
    if (args.names.size() != 2 && !(given.dry_run && args.names.size() == 1)) {
        out.fail("a folder and the file to write are needed: colibri convert DIR OUT");
        return exit_code::usage;
    }
    convert::convert_options options;
    options.type = convert::parse_weight_type(given.weight_type.value_or("auto")).value_or(convert::weight_type::automatic);
    options.pre = given.pre.value_or("");
    options.name = given.model_name.value_or("");
    if (!text::is_utf8(options.name)) {
        out.fail("--name: the text is not UTF-8");
        return exit_code::usage;
    }
    cancel_flag cancel;
    const interruptible interrupts(cancel);
    const auto made = convert::conversion::open(args.names[0], options);
    if (!made) return failed(made.error(), out);
    for (const auto& note : made->notes()) out.warn(note);
    if (given.dry_run) return plan_only(*made, given.json, out);

    convert::convert_write_options how;
    const auto threads = static_cast<unsigned>(given.threads.value_or(0));
    how.threads = threads != 0 ? threads : cpu_count();
    how.replace = given.force;
    how.progress = shown_progress(out, cancel);
    const auto begin = clock::now();
    const auto written = made->write(args.names[1], how);
    out.clear_progress();
    if (!written) return failed(written.error(), out);
    const double seconds = seconds_since(begin);
    if (given.json) {
        auto text = as_json(*made);
        text["output"] = text::replace_ill_formed(args.names[1]);
        text["seconds"] = seconds;
        out.print(text.dump() + "\n");
    } else {
        out.print(concat(escaped(args.names[1], 4096), ": ", summary(*made), "; ", fixed(seconds, 1), " s, ",
                         rate_text(static_cast<double>(made->source_bytes()), seconds), " read\n"));
    }
    return exit_code::ok;
}

}  // namespace colibri::repl
