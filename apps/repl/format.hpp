// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace colibri::repl {

/// `number` with that many digits behind the point, whatever the locale.
[[nodiscard]] std::string fixed(double number, int digits);

/// "98.2 MiB"; bytes below 1 KiB are exact.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// "1 token", "2 tokens".
[[nodiscard]] std::string counted(std::uint64_t count, const char* singular);

}  // namespace colibri::repl
