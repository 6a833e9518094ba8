// Dates for templates, without the locale.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "colibri/core/concat.hpp"

namespace colibri::jinja {

/// A moment as a calendar and a clock on the wall show it.
struct civil_time {
    int year = 1970;
    int month = 1;   ///< 1 to 12
    int day = 1;     ///< 1 to 31
    int hour = 0;    ///< 0 to 23
    int minute = 0;
    int second = 0;

    [[nodiscard]] bool operator==(const civil_time&) const = default;
};

/// The local time of this machine.
[[nodiscard]] inline civil_time local_time_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    return {parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec};
}

/// `when` in the given format: the conversions of C's strftime in the C locale, and glibc's `-` flag (no padding). Time zones
/// print as nothing, as for a Python datetime without one. Unknown conversions stay as they stand.
[[nodiscard]] std::string format_time(std::string_view format, const civil_time& when);

namespace detail {

/// Days from 0000-03-01 to the date (proleptic Gregorian).
[[nodiscard]] constexpr std::int64_t day_number(std::int64_t year, std::int64_t month, std::int64_t day) noexcept {
    const std::int64_t y = month <= 2 ? year - 1 : year;
    const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
    const std::int64_t in_era = y - era * 400;
    const std::int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year;
}

/// 0 = Sunday.
[[nodiscard]] constexpr int weekday(const civil_time& t) noexcept {
    const std::int64_t n = day_number(t.year, t.month, t.day) + 3;  // 0000-03-01 was a Wednesday
    return static_cast<int>((n % 7 + 7) % 7);
}
static_assert(weekday({2026, 7, 4}) == 6 && weekday({1970, 1, 1}) == 4);

struct iso_week {
    std::int64_t year;
    std::int64_t week;
};

[[nodiscard]] constexpr iso_week iso_week_of(const civil_time& t) noexcept {
    const int from_monday = (weekday(t) + 6) % 7;
    const std::int64_t thursday = day_number(t.year, t.month, t.day) - from_monday + 3;
    std::int64_t year = t.year;
    if (thursday < day_number(year, 1, 1)) --year;
    else if (thursday >= day_number(year + 1, 1, 1)) ++year;
    return {year, (thursday - day_number(year, 1, 1)) / 7 + 1};
}

inline void append_padded(std::string& out, std::int64_t number, int width, char pad) {
    const std::string digits = concat(number);
    for (int i = static_cast<int>(digits.size()); i < width; ++i) out += pad;
    out += digits;
}

}  // namespace detail

inline std::string format_time(std::string_view format, const civil_time& when) {
    static constexpr std::string_view months[] = {"January", "February", "March",     "April",   "May",      "June",
                                                  "July",    "August",   "September", "October", "November", "December"};
    static constexpr std::string_view days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                "Thursday", "Friday", "Saturday"};
    const int weekday = detail::weekday(when);
    const std::int64_t day_of_year =
        detail::day_number(when.year, when.month, when.day) - detail::day_number(when.year, 1, 1) + 1;
    const std::string_view month = months[static_cast<unsigned>(when.month - 1) % 12];
    const std::string_view day = days[static_cast<unsigned>(weekday)];
    const int hour12 = when.hour % 12 == 0 ? 12 : when.hour % 12;
    std::string out;
    for (std::size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%' || i + 1 >= format.size()) {
            out += format[i];
            continue;
        }
        const std::size_t start = i++;
        const bool bare = format[i] == '-' && i + 1 < format.size();
        if (bare) ++i;
        const auto two = [&](std::int64_t n, char pad = '0') { detail::append_padded(out, n, bare ? 0 : 2, pad); };
        const auto again = [&](std::string_view inner) { out += format_time(inner, when); };
        switch (format[i]) {
            case 'Y': detail::append_padded(out, when.year, 0, '0'); break;
            case 'C': two(when.year / 100); break;
            case 'y': two(when.year % 100); break;
            case 'm': two(when.month); break;
            case 'd': two(when.day); break;
            case 'e': two(when.day, ' '); break;
            case 'H': two(when.hour); break;
            case 'k': two(when.hour, ' '); break;
            case 'I': two(hour12); break;
            case 'l': two(hour12, ' '); break;
            case 'M': two(when.minute); break;
            case 'S': two(when.second); break;
            case 'f': out += "000000"; break;
            case 'j': detail::append_padded(out, day_of_year, bare ? 0 : 3, '0'); break;
            case 'p': out += when.hour < 12 ? "AM" : "PM"; break;
            case 'P': out += when.hour < 12 ? "am" : "pm"; break;
            case 'B': out += month; break;
            case 'b':
            case 'h': out += month.substr(0, 3); break;
            case 'A': out += day; break;
            case 'a': out += day.substr(0, 3); break;
            case 'w': out += concat(weekday); break;
            case 'u': out += concat(weekday == 0 ? 7 : weekday); break;
            case 'U': two((day_of_year + 6 - weekday) / 7); break;
            case 'W': two((day_of_year + 6 - (weekday + 6) % 7) / 7); break;
            case 'V': two(detail::iso_week_of(when).week); break;
            case 'G': out += concat(detail::iso_week_of(when).year); break;
            case 'g': two(detail::iso_week_of(when).year % 100); break;
            case 'F': again("%Y-%m-%d"); break;
            case 'D':
            case 'x': again("%m/%d/%y"); break;
            case 'T':
            case 'X': again("%H:%M:%S"); break;
            case 'R': again("%H:%M"); break;
            case 'r': again("%I:%M:%S %p"); break;
            case 'c': again("%a %b %e %H:%M:%S %Y"); break;
            case 'Z':
            case 'z': break;
            case 'n': out += '\n'; break;
            case 't': out += '\t'; break;
            case '%': out += '%'; break;
            default: out += format.substr(start, i - start + 1);
        }
    }
    return out;
}

}  // namespace colibri::jinja
