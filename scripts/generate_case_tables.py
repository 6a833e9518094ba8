#!/usr/bin/env python3
"""Writes include/colibri/chat/jinja/case_tables.hpp: upper, lower and title case of every code point.

Taken from Python's own str.upper, str.lower and str.title; other versions than Unicode 14.0 (Python 3.11) are refused,
so that the same file comes out everywhere.

usage: generate_case_tables.py [--check]     --check compares with the file that is there and writes nothing
"""

import pathlib
import sys
import unicodedata

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "include" / "colibri" / "chat" / "jinja" / "case_tables.hpp"


def mapping(change):
    """(code -> code, code -> several codes) of the code points that `change` changes."""
    one, several = {}, {}
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        changed = change(chr(code))
        if changed == chr(code):
            continue
        if len(changed) == 1:
            one[code] = ord(changed)
        else:
            several[code] = [ord(c) for c in changed]
    return one, several


def ranges(one):
    """(first, last, step, distance) of code points that move by the same distance."""
    rows, codes, i = [], sorted(one), 0
    while i < len(codes):
        best, best_step = 1, 1
        for step in (1, 2):
            n = 1
            while (i + n < len(codes) and codes[i + n] == codes[i] + n * step
                   and one[codes[i + n]] - codes[i + n] == one[codes[i]] - codes[i]):
                n += 1
            if n > best:
                best, best_step = n, step
        rows.append((codes[i], codes[i + best - 1], best_step, one[codes[i]] - codes[i]))
        i += best
    return rows


def lines(cells):
    out, line = [], "   "
    for cell in cells:
        if len(line) + len(cell) + 1 > 120:
            out.append(line)
            line = "   "
        line += " " + cell
    return "\n".join(out + [line])


def table():
    upper, lower = mapping(str.upper), mapping(str.lower)
    title = ({}, {})
    for code in range(0x110000):  # also what upper case changes and title case leaves alone
        if not 0xD800 <= code < 0xE000 and chr(code).title() != chr(code).upper():
            to = [ord(c) for c in chr(code).title()]
            title[len(to) > 1][code] = to if len(to) > 1 else to[0]
    out = ["// Upper, lower and title case. Written by scripts/generate_case_tables.py (Unicode "
           f"{unicodedata.unidata_version}); change that, not this.",
           "#pragma once", "", "#include <cstdint>", "", "namespace colibri::jinja::case_tables {", "",
           "/// Code points first, first + step, ... last move by `distance`.",
           "struct range {", "    char32_t first;", "    char32_t last;", "    std::uint32_t step;",
           "    std::int32_t distance;", "};", "",
           "/// A code point that becomes up to three; 0 ends the list.",
           "struct special {", "    char32_t code;", "    char32_t to[3];", "};", ""]
    for name, what, (one, several) in (("upper", "to upper case", upper), ("lower", "to lower case", lower),
                                       ("title", "to title case, where that is not upper case", title)):
        out += [f"/// {what[0].upper()}{what[1:]}: one code point to one.", f"inline constexpr range {name}[] = {{",
                lines(f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}," for a, b, s, d in ranges(one)), "};", "",
                f"/// {what[0].upper()}{what[1:]}: one code point to several.",
                f"inline constexpr special {name}_special[] = {{",
                lines("{0x%x, {%s}}," % (code, ", ".join(f"0x{c:x}" for c in to)) for code, to in sorted(several.items())),
                "};", ""]
    return "\n".join(out + ["}  // namespace colibri::jinja::case_tables", ""])


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}; take Python 3.11, which has 14.0")
    text = table()
    if "--check" in sys.argv[1:]:
        if OUTPUT.read_text() != text:
            sys.exit(f"{OUTPUT.name} is not what {pathlib.Path(__file__).name} writes")
    else:
        OUTPUT.write_text(text)


if __name__ == "__main__":
    main()
