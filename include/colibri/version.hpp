// The version of these headers; CMake reads it from here.
#pragma once

#include <string_view>

namespace colibri {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

/// "major.minor.patch".
inline constexpr std::string_view version_string = "0.1.0";

}  // namespace colibri
