// Properties of code points, for the rules that cut text into words.
#pragma once

#include <cstdint>
#include <iterator>

#include "colibri/text/unicode_tables.hpp"

namespace colibri::text {

/// A set of properties, one bit each; a code point has exactly one of the general categories and any of the others.
using class_mask = std::uint64_t;

/// General categories and further properties (Unicode 16.0), in the order of scripts/generate_unicode.py.
namespace classes {
inline constexpr class_mask lu = class_mask{1} << 0, ll = class_mask{1} << 1, lt = class_mask{1} << 2,
                            lm = class_mask{1} << 3, lo = class_mask{1} << 4, mn = class_mask{1} << 5,
                            mc = class_mask{1} << 6, me = class_mask{1} << 7, nd = class_mask{1} << 8,
                            nl = class_mask{1} << 9, no = class_mask{1} << 10, pc = class_mask{1} << 11,
                            pd = class_mask{1} << 12, ps = class_mask{1} << 13, pe = class_mask{1} << 14,
                            pi = class_mask{1} << 15, pf = class_mask{1} << 16, po = class_mask{1} << 17,
                            sm = class_mask{1} << 18, sc = class_mask{1} << 19, sk = class_mask{1} << 20,
                            so = class_mask{1} << 21, zs = class_mask{1} << 22, zl = class_mask{1} << 23,
                            zp = class_mask{1} << 24, cc = class_mask{1} << 25, cf = class_mask{1} << 26,
                            cs = class_mask{1} << 27, co = class_mask{1} << 28, cn = class_mask{1} << 29;

inline constexpr class_mask white_space = class_mask{1} << 30;  ///< White_Space (\s)
inline constexpr class_mask newline = class_mask{1} << 31;      ///< U+000D and U+000A only
inline constexpr class_mask han = class_mask{1} << 32;          ///< Script=Han
inline constexpr class_mask nfc_care = class_mask{1} << 33;     ///< may change, move or combine under NFC

inline constexpr class_mask letter = lu | ll | lt | lm | lo;
inline constexpr class_mask mark = mn | mc | me;
inline constexpr class_mask number = nd | nl | no;
inline constexpr class_mask punctuation = pc | pd | ps | pe | pi | pf | po;
inline constexpr class_mask symbol = sm | sc | sk | so;
inline constexpr class_mask separator = zs | zl | zp;
inline constexpr class_mask other = cc | cf | cs | co | cn;
inline constexpr class_mask any = letter | mark | number | punctuation | symbol | separator | other;
}  // namespace classes

/// Properties of `code`; above U+10FFFF those of an unassigned code point. Two table reads.
[[nodiscard]] constexpr class_mask properties(char32_t code) noexcept {
    namespace t = unicode_tables;
    if (code > 0x10FFFF) return classes::cn;
    const std::uint32_t block = t::block_of[code / t::block_size];
    return t::class_masks[t::class_of[block * t::block_size + code % t::block_size]];
}

/// True if `code` has White_Space.
[[nodiscard]] constexpr bool is_white_space(char32_t code) noexcept {
    return (properties(code) & classes::white_space) != 0;
}

static_assert(properties(U'A') == classes::lu &&
              properties(U'\n') == (classes::cc | classes::white_space | classes::newline));
static_assert(properties(U'漢') == (classes::lo | classes::han) &&
              properties(U' ') == (classes::zs | classes::white_space));

}  // namespace colibri::text
