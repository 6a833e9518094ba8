#!/usr/bin/env python3
"""Writes the two generated headers: the umbrella include/colibri/colibri.hpp and single_include/colibri.hpp.

amalgamate.py                    writes both
amalgamate.py --check            writes nothing; says which of them is out of date and exits 1
amalgamate.py --forwards FOLDER  fills FOLDER with "colibri/x/y.hpp" that forward to the single header, for the tests

The single header is every header behind those it includes. A file x-inl.hpp that is included more than once (one turn of the
target loop) becomes a section at the top, which the file includes from itself by its own name in quotes: the folder of the
including file is searched first, while __FILE__ would fail with a relative -I. So the file has no #pragma once.
"""
import argparse
import collections
import pathlib
import re
import sys

from headers import ROOT, UMBRELLA, umbrella_headers

INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(colibri/[^"]+)"[^\n]*\n', re.MULTILINE)
PRAGMA_ONCE = re.compile(r"^#pragma once\n\n?", re.MULTILINE)


def section_macro(name):
    """"colibri/simd/target_pass-inl.hpp" -> "COLIBRI_SECTION_TARGET_PASS"."""
    return "COLIBRI_SECTION_" + name.split("/")[-1].removesuffix("-inl.hpp").upper()


def umbrella(include):
    """Text of the umbrella: the public headers in layer order."""
    lines = "".join(f'#include "{name}"\n' for name in umbrella_headers(include))
    return ("// All of Colibri's public headers, layer by layer; scripts/amalgamate.py keeps this list.\n"
            f"#pragma once\n\n{lines}")


class amalgamation:
    def __init__(self, include):
        self.include = include
        self.done = set()
        self.body = []
        self.sections = {}  # name of an x-inl.hpp that is included more than once -> its text
        names = [path.relative_to(include).as_posix() for path in (include / "colibri").rglob("*.hpp")]
        self.uses = collections.Counter(used for name in names for used in INCLUDE_LINE.findall(self.read(name)))

    def read(self, name):
        path = self.include / name
        if not path.is_file():
            sys.exit(f"include/{name} doesn't exist, but a header includes it; scripts/check_layers.py says which")
        return path.read_text(encoding="utf-8")

    def needed(self, name):
        """Ordinary headers that a header includes, itself or through its x-inl.hpp."""
        for used in INCLUDE_LINE.findall(self.read(name)):
            yield from self.needed(used) if used.endswith("-inl.hpp") else [used]

    def expanded(self, name):
        """The text of a header without its ordinary includes, with its x-inl.hpp pasted or turned into sections."""
        def replace(match):
            used = match[1]
            if not used.endswith("-inl.hpp"):
                return ""
            if self.uses[used] == 1:
                return self.expanded(used)
            if used not in self.sections:
                self.sections[used] = self.expanded(used)
            macro = section_macro(used)
            return f'#define {macro}\n#include "colibri.hpp"\n#undef {macro}\n'
        return PRAGMA_ONCE.sub("", INCLUDE_LINE.sub(replace, self.read(name)))

    def add(self, name):
        """Appends a header behind all that it needs."""
        if name in self.done:
            return
        self.done.add(name)
        for needed in self.needed(name):
            self.add(needed)
        self.body.append(f"// ---- {name}\n\n{self.expanded(name).strip()}\n\n")

    def text(self):
        self.add(UMBRELLA)
        licence = (ROOT / "LICENSE").read_text(encoding="utf-8").strip()
        comment = "".join(f"// {line}".rstrip() + "\n" for line in licence.split("\n"))
        branches = "".join(f"{'#elif' if i else '#if'} defined({section_macro(name)})\n// ---- {name}\n\n{text.strip()}\n\n"
                           for i, (name, text) in enumerate(self.sections.items()))
        guard = f"{'#elif' if self.sections else '#if'} !defined(COLIBRI_SINGLE_HPP)\n#define COLIBRI_SINGLE_HPP\n\n"
        return ("// Colibri in one file, which must keep its name, colibri.hpp. Made by scripts/amalgamate.py from include/colibri:\n"
                f"// change that, not this.\n//\n{comment}\n{branches}{guard}{''.join(self.body).rstrip()}\n\n#endif\n")


def write_forwards(include, folder):
    single = ROOT / "single_include" / "colibri.hpp"
    for name in [UMBRELLA, *umbrella_headers(include)]:
        path = folder / name
        text = f'#pragma once\n#include "{single.as_posix()}"\n'
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--forwards", type=pathlib.Path)
    options = parser.parse_args()

    include = ROOT / "include"
    if options.forwards:
        return write_forwards(include, options.forwards)
    stale = []
    for path, make in [(include / UMBRELLA, lambda: umbrella(include)),
                       (ROOT / "single_include" / "colibri.hpp", lambda: amalgamation(include).text())]:
        text = make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT).as_posix())
        if not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if options.check and stale:
        sys.exit(f"out of date: {', '.join(stale)}. Run scripts/amalgamate.py and commit the result.")


if __name__ == "__main__":
    main()
