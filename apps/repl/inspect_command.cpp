// colibri inspect: what is in a GGUF file.
#include "colibri/gguf/listing.hpp"
#include "repl/commands.hpp"

namespace colibri::repl {

exit_code inspect_command(const arguments& args, output& out) {
    const auto name = only_name(args, "file", "colibri inspect FILE");
    if (!name) {
        out.fail(name.error().message);
        return exit_code::usage;
    }
    const auto file = gguf::file::open(*name);
    if (!file) {
        out.fail(file.error().text());
        return exit_code::model;
    }
    const gguf::listing_options options{.style = {}, .tensors = !args.given.no_tensors};
    out.print(args.given.json ? gguf::listing_json(*file, options) + "\n" : gguf::listing_text(*file, options));
    return exit_code::ok;
}

}  // namespace colibri::repl
