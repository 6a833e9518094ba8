"""A stranger's build of examples/walk_gguf.cpp, in one of the ways that README.md and docs/integration.md describe.

The CMake lines are the README's own. With the single header examples/ask.cpp is built too, and asks the real model."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "test" / "golden" / "models" / "llama" / "model.gguf"
APP = SOURCE / "examples" / "walk_gguf.cpp"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def readme_cmake(word):
    """The README's CMake block that has this word."""
    blocks = re.findall(r"^```cmake\n(.*?)^```", (SOURCE / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = [block for block in blocks if word in block]
    assert len(found) == 1, f"README.md has {len(found)} CMake blocks with {word}"
    return found[0]


def cmake_project(folder, lines, *options):
    project = folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.22)\nproject(app LANGUAGES CXX)\nadd_executable(app {APP})\n{lines}")
    (project / "colibri").symlink_to(SOURCE, target_is_directory=True)
    run("cmake", "-S", project, "-B", folder / "build", f"-DCMAKE_CXX_COMPILER={compiler}", *options)
    run("cmake", "--build", folder / "build")
    return folder / "build" / "app"


def package(folder):
    run("cmake", "--install", arguments.build, "--prefix", folder / "installed")
    assert (folder / "installed" / "include" / "colibri" / "colibri.hpp").is_file()
    return cmake_project(folder, readme_cmake("find_package"), f"-DCMAKE_PREFIX_PATH={folder / 'installed'}")


def subdirectory(folder):
    return cmake_project(folder, readme_cmake("add_subdirectory"))


def kernels_target(folder):
    return cmake_project(folder, readme_cmake("add_subdirectory").replace("colibri::colibri", "colibri::kernels"))


def plain(folder):
    run(compiler, "-std=c++20", "-I", SOURCE / "include", APP, "-o", folder / "app", "-pthread")
    return folder / "app"


def single(folder):
    """The file alone, in the program's own folder."""
    (folder / "colibri").mkdir()
    (folder / "colibri" / "colibri.hpp").write_bytes((SOURCE / "single_include" / "colibri.hpp").read_bytes())
    run(compiler, "-std=c++20", "-I.", APP, "-o", "app", "-pthread", cwd=folder)
    run(compiler, "-std=c++20", "-O2", "-I.", SOURCE / "examples" / "ask.cpp", "-o", "ask", "-pthread", cwd=folder)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "colibri"
    model = pathlib.Path(os.environ.get("COLIBRI_MODELS") or cache) / "smollm2.gguf"
    if model.is_file():
        answer = run(folder / "ask", model, "What is the capital of France?")
        assert any(c.isalpha() for c in answer), repr(answer)  # sampled, so the words vary
        print(answer.strip())
    else:
        print("golden: model smollm2: absent (scripts/models.sh brings it)")
    return folder / "app"


def declare(folder):
    """Kernels compiled in one file, declared in the other; the file is the one of docs/integration.md."""
    blocks = re.findall(r"^```cpp\n(.*?)^```", (SOURCE / "docs" / "integration.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (folder / "kernels.cpp").write_text(next(block for block in blocks if "COLIBRI_IMPLEMENT_KERNELS" in block))
    run(compiler, "-std=c++20", "-DCOLIBRI_EXTERN_KERNELS", "-I", SOURCE / "include", APP, folder / "kernels.cpp", "-o", folder / "app", "-pthread")
    return folder / "app"


WAYS = {way.__name__: way for way in (package, subdirectory, kernels_target, plain, single, declare)}

parser = argparse.ArgumentParser()
parser.add_argument("way", choices=WAYS)
parser.add_argument("--compiler", required=True)
parser.add_argument("--build", required=True)
arguments = parser.parse_args()
compiler = arguments.compiler

with tempfile.TemporaryDirectory() as name:
    app = WAYS[arguments.way](pathlib.Path(name))
    output = run(app, MODEL)
assert "'general.architecture': 'llama'\n" in output and output.endswith(" tensors, 410880 bytes\n"), output
print(output.splitlines()[-1])
