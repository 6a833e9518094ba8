// colibri inspect: what is in a GGUF file.
#include "colibri/gguf/listing.hpp"
#include "repl/commands.hpp"

namespace colibri::repl {

exit_code inspect_command(const arguments& args, output& out) {
    auto names = args.names;
    if (args.given.model) names.insert(names.begin(), *args.given.model);
    if (names.size() != 1) {
        out.fail(names.empty() ? "a file is needed: colibri inspect FILE" : "one file at a time: colibri inspect FILE");
        return exit_code::usage;
    }
    const auto file = gguf::file::open(names[0]);
    if (!file) {
        out.fail(file.error().text());
        return exit_code::model;
    }
    const gguf::listing_options options{.style = {}, .tensors = !args.given.no_tensors};
    out.print(args.given.json ? gguf::listing_json(*file, options) + "\n" : gguf::listing_text(*file, options));
    return exit_code::ok;
}

}  // namespace colibri::repl
