"""colibri plan: what it says, from where, and that it reads no weights."""
import json
import os
import struct
import subprocess
import sys
import time

from keyboard import check
from session import PATIENCE, run_tests

MIB = 1 << 20
F32, Q4_K = 0, 12  # types of tensors in GGUF files
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of types of values


def plan(f, *arguments, **more):
    return f.run("plan", "-m", f.model(), *arguments, **more)


def said(f, *arguments, **more):
    done = plan(f, *arguments, "--json", **more)
    check(done.returncode, 0)
    check(done.stdout.count(b"\n"), 1)
    return json.loads(done.stdout)


def value_end(data, kind, at):
    """Where a value of a GGUF file that begins at `at` ends."""
    if kind == 8:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == 9:
        inner, count = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(count):
            at = value_end(data, inner, at)
        return at
    return at + SIZES[kind]


def metadata(path):
    """Keys of a GGUF file and their values as they stand there, type in front; the size of the vocabulary."""
    with open(path, "rb") as file:
        data = file.read()
    count = struct.unpack_from("<Q", data, 16)[0]
    at, out = 24, {}
    for _ in range(count):
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length].decode()
        begin = at + 8 + length
        at = value_end(data, struct.unpack_from("<I", data, begin)[0], begin + 4)
        out[key] = data[begin:at]
    return out, struct.unpack_from("<Q", out["tokenizer.ggml.tokens"], 8)[0]


def large_model(f, layers=32, hidden=4096, inner=14336, heads=32, kv_heads=8):
    """A llama of 8 B parameters around the tiny one's vocabulary, 4 GB that a hole of a sparse file stands for."""
    keys, vocabulary = metadata(f.model())
    for name, number in (("block_count", layers), ("embedding_length", hidden), ("feed_forward_length", inner),
                         ("attention.head_count", heads), ("attention.head_count_kv", kv_heads), ("context_length", 8192),
                         ("rope.dimension_count", hidden // heads)):
        keys["llama." + name] = struct.pack("<II", 4, number)
    for name in ("attention.key_length", "attention.value_length"):
        keys.pop("llama." + name, None)
    kv_width = hidden // heads * kv_heads
    tensors = [("token_embd.weight", Q4_K, hidden, vocabulary), ("output_norm.weight", F32, hidden),
               ("output.weight", Q4_K, hidden, vocabulary)]
    for i in range(layers):
        for name, *shape in (("attn_norm", F32, hidden), ("attn_q", Q4_K, hidden, hidden), ("attn_k", Q4_K, hidden, kv_width),
                             ("attn_v", Q4_K, hidden, kv_width), ("attn_output", Q4_K, hidden, hidden), ("ffn_norm", F32, hidden),
                             ("ffn_gate", Q4_K, hidden, inner), ("ffn_up", Q4_K, hidden, inner), ("ffn_down", Q4_K, inner, hidden)):
            tensors.append((f"blk.{i}.{name}.weight", *shape))
    alignment = 32
    keys.pop("general.alignment", None)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys.items():
        head += struct.pack("<Q", len(key)) + key.encode() + value
    offset = 0
    for name, kind, *dims in tensors:
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
        elements = 1
        for dim in dims:
            head += struct.pack("<Q", dim)
            elements *= dim
        head += struct.pack("<IQ", kind, offset)
        offset += elements * 4 if kind == F32 else elements // 256 * 144
        offset += -offset % alignment
    path = os.path.join(f.home, "large.gguf")
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % alignment))
        file.truncate(file.tell() + offset)
    return path, offset


def test_a_tiny_model_is_resident(f):
    p = said(f, "-t", "1")
    check((p["runs"], p["weights"], p["bytes_read_per_token"], p["streamed_bytes"]), (True, "resident", 0, 0))
    check((p["context"], p["cache_type_k"], p["threads"]), (512, "f16", 1))
    check(sum(p["weight_bytes"].values()), 410880)
    used = p["memory"]
    assert sum(used.values()) <= p["budget"], p
    assert 410880 <= used["weights"] < 2 * 410880 and used["kv_keys"] == used["kv_values"] > 0, p
    for key in ("memory_bandwidth", "disk_bandwidth", "predicted_tokens_per_second", "limit_tokens_per_second",
                "predicted_prompt_tokens_per_second"):
        check((key, p[key]), (key, None))
    check((p["memory_bandwidth_from"], p["disk_bandwidth_from"], p["bottleneck"]), ("unknown", "unknown", "unknown"))


def test_text_is_short_and_says_what_is_unknown(f):
    done = plan(f, "-c", "64", "-t", "1")
    check((done.returncode, done.stderr), (0, b""))
    lines = done.stdout.decode().splitlines()
    assert 10 < len(lines) <= 25, lines
    assert all(len(line) <= 120 for line in lines), lines
    text = done.stdout.decode()
    for word in ("resident", "KV keys", "64 tokens", "activations", "unknown", "read per token"):
        assert word in text, text


