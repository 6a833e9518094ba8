// colibri inspect: what is in a GGUF file, and small changes of it.
#include "colibri/gguf/listing.hpp"
#include "repl/commands.hpp"
#include "repl/format.hpp"
#include "repl/inspect.hpp"
#include "repl/terminal.hpp"

namespace colibri::repl {
namespace {

struct action_row {
    std::string_view option;  ///< that asks for it
    bool asked;
    exit_code (*run)(const inspection&);
    std::string_view second;  ///< what the second name is; empty: there is none
    bool second_needed;
};

exit_code list(const inspection& job) {
    const options& given = job.args.given;
    const gguf::listing_options shown{.style = {},
                                      .tensors = !given.no_tensors,
                                      .keys = given.key_pattern.value_or("*"),
                                      .tensor_names = given.tensor_pattern.value_or("*")};
    job.out.print(given.json ? gguf::listing_json(job.model, shown) + "\n" : gguf::listing_text(job.model, shown));
    return exit_code::ok;
}

// The one action that was asked for.
result<action_row> chosen(const options& given) {
    const bool split = given.split_parts || given.split_size || given.split_tensors;
    const bool edit = !given.set_keys.empty() || !given.remove_keys.empty();
    const action_row actions[] = {{"--hash", given.hash, inspect_hash, "", false},
                                  {"--check", given.check, inspect_check, "LIST", false},
                                  {"--diff", given.diff, inspect_diff, "OTHER", true},
                                  {"--split", split, inspect_split, "OUT", false},
                                  {"--merge", given.merge, inspect_merge, "OUT", true},
                                  {"--set and --remove", edit, inspect_edit, "OUT", false}};
    action_row out{"", true, list, "", false};
    for (const auto& action : actions) {
        if (!action.asked) continue;
        if (!out.option.empty()) return error{errc::invalid_argument, concat(out.option, " and ", action.option, " can't be done at once")};
        out = action;
    }
    const auto only_with = [&](bool is_given, std::string_view option, bool fits, std::string_view where) -> result<void> {
        if (!is_given || fits) return {};
        return error{errc::invalid_argument, concat(option, " does nothing here; it belongs to ", where)};
    };
    const bool listing = out.run == list;
    for (const auto& ok : {only_with(given.no_tensors, "--no-tensors", listing, "the listing"),
                           only_with(given.key_pattern.has_value(), "--key", listing, "the listing"),
                           only_with(given.tensor_pattern.has_value(), "--tensor", listing, "the listing"),
                           only_with(given.force, "--force", out.second == "OUT", "--split, --merge, --set and --remove")}) {
        if (!ok) return ok.error();
    }
    return out;
}

}  // namespace

progress_fn inspection::watch(std::string_view verb, bool bytes) const {
    return [this, verb, bytes](const progress& p) {
        if (cancel.requested()) return false;
        out.progress(bytes ? concat(verb, ": ", bytes_text(p.done), " of ", bytes_text(p.total))
                           : concat(verb, ": ", p.total == 0 ? 100 : 100 * (p.done / 1024) / std::max<std::uint64_t>(p.total / 1024, 1), " %"));
        return true;
    };
}

exit_code inspection::fail(const error& problem) const {
    out.clear_progress();
    switch (problem.code) {
        case errc::canceled: out.remark("interrupted: nothing was changed"); return exit_code::interrupted;
        case errc::invalid_argument:
        case errc::missing_key:
        case errc::limit: out.fail(problem.text()); return exit_code::usage;
        case errc::io:
        case errc::not_found:
        case errc::not_a_file: out.fail(problem.text()); return exit_code::io;
        default: out.fail(problem.text()); return exit_code::model;
    }
}

exit_code inspect_command(const arguments& args, output& out) {
    const auto wrong = [&](std::string_view what) {
        out.fail(what);
        return exit_code::usage;
    };
    const auto action = chosen(args.given);
    if (!action) return wrong(action.error().message);
    auto names = args.names;
    if (args.given.model) names.insert(names.begin(), *args.given.model);
    const std::string usage = concat("colibri inspect ", action->second.empty() ? "FILE" : "MODEL ", action->second,
                                     action->option.empty() ? "" : " ", action->option);
    if (names.empty()) return wrong(concat("a file is needed: ", usage));
    if (names.size() == 1 && action->second_needed) return wrong(concat("a second name is needed: ", usage));
    if (names.size() > (action->second.empty() ? 1u : 2u)) {
        return wrong(concat(action->second.empty() ? "one file" : "two names", " at a time: ", usage));
    }
    const auto model = gguf::file::open(names[0]);
    if (!model) {
        out.fail(model.error().text());
        return exit_code::model;
    }
    cancel_flag cancel;
    const interruptible interrupts(cancel);
    const exit_code code = action->run({args, *model, names.size() > 1 ? names[1] : std::string(), out, cancel});
    out.clear_progress();
    return code;
}

}  // namespace colibri::repl
