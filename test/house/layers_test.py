"""The layer check accepts a sound tree and refuses each broken rule with a reason and a remedy."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers.py"

SOUND = {
    "core/a.hpp": "// A.\n#pragma once\n#include <vector>\n",
    "io/b.hpp": '// B says "hwy::" and printf( in a text, and // HWY_ in a comment.\n#pragma once\n#include "colibri/core/a.hpp"\n'
                'inline const char* b() { return "hwy:: abort("; }\n',
    "simd/k-inl.hpp": "// Included once per target.\nnamespace HWY_NAMESPACE {}\n",
    "simd/k.hpp": '// K.\n#pragma once\n#ifndef COLIBRI_EXTERN_KERNELS\n#include "colibri/simd/k-inl.hpp"\n#endif\n',
    "colibri.hpp": '// All.\n#pragma once\n#include "colibri/core/a.hpp"\n',
}

# (header, its text, words that the message must have)
BROKEN = [
    ("core/x.hpp", '#pragma once\n#include "colibri/io/b.hpp"\n', "higher layer"),
    ("core/x.hpp", '#pragma once\n#ifdef COLIBRI_FAST\n#include "colibri/core/a.hpp"\n#endif\n', "inside #ifdef COLIBRI_FAST"),
    ("simd/x.hpp", '#pragma once\n#ifdef COLIBRI_FAST\n#include "colibri/core/a.hpp"\n#endif\n', "inside #ifdef COLIBRI_FAST"),
    ("core/x.hpp", '#pragma once\n#include "colibri/core/gone.hpp"\n', "doesn't exist"),
    ("core/x.hpp", '#pragma once\n#include "colibri/colibri.hpp"\n', "includes the umbrella"),
    ("core/x.hpp", "#pragma once\n#include <hwy/highway.h>\n", "Highway outside simd/"),
    ("quant/x.hpp", "#pragma once\n#if HWY_TARGET\n#endif\n", "Highway outside simd/"),
    ("quant/x.hpp", "#pragma once\n#ifdef X\n#elif defined(__AVX2__)\n#endif\n", "instruction set outside simd/"),
    ("text/x.hpp", "#pragma once\ninline void f() { std::cout << 1; }\n", "prints"),
    ("text/x.hpp", "#pragma once\ninline void f() { std::abort(); }\n", "can end the program"),
    ("text/x.hpp", "#pragma once\ninline void f() { sigaction(2, nullptr, nullptr); }\n", "signal handlers"),
    ("text/x.hpp", "#pragma once\n#define FAST 1\n", "without COLIBRI_"),
    ("text/x.hpp", "inline void f() {}\n", "no #pragma once"),
    ("text/x.hpp", "#pragma once\n" + "\n" * 500, "501 lines"),
    ("attic/x.hpp", "#pragma once\n", "unknown layer attic/"),
    ("colibri.hpp", '#pragma once\n#include "colibri/core/a.hpp"\nnamespace colibri {}\n', "more than includes"),
]


def run(extra):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**SOUND, **extra}.items():
            path = pathlib.Path(folder) / "colibri" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


code, output = run({})
assert code == 0, output
for name, text, words in BROKEN:
    code, output = run({name: text})
    assert code == 1, f"accepted: {text!r}\n{output}"
    for part in (name, words, "Why: ", "Fix: "):
        assert part in output, f"{part!r} is missing for {text!r}:\n{output}"
    assert "1 findings" in output, f"more than the one fault for {text!r}:\n{output}"
print(f"1 sound tree accepted, {len(BROKEN)} broken ones refused")
