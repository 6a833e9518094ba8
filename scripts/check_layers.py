#!/usr/bin/env python3
"""Refuses headers that break the house's rules, and says why and what to do. Usage: check_layers.py [INCLUDE_DIR]"""
import pathlib
import re
import sys

from headers import RANKS, ROOT, UMBRELLA, all_headers, includes, layer_of

CONDITION = re.compile(r"^\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b(.*)")
COMMENT_OR_TEXT = re.compile(r'''R"([^(\s]*)\(.*?\)\1"|'(?:[^'\\\n]|\\[^\n]{1,4}?)'|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"''', re.DOTALL)
# Inside simd/, a Colibri include may stand in a condition on one of these: the target loop, and declaring only.
SIMD_CONDITIONS = re.compile(r"HWY_|COLIBRI_\w*TARGET|COLIBRI_(EXTERN|IMPLEMENT)_KERNELS|COLIBRI_NO_AVX")

# (layers where the rule holds not, pattern, what is wrong, why, what to do)
TOKENS = [
    ({"simd"}, r"\bHWY_\w+|\bhwy::|\bhwy/", "uses Highway outside simd/",
     "one folder knows how kernels are made, so that the rest reads without it",
     "put the loop into a kernel of simd/ and call that"),
    ({"simd"}, r"#\s*(?:el)?if.*\b__(AVX|SSE|FMA|F16C|BMI|ARM_FEATURE|ARM_NEON)\w*", "asks for an instruction set outside simd/",
     "the choice of instructions is made at run time, by simd/ alone", "move the code into a kernel of simd/"),
    (set(), r"\bstd::(cout|cerr|clog)\b|\b(std::)?(printf|puts|fprintf)\s*\(", "prints",
     "a library doesn't own its program's output", "return a value, or report through progress_fn"),
    (set(), r"\b(std::)?(exit|_Exit|abort|terminate|quick_exit)\s*\(", "can end the program",
     "a library doesn't decide that", "return a result<T> that holds an error"),
    (set(), r"\b(std::)?signal\s*\(|\bsigaction\s*\(", "touches signal handlers",
     "they belong to the program", "let the program set a cancel_flag"),
    (set(), r"#\s*define\s+(?!COLIBRI_|HWY_)\w+", "defines a macro without COLIBRI_ in front",
     "macros reach every file that comes after", "prefer a constexpr or a template; else name it COLIBRI_..."),
]


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def strip(text):
    """The text with comments and string literals blanked; includes keep theirs."""
    def blank(match):
        start = text.rfind("\n", 0, match.start()) + 1
        if match[0][0] == '"' and re.match(r"\s*#\s*include", text[start:]):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])
    return COMMENT_OR_TEXT.sub(blank, text)


def check_header(include, name):
    """Yields (line, what, why, fix)."""
    text = (include / name).read_text(encoding="utf-8")
    code = strip(text)
    layer = layer_of(name)
    if layer is not None and layer not in RANKS:
        yield 1, f"lies in the unknown layer {layer}/", "every layer has a rank", f"use one of {', '.join(RANKS)}, or add it to RANKS in scripts/headers.py"
        return
    rank = RANKS.get(layer, 0)

    conditions = []
    for number, line in enumerate(code.split("\n"), 1):
        condition = CONDITION.match(line)
        if condition:
            kind = condition[1]
            if kind == "endif":
                conditions[-1:] = []
            elif kind.startswith("if"):
                conditions.append(line)
            elif conditions:
                conditions[-1] += line
        for target in includes(line):
            if not target.startswith("colibri/"):
                continue
            if not (include / target).is_file():
                yield number, f"includes {target}, which doesn't exist", "every header compiles alone", "name it as \"colibri/layer/file.hpp\""
                continue
            if target == UMBRELLA:
                yield number, "includes the umbrella", "it reaches up to every layer", "include the headers that are used"
            elif name != UMBRELLA and RANKS.get(layer_of(target), 0) > rank:
                yield (number, f"includes {target}, which is a higher layer ({layer or 'top'} {rank} < {layer_of(target)} {RANKS[layer_of(target)]})",
                       "a layer that knows what stands on it can't be used or tested without it",
                       "move what is needed down, or pass it in as an argument or template parameter")
            if conditions and not (layer == "simd" and all(SIMD_CONDITIONS.search(c) for c in conditions)):
                yield (number, f"includes {target} inside {conditions[-1].strip()}",
                       "what a header holds would depend on who includes it, and the single header can't follow",
                       "include it always, and put the condition inside that header")

    if name == UMBRELLA:
        rest = re.sub(r"#\s*(include[^\n]*|pragma once)", "", code)
        if rest.strip():
            yield line_of(code, code.find(rest.strip().split("\n")[0])), "holds more than includes", "it is a list", "put the rest into a header of its layer"
        return
    if not name.endswith("-inl.hpp") and "#pragma once" not in code:
        yield 1, "has no #pragma once", "a header may come twice", "add it behind the first comment"
    lines = text.count("\n")
    if lines > 500 and not re.search(r"generated|written by scripts/", text[:300], re.IGNORECASE):
        yield lines, f"has {lines} lines", "500 is the limit: one idea each", "cut it along a seam (generated tables name their script in the first lines)"
    for exempt, pattern, what, why, fix in TOKENS:
        match = None if layer in exempt else re.search(pattern, code)
        if match:
            yield line_of(code, match.start()), f"{what} ({match[0].strip()})", why, fix


def main():
    include = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "include"
    names = all_headers(include)
    if not names:
        sys.exit(f"no headers below {include}/colibri")
    findings = [(name, *finding) for name in names for finding in check_header(include, name)]
    for name, line, what, why, fix in findings:
        print(f"include/{name}:{line}: {what}.\n    Why: {why}.\n    Fix: {fix}.")
    print(f"{len(names)} headers, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
