#!/usr/bin/env python3
"""Writes include/colibri/text/unicode_tables.hpp: the Unicode properties that tokenizers need.

General categories, White_Space and the Han script come from the PyPI package `regex` 2024.11.6 (Unicode 16.0, as in the
regular expression engines of published tokenizers); canonical decomposition, composition and combining classes from
Python's own `unicodedata` (Python 3.11: Unicode 14.0). Other versions are refused, so that the same file comes out
everywhere.

usage: generate_unicode.py [--check]     --check compares with the file that is there and writes nothing
"""

import pathlib
import sys
import unicodedata

import regex

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "include" / "colibri" / "text" / "unicode_tables.hpp"
CODE_POINTS = 0x110000
ASSIGNED_16_0 = 294_579  # 154,998 characters, 65 controls, 137,468 private-use code points, 2,048 surrogates
BLOCK = 128

# Bit numbers; include/colibri/text/unicode.hpp names them in the same order.
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()
WHITE_SPACE, NEWLINE, HAN, NFC_CARE = range(len(CATEGORIES), len(CATEGORIES) + 4)


def mark(masks, pattern, bit):
    """Sets `bit` for every code point that `pattern` (one character class) matches; returns how many."""
    everything = "".join(map(chr, range(CODE_POINTS)))
    count = 0
    for found in regex.finditer(pattern + "+", everything):
        for code in range(found.start(), found.end()):
            masks[code] |= 1 << bit
            count += 1
    return count


def classes():
    masks = [0] * CODE_POINTS
    counts = {name: mark(masks, rf"\p{{{name}}}", bit) for bit, name in enumerate(CATEGORIES)}
    if sum(counts.values()) != CODE_POINTS:
        sys.exit("the categories of `regex` don't cover every code point exactly once")
    if CODE_POINTS - counts["Cn"] != ASSIGNED_16_0:
        sys.exit(f"`regex` {regex.__version__} has {CODE_POINTS - counts['Cn']} assigned code points, "
                 f"Unicode 16.0 has {ASSIGNED_16_0}: pip install regex==2024.11.6")
    mark(masks, r"\p{White_Space}", WHITE_SPACE)
    mark(masks, r"[\r\n]", NEWLINE)
    mark(masks, r"\p{Script=Han}", HAN)
    return masks


def canonical(masks):
    """(decompositions, compositions, combining classes); marks what normalising may touch."""
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}; take Python 3.11, which has 14.0")
    decompositions, compositions, combining = [], [], []
    seconds = set()
    for code in range(CODE_POINTS):
        if 0xD800 <= code <= 0xDFFF or 0xAC00 <= code <= 0xD7A3:  # Hangul syllables are computed
            continue
        char = chr(code)
        if unicodedata.combining(char):
            combining.append((code, unicodedata.combining(char)))
            masks[code] |= 1 << NFC_CARE
        whole = unicodedata.normalize("NFD", char)
        if whole == char:
            continue
        decompositions.append((code, whole))
        mapping = unicodedata.decomposition(char).split()
        if unicodedata.normalize("NFC", char) != char:
            masks[code] |= 1 << NFC_CARE  # never appears in NFC
        elif len(mapping) == 2:
            first, second = (int(part, 16) for part in mapping)
            compositions.append((first, second, code))
            seconds.add(second)
    for code in seconds:
        masks[code] |= 1 << NFC_CARE  # may combine with what stands before
    for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)):
        masks[code] |= 1 << NFC_CARE  # Hangul vowels and final consonants
    return decompositions, sorted(compositions), combining


def rows(items, indent="    "):
    """Comma-separated items in lines of at most 120 columns."""
    line = indent
    for item in items:
        if len(line) + len(item) + 1 > 120:
            yield line.rstrip()
            line = indent
        line += item + ", "
    if line.strip():
        yield line.rstrip()


def array(kind, name, comment, items):
    yield f"/// {comment}"
    yield f"inline constexpr {kind} {name}[] = {{"
    yield from rows(items)
    yield "};"
    yield ""


def text():
    masks = classes()
    decompositions, compositions, combining = canonical(masks)
    distinct = sorted(set(masks))
    number = {mask: index for index, mask in enumerate(distinct)}
    if len(distinct) > 256:
        sys.exit("more than 256 distinct classes: widen class_of")
    blocks, block_of = {}, []
    for start in range(0, CODE_POINTS, BLOCK):
        block = tuple(number[mask] for mask in masks[start:start + BLOCK])
        block_of.append(blocks.setdefault(block, len(blocks)))
    class_of = [value for block in blocks for value in block]

    ranges = []  # (first, last, combining class)
    for code, value in combining:
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == value:
            ranges[-1] = (ranges[-1][0], code, value)
        else:
            ranges.append((code, code, value))
    flat, index = [], []
    for code, whole in decompositions:
        index.append((code, len(flat), len(whole)))
        flat += [ord(char) for char in whole]

    yield "// Unicode properties as tables. Written by scripts/generate_unicode.py; change that, not this."
    yield "// Classes: Unicode 16.0. Canonical decomposition and composition: Unicode 14.0."
    yield "// clang-format off"
    yield "#pragma once"
    yield ""
    yield "#include <cstdint>"
    yield ""
    yield "namespace colibri::text::unicode_tables {"
    yield ""
    yield f"inline constexpr std::uint32_t block_size = {BLOCK};"
    yield ""
    yield from array("std::uint64_t", "class_masks", "The distinct sets of properties; bits as named in unicode.hpp.",
                     (f"0x{mask:x}" for mask in distinct))
    yield from array("std::uint16_t", "block_of", "Block of class_of, by code point / block_size.", map(str, block_of))
    yield from array("std::uint8_t", "class_of", "Index into class_masks, by block and place in it.", map(str, class_of))
    yield "/// Code points first..last have this canonical combining class (others: 0)."
    yield "struct combining_range {"
    yield "    char32_t first, last;"
    yield "    std::uint8_t value;"
    yield "};"
    yield from array("combining_range", "combining", "Sorted.",
                     (f"{{0x{first:x}, 0x{last:x}, {value}}}" for first, last, value in ranges))
    yield "/// Full canonical decomposition of `code`: `size` code points of decomposed from `start` on."
    yield "struct decomposition {"
    yield "    char32_t code;"
    yield "    std::uint16_t start;"
    yield "    std::uint16_t size;"
    yield "};"
    yield from array("decomposition", "decompositions", "Sorted by code.",
                     (f"{{0x{code:x}, {start}, {size}}}" for code, start, size in index))
    yield from array("char32_t", "decomposed", "What decompositions points into.", (f"0x{code:x}" for code in flat))
    yield "/// `first` followed by `second` composes to `whole`."
    yield "struct composition {"
    yield "    char32_t first, second, whole;"
    yield "};"
    yield from array("composition", "compositions", "Sorted by first, then second.",
                     (f"{{0x{first:x}, 0x{second:x}, 0x{whole:x}}}" for first, second, whole in compositions))
    yield "}  // namespace colibri::text::unicode_tables"


def main():
    content = "\n".join(text()) + "\n"
    if sys.argv[1:] == ["--check"]:
        if not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != content:
            sys.exit(f"{OUTPUT.name} is not what this script writes: run scripts/generate_unicode.py")
        print(f"{OUTPUT.name} is up to date")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(content, encoding="utf-8")
        print(f"wrote {OUTPUT.name}: {len(content)} bytes")


if __name__ == "__main__":
    main()
