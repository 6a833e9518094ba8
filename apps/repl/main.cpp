// The program colibri.
#include <exception>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/commands.hpp"
#include "repl/suggest.hpp"
#include "repl/terminal.hpp"

namespace colibri::repl {
namespace {

color_choice color_of(const options& given) {
    if (given.color == "always") return color_choice::always;
    return given.color == "never" ? color_choice::never : color_choice::automatic;
}

exit_code help_command(const arguments& args, output& out) {
    if (args.names.empty()) {
        out.print(overview_text(out.color_out()));
        return exit_code::ok;
    }
    std::vector<std::string_view> names;
    for (const auto& row : all_commands()) {
        names.push_back(row.name);
        if (row.name != args.names[0]) continue;
        out.print(row.which == command::help ? overview_text(out.color_out()) : help_text(row.which, out.color_out()));
        return exit_code::ok;
    }
    out.fail(concat("there is no command ", quoted(args.names[0]), suggestion(args.names[0], names)));
    return exit_code::usage;
}

exit_code completion_command(const arguments& args, output& out) {
    if (args.names.size() != 1) {
        out.fail("a shell is needed: colibri completion bash, zsh or fish");
        return exit_code::usage;
    }
    const auto script = completion_script(args.names[0]);
    if (!script) {
        out.fail(script.error().text());
        return exit_code::usage;
    }
    out.print(*script);
    return exit_code::ok;
}

exit_code dispatch(arguments args, output& out) {
    if (args.help && args.which != command::help) {
        out.print(help_text(args.which, out.color_out()));
        return exit_code::ok;
    }
    switch (args.which) {
        case command::chat: return chat_command(std::move(args), out);
        case command::run: return run_command(args, out);
        case command::tokenize: return tokenize_command(args, out);
        case command::inspect: return inspect_command(args, out);
        case command::plan: return plan_command(args, out);
        case command::bench: return bench_command(args, out);
        case command::eval: return eval_command(args, out);
        case command::imatrix: return imatrix_command(args, out);
        case command::completion: return completion_command(args, out);
        case command::version: return version_command(out);
        case command::help: break;
    }
    return help_command(args, out);
}

exit_code run_program(const std::vector<std::string_view>& words) {
    auto args = parse_arguments(words);
    if (!args) {
        output(color_choice::automatic).fail(concat(args.error().message, " (see colibri --help)"));
        return exit_code::usage;
    }
    output out(color_of(args->given));
    const exit_code code = dispatch(std::move(*args), out);
    return out.write_failed() && code == exit_code::ok ? exit_code::io : code;
}

}  // namespace
}  // namespace colibri::repl

int main(int argc, char** argv) {
    using namespace colibri::repl;
    prepare_process();
    try {
        return static_cast<int>(run_program({argv + (argc > 0 ? 1 : 0), argv + argc}));
    } catch (const std::bad_alloc&) {
        output(color_choice::automatic).fail("there is not enough memory; a smaller context (-c) or model needs less");
    } catch (const std::exception& e) {
        output(color_choice::automatic).fail(e.what());
    }
    return static_cast<int>(exit_code::model);
}
