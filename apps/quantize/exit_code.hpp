// What the program's exit status says; documented in docs/quantize.md.
#pragma once

#include "colibri/core/error.hpp"

namespace colibri::quantize_program {

enum class exit_code : int {
    ok = 0,
    usage = 1,          ///< a wrong option or value, or a request that is refused as it stands
    model = 2,          ///< the model or the importance matrix can't be used
    io = 4,             ///< reading or writing failed
    interrupted = 130,  ///< Ctrl-C, or asked to end
};

/// The status for an error of the library.
[[nodiscard]] constexpr exit_code status_of(errc code) noexcept {
    switch (code) {
        case errc::invalid_argument: return exit_code::usage;
        case errc::io:
        case errc::not_found:
        case errc::not_a_file: return exit_code::io;
        case errc::canceled: return exit_code::interrupted;
        default: return exit_code::model;
    }
}

}  // namespace colibri::quantize_program
