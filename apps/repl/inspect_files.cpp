// colibri inspect --split, --merge, --set and --remove: what writes files.
#include "colibri/gguf/edit.hpp"
#include "colibri/gguf/rewrite.hpp"
#include "colibri/gguf/value_text.hpp"
#include "colibri/io/output_check.hpp"
#include "colibri/io/stale_temporaries.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/inspect.hpp"

namespace colibri::repl {
namespace {

std::vector<std::filesystem::path> files_of(const gguf::file& model) {
    std::vector<std::filesystem::path> out;
    for (const auto& part : model.parts()) out.push_back(part.path);
    return out;
}

// The names of the files that were written, one a line.
void tell_files(const inspection& job, std::span<const std::filesystem::path> paths) {
    std::string out;
    for (const auto& path : paths) {
        const std::string name = path.string();
        out += job.args.given.json ? concat(out.empty() ? "{\"files\":[" : ",", gguf::json_text(name)) : concat(escaped(name, 4096), "\n");
    }
    job.out.print(job.args.given.json ? out + "]}\n" : out);
}

exit_code write_files(const inspection& job, const std::filesystem::path& output, const gguf::split_limits& limits, std::string_view verb) {
    const auto plan = gguf::plan_rewrite(job.model, output, limits);
    if (!plan) return job.fail(plan.error());
    for (const auto& path : plan->paths) {
        if (auto ok = check_output(path, files_of(job.model), job.args.given.force); !ok) return job.fail(ok.error());
    }
    if (auto ok = gguf::rewrite(job.model, *plan, output, job.watch(verb)); !ok) return job.fail(ok.error());
    job.out.clear_progress();
    tell_files(job, plan->paths);
    return exit_code::ok;
}

// "KEY=file:NAME" is the file's text.
result<gguf::metadata::entry> change_of(std::string_view text, const gguf::metadata& meta) {
    const auto equals = text.find('=');
    constexpr std::string_view kind = "file:";
    if (equals == std::string_view::npos || equals == 0 || !text.substr(equals + 1).starts_with(kind)) return gguf::parse_edit(text, meta);
    const std::string name(text.substr(equals + 1 + kind.size()));
    auto read = read_whole_file(name);
    if (!read) return std::move(read).error();
    if (!gguf::detail::is_utf8(*read)) return error{errc::bad_value, concat(quoted(name), " is not a text in UTF-8")};
    return gguf::metadata::entry{std::string(text.substr(0, equals)), gguf::value::of(std::string_view(*read))};
}

}  // namespace

exit_code inspect_split(const inspection& job) {
    const options& given = job.args.given;
    gguf::split_limits limits;
    if (given.split_parts && (given.split_size || given.split_tensors)) {
        return job.fail({errc::invalid_argument, "--split and limits of the files exclude each other"});
    }
    if (given.split_parts) limits.parts = static_cast<unsigned>(*given.split_parts);
    if (given.split_tensors) limits.max_tensors = static_cast<std::uint64_t>(*given.split_tensors);
    if (given.split_size) {
        auto size = gguf::parse_shard_size(*given.split_size);
        if (size && *size == 0) size = error{errc::bad_value, "files of 0 bytes hold nothing"};
        if (!size) return job.fail({errc::invalid_argument, concat("--split-max-size: ", size.error().message)});
        limits.max_bytes = *size;
    }
    const std::filesystem::path model = job.model.parts()[0].path;
    return write_files(job, job.second.empty() ? model : std::filesystem::path(job.second), limits, "splitting");
}

exit_code inspect_merge(const inspection& job) { return write_files(job, job.second, {}, "merging"); }

exit_code inspect_edit(const inspection& job) {
    const options& given = job.args.given;
    gguf::metadata_edit edit{.remove = given.remove_keys, .set = {}};
    for (const auto& text : given.set_keys) {
        auto change = change_of(text, job.model.meta());
        if (!change) {
            job.out.fail(concat("--set: ", change.error().text()));
            return change.error().code == errc::bad_value ? exit_code::usage : exit_code::io;
        }
        edit.set.push_back(std::move(*change));
    }
    const auto& path = job.model.parts()[0].path;
    if (!job.second.empty()) {
        if (job.model.parts().size() > 1) {
            return job.fail({errc::invalid_argument, "a split model's metadata is changed in its first file; give no OUT, or merge it first"});
        }
        if (auto ok = check_output(job.second, files_of(job.model), given.force); !ok) return job.fail(ok.error());
    } else if (given.force) {
        return job.fail({errc::invalid_argument, "--force does nothing without OUT: the model itself is changed"});
    }
    remove_stale_temporaries(job.second.empty() ? path : std::filesystem::path(job.second));
    const auto way = gguf::edit_metadata(path, edit, job.second, job.watch("copying"));
    if (!way) {
        if (way.error().code == errc::bad_value || way.error().code == errc::bad_count || way.error().code == errc::bad_utf8) {
            job.out.clear_progress();
            job.out.fail(way.error().text());
            return exit_code::usage;
        }
        return job.fail(way.error());
    }
    job.out.clear_progress();
    const std::string_view said = *way == gguf::edit_way::none ? "unchanged" : *way == gguf::edit_way::in_place ? "in-place" : "rewritten";
    const std::string name = job.second.empty() ? path.string() : job.second;
    job.out.print(given.json ? concat("{\"file\":", gguf::json_text(name), ",\"way\":", gguf::json_text(said), "}\n")
                             : concat(escaped(name, 4096), ": ",
                                      *way == gguf::edit_way::none       ? "had these values already"
                                      : *way == gguf::edit_way::in_place ? "changed in place"
                                                                         : "written anew",
                                      "\n"));
    return exit_code::ok;
}

}  // namespace colibri::repl