def test_no_weights_are_read(f):
    path, size = large_model(f)
    pid = os.posix_spawn(f.program, [f.program, "plan", "-m", path, "--memory", "2G", "-c", "1024", "--json"], f.environment(),
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.path.join(f.home, "out"), os.O_WRONLY | os.O_CREAT, 0o600)])
    _, status, usage = os.wait4(pid, 0)
    check(status, 0)
    # A quarter of the weights: sanitizers take some hundred MiB themselves.
    assert usage.ru_maxrss < 1024 * 1024, f"{usage.ru_maxrss} KiB of memory for a plan"
    with open(os.path.join(f.home, "out"), encoding="utf-8") as file:
        p = json.load(file)
    check((p["weights"], p["context"], p["budget"]), ("streamed", 1024, 2048 * MIB))
    dense = p["weight_bytes"]["dense"]
    assert size - dense < 20 * MIB, p
    held = p["memory"]["weights"]
    assert sum(p["memory"].values()) <= p["budget"], p
    assert held + p["memory"]["buffers"] > 0.8 * (p["budget"] - p["memory"]["process"]), p
    assert abs(held + p["streamed_bytes"] - dense) < 0.05 * dense, p
    assert 0 < p["bytes_read_per_token"] - p["streamed_bytes"] <= 8192, p


def test_bytes_read_are_those_of_a_header(f):
    path, _ = large_model(f)
    # A process's counts are its parent's too once it has been waited for.
    code = ("import subprocess, sys\n"
            "def read(): return int(open('/proc/self/io').read().split('rchar: ')[1].split()[0])\n"
            "before = read()\n"
            "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
            "print(read() - before)\n")
    done = subprocess.run([sys.executable, "-c", code, f.program, "plan", "-m", path, "--memory", "2G"], capture_output=True,
                          check=True, env=f.environment(), timeout=PATIENCE)
    assert 0 < int(done.stdout) < 16 * MIB, done.stdout


def test_speeds_follow_from_the_figures_given(f):
    path, _ = large_model(f)
    figures = ("--memory", "2G", "-c", "1024", "--memory-bandwidth", "20G/s", "--disk-bandwidth", "1G/s", "-t", "1", "--json")
    p = json.loads(f.run("plan", "-m", path, *figures).stdout)
    check((p["memory_bandwidth_from"], p["memory_bandwidth"], p["disk_bandwidth"]), ("given", 20e9, 1e9))
    check(p["bottleneck"], "disk")
    limit = 1e9 / p["bytes_read_per_token"]
    assert abs(p["limit_tokens_per_second"] / limit - 1) < 1e-9, p
    assert 0.9 * limit < p["predicted_tokens_per_second"] < limit, p
    check(p["predicted_prompt_tokens_per_second"], None)  # arithmetic isn't known
    gains = [change["times_as_fast"] for change in p["changes"]]
    check(gains, sorted(gains, reverse=True))
    check({change["change"] for change in p["changes"]}, {"context", "cache_type", "memory", "quantisation"})
    assert gains[0] > 1.1, p
    text = f.run("plan", "-m", path, *figures[:-1]).stdout.decode()
    assert "the disk" in text and "helps most" in text and "as given" in text, text
    # A fast disk lets memory be the limit.
    p = json.loads(f.run("plan", "-m", path, *figures[:6], "--disk-bandwidth", "1T/s", "-t", "1", "--json").stdout)
    check(p["bottleneck"], "memory_bandwidth")
    for wrong in (("--disk-bandwidth", "fast"), ("--memory-bandwidth", "40"), ("--memory-bandwidth", "0"), ("--disk-bandwidth", "5 apples/s")):
        done = plan(f, *wrong)
        check((done.returncode, done.stdout), (1, b""))
        assert wrong[0].encode() in done.stderr, done


def test_too_little_memory_is_status_5_and_the_smallest_budget_works(f):
    done = plan(f, "--memory", "9M", "--json")
    check(done.returncode, 5)
    p = json.loads(done.stdout)
    check(p["runs"], False)
    assert p["smallest_budget"] > 9 * MIB and p["reason"], p
    least = f"{p['smallest_budget'] // MIB}M"
    assert least.encode() in done.stderr and done.stderr.count(b"\n") == 1, done
    check(said(f, "--memory", least)["runs"], True)
    check(f.run("run", "-m", f.model(), "-p", "Hi", "-n", "2", "--memory", least).returncode, 0)
    done = plan(f, "--memory", "9M")
    check((done.returncode, done.stdout), (5, b""))
    path, _ = large_model(f)
    done = f.run("plan", "-m", path, "--memory", "2G", "--weights", "resident", "--json")
    check(done.returncode, 5)
    least = json.loads(done.stdout)["smallest_budget"]
    check(f.run("plan", "-m", path, "--memory", f"{least // MIB}M", "--weights", "resident").returncode, 0)


def test_a_disk_measured_before_counts_and_is_dated(f):
    number = os.stat(f.model()).st_dev
    key = f"{os.major(number)}:{os.minor(number)}-{os.statvfs(f.model()).f_fsid:x}"
    folder = os.path.join(f.home, ".cache", "colibri")
    os.makedirs(folder)
    with open(os.path.join(folder, "disks"), "w", encoding="utf-8") as file:
        file.write(f"{key} 1234567890 2026-11-29\n")
    p = said(f)
    check((p["disk_bandwidth"], p["disk_bandwidth_from"], p["disk_bandwidth_date"]), (1234567890, "kept", "2026-11-29"))
    assert "2026-11-29" in plan(f).stdout.decode()
    check(said(f, "--disk-bandwidth", "1000K/s")["disk_bandwidth_from"], "given")


