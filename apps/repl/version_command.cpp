// colibri --version: the version, and which kernels run here.
#include "colibri/simd/targets.hpp"
#include "colibri/version.hpp"
#include "repl/commands.hpp"

namespace colibri::repl {

exit_code version_command(output& out) {
    if (auto forced = simd::force_target_from_environment(); !forced) {
        out.fail(forced.error().text());
        return exit_code::usage;
    }
    std::string others;
    for (const auto& target : simd::targets()) {
        if (!target.compiled || target.name == simd::target_name()) continue;
        others += concat(others.empty() ? "" : ", ", target.name, target.runnable ? "" : " (not on this CPU)");
    }
    out.print(concat("colibri ", version_string, "\nSIMD target: ", simd::target_name(), "\n",
                     others.empty() ? "" : concat("also built in: ", others, "\n")));
    return exit_code::ok;
}

}  // namespace colibri::repl
