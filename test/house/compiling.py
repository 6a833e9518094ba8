"""Runs the compiler as a consumer would. The tests get it by --compiler and the include folders, joined by ':', by --include."""
import argparse
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    return parser.parse_args()


def compile_text(options, text, *flags):
    """The finished process of compiling `text` from standard input."""
    folders = [flag for folder in options.include.split(":") for flag in ("-I", folder)]
    return subprocess.run([options.compiler, "-std=c++20", "-x", "c++", "-", *folders, *flags],
                          input=text, capture_output=True, text=True)