def test_a_probe_is_quick_and_kept(f):
    begin = time.monotonic()
    p = said(f, "--probe", "-t", "1")
    assert time.monotonic() - begin < 60  # on a machine that does ten other things
    check(p["memory_bandwidth_from"], "measured")
    assert p["memory_bandwidth"] > 0 and p["predicted_tokens_per_second"] > 0 and p["predicted_prompt_tokens_per_second"] > 0, p
    assert 0 < p["predicted_tokens_per_second"] < p["limit_tokens_per_second"], p
    check(p["disk_bandwidth_from"], "unknown")  # too small a file to tell, which is said
    assert b"16 MiB" in plan(f, "--probe", "-t", "1").stderr
    again = said(f, "-t", "1")
    check(again["memory_bandwidth_from"], "kept")
    assert len(again["memory_bandwidth_date"]) == 10 and again["predicted_tokens_per_second"] > 0, again
    check(said(f, "-t", "2")["memory_bandwidth_from"], "unknown")  # measured with another number of threads
    done = f.run("run", "-m", f.model(), "-p", "Hello", "-n", "8", "--ignore-eos", "-t", "1", "--json")
    answer = json.loads(done.stdout)
    assert answer["predicted_tokens_per_second"] > 0 and answer["limit_tokens_per_second"] > 0, answer
    said_then = f.run("run", "-m", f.model(), "-p", "Hello", "-n", "8", "--ignore-eos", "-t", "1", "--verbose").stderr
    assert b"predicted)" in said_then, said_then


def test_a_recording_tells_which_experts_are_missing(f):
    def shares(*arguments):
        done = f.run("plan", "-m", f.model("mixtral"), "--weights", "streamed", "--json", *arguments)
        check(done.returncode, 0)
        p = json.loads(done.stdout)
        return p["expert_miss_share"], p["read_per_token"]["experts"]
    heat = os.path.join(f.home, "heat")
    check(f.run("run", "-m", f.model("mixtral"), "-p", "Hello", "-n", "24", "--ignore-eos", "--temp", "0", "-c", "64", "--record-heat", heat).returncode, 0)
    even, recorded = shares(), shares("--heat", heat)
    assert 0 <= recorded[0] <= 1 and (recorded[0] > 0) == (recorded[1] > 0), recorded
    if even[0] == 0:
        check(recorded, (0, 0))
    with open(heat, "a", encoding="ascii") as file:
        file.write("99 0 4000\n")
    done = f.run("plan", "-m", f.model("mixtral"), "--heat", heat)
    check((done.returncode, done.stdout), (2, b""))
    assert b"--heat: line" in done.stderr and b"another" in done.stderr, done.stderr
    done = f.run("plan", "-m", f.model(), "--heat", heat)
    check(done.returncode, 2)
    assert b"no experts" in done.stderr, done.stderr


def test_damaged_figures_count_as_none(f):
    folder = os.path.join(f.home, ".cache", "colibri")
    os.makedirs(folder)
    for name in ("disks", "processors"):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"1 \xff\0 nonsense\n\n1 2 3 4 5 6 7 8 9\n" + b"x" * 5000)
    p = said(f, "-t", "1")
    check((p["memory_bandwidth_from"], p["disk_bandwidth_from"]), ("unknown", "unknown"))
    check(said(f, "-t", "1", "--probe")["memory_bandwidth_from"], "measured")
    check(said(f, "-t", "1")["memory_bandwidth_from"], "kept")


def test_usage_errors(f):
    for arguments, word in (((), b"a model is needed"), (("a", "b"), b"one model"), (("-m", f.model(), "--temp", "1"), b"--temp"),
                            (("-m", f.model(), "--memory", "lots"), b"--memory"), (("-m", f.model(), "--mlock"), b"--mlock")):
        done = f.run("plan", *arguments)
        check((arguments, done.returncode, done.stdout), (arguments, 1, b""))
        assert word in done.stderr, done
    done = f.run("plan", "-m", os.path.join(f.home, "none.gguf"))
    check((done.returncode, done.stdout), (2, b""))
    check(f.run("plan", f.model()).returncode, 0)  # a name alone, as with inspect


def test_cache_types_are_counted(f):
    f16, mixed = said(f)["memory"], said(f, "-ctk", "bf16", "-ctv", "f32")["memory"]
    check(mixed["kv_keys"], f16["kv_keys"])
    check(mixed["kv_values"], f16["kv_values"] * 2)
    done = plan(f, "-ctk", "q8_0", "--json")  # the tiny heads are no whole blocks
    check(done.returncode, 5)
    check(json.loads(done.stdout)["smallest_budget"], None)
    assert b"q8_0" in done.stderr and b"32" in done.stderr, done


run_tests(globals())
