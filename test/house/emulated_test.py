"""The program on old CPUs, emulated by qemu-user: it chooses a target that the CPU has, and answers as that target does natively."""
import argparse
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Nehalem has SSE4.2, but neither AES nor PCLMUL, which Highway's SSE4 may use; Westmere is the first with both.
CPUS = {"Nehalem": "baseline", "Westmere": "sse4", "Haswell": "avx2"}

parser = argparse.ArgumentParser()
parser.add_argument("--program", required=True)
parser.add_argument("--emulator", required=True)
arguments = parser.parse_args()


def run(command, **variables):
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env={**os.environ, **variables})
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout!r}\n{done.stderr.decode()}"
    return done.stdout.decode(errors="backslashreplace")  # random models say any bytes


models = {"llama": (SOURCE / "test/golden/models/llama/model.gguf", 8), "qwen3-Q4_0": (SOURCE / "test/golden/models/quant/qwen3-Q4_0.gguf", 8)}
cache = pathlib.Path(os.environ.get("COLIBRI_MODELS") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "colibri")
if (cache / "smollm2.gguf").is_file():
    models["smollm2"] = (cache / "smollm2.gguf", 1)  # two tokens in all: emulation is slow
else:
    print("golden: model smollm2: absent (scripts/models.sh brings it)")

for cpu, target in CPUS.items():
    emulated = [arguments.emulator, "-cpu", cpu, arguments.program]
    # An emulator warns on stderr about features that it lacks; stdout is the program's alone.
    version = run([*emulated, "--version"])
    assert f"\nSIMD target: {target}\n" in version, f"{cpu} should take {target}:\n{version}"
    for name, (path, count) in models.items():
        command = ["run", "-m", str(path), "--raw", "-p", "The", "-n", str(count), "--temp", "0", "-t", "2"]
        try:
            expected = run([arguments.program, *command], COLIBRI_SIMD=target)
        except AssertionError as error:
            if f"this CPU can't run the SIMD target {target}" not in str(error):
                raise
            print(f"not run: {target} natively (this CPU lacks it)")
            expected = None
        answer = run([*emulated, *command])
        assert expected is None or answer == expected, f"{name} on {cpu}: {answer!r}, natively {expected!r}"
        print(f"{cpu}: {target}: {name}: {answer!r}")
