#include "repl/format.hpp"

#include <charconv>
#include <string_view>

#include "colibri/core/concat.hpp"

namespace colibri::repl {

std::string fixed(double number, int digits) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, digits);
    return end.ec == std::errc() ? std::string(text, end.ptr) : concat(number);
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) return concat(bytes, bytes == 1 ? " byte" : " bytes");
    auto amount = static_cast<double>(bytes) / 1024.0;
    std::size_t unit = 0;
    while (amount >= 1024.0 && unit + 1 < std::size(units)) {
        amount /= 1024.0;
        ++unit;
    }
    return concat(fixed(amount, amount < 10.0 ? 2 : amount < 100.0 ? 1 : 0), " ", units[unit]);
}

std::string counted(std::uint64_t count, const char* singular) {
    return concat(count, " ", std::string_view(singular), count == 1 ? "" : "s");
}

}  // namespace colibri::repl
