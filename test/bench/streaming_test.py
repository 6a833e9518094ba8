"""bench/streaming: runs in memory groups with programs whose reading and speed are known, and the real one on small synthetic models.

COLIBRI_SYNTHETIC names bench/synthetic_model as it was built."""
import contextlib
import importlib.machinery
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "repl"))
from keyboard import check  # noqa: E402
from session import PATIENCE, run_tests  # noqa: E402

STREAMING = pathlib.Path(__file__).resolve().parents[2] / "bench" / "streaming"
MIB = 1 << 20
sys.dont_write_bytecode = True
warnings.simplefilter("ignore")
streaming = importlib.machinery.SourceFileLoader("streaming", str(STREAMING)).load_module()
try:
    streaming.Group(64 * MIB).remove()
    GROUPS = None
except OSError as problem:
    GROUPS = str(problem)

# Stands in for colibri or a peer: 10 ms a token when resident, else 50 ms, and 4 MiB read past the cache behind 8 MiB at the start.
STAND_IN = '''#!/usr/bin/env python3
import json, mmap, os, sys, time
words = sys.argv[1:]
if words[0] == "inspect":
    os.execv("@PROGRAM@", ["@PROGRAM@", *words])
if "--help" in words:
    print("@HELP@")
    sys.exit(0)
with open(os.environ["TURNS"], "a") as file:
    file.write("@NAME@ " + " ".join(words) + "\\n")
if os.environ.get("BROKEN"):
    print("out of order", file=sys.stderr)
    sys.exit(3)
tokens = int(words[words.index("-n") + 1])
resident = "resident" in words
if not resident:
    model = words[words.index("-m") + 1]
    file = os.open(model, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 4 << 20)
    for part in range(2 + tokens):
        os.preadv(file, [buffer], part % 4 << 22)
    if "EAT" in os.environ and (tokens > 2 or os.environ["EAT"] == "always"):
        eaten = bytearray(os.urandom(1 << 20) * 200)
    time.sleep(float(os.environ.get("SLEEP", "0.1")))
print(json.dumps([{"samples_ns": [tokens * (10 if resident else 50) * 1000000], "bytes_read_per_token": 4 << 20}]))
'''


def stand_in(f, name="stand-in", shown=""):
    path = os.path.join(f.home, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(STAND_IN.replace("@PROGRAM@", f.program).replace("@NAME@", name).replace("@HELP@", shown))
    os.chmod(path, 0o755)
    return path


def synthetic(f, *kind):
    path = os.path.join(f.home, kind[0] + ".gguf")
    subprocess.run([os.environ["COLIBRI_SYNTHETIC"], path, *kind], check=True, timeout=PATIENCE)
    return path


def stream(f, *arguments, peers=(), **changes):
    turns = os.path.join(f.home, "turns")
    environment = f.environment(PEER_BENCH=":".join(peers), TURNS=turns, **changes)
    done = subprocess.run([sys.executable, str(STREAMING), *arguments, "-r", "1", "--disk-seconds", "0.05"], stdin=subprocess.DEVNULL,
                          capture_output=True, env=environment, timeout=PATIENCE, check=False)
    lines = open(turns, encoding="utf-8").read().splitlines() if os.path.exists(turns) else []
    return done, lines


def without_groups():
    """Whether there is nothing to test here, which then has to be what the script says."""
    if GROUPS is not None:
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                sys.argv = [str(STREAMING), __file__]
                streaming.main()
            status = 0
        except SystemExit as end:
            status = end.code
        check((status, said.getvalue()), (streaming.SKIPPED, f"streaming: skipped: {GROUPS}\n"))
    return GROUPS is not None


def direct_reads(path):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
        return True
    except OSError:
        return False


def test_what_is_read_and_how_fast_is_measured(f):
    model = synthetic(f, "dense", "20")
    if without_groups() or not direct_reads(model):
        return
    peer = stand_in(f, "peer", "--no-warmup --repack")
    done, turns = stream(f, model, "--colibri", stand_in(f), "--limits", "48M,3/1", "-n", "4", "--warm", "2", "-t", "1", "--extra=--seen",
                         "--no-fio", "--json", peers=[peer])
    check((done.returncode, done.stderr), (0, b""))
    made = json.loads(done.stdout)
    check([(entry["engine"], entry["memory"]) for entry in made],
          [(engine, size) for size in (48 * MIB, 3 * os.path.getsize(model) // MIB * MIB) for engine in ("colibri", "peer")])
    for entry in made:
        check((round(entry["ts"], 6), round(entry["resident_ts"], 6), entry["oom_kill"], entry["swap"]), (20.0, 100.0, 0, 0))
        # The run with the resident model, just before, has brought the interpreter's own files into the page cache.
        assert abs(entry["read_per_token"] - 4 * MIB) < 0.02 * 4 * MIB, entry
        assert entry["disk_bytes_per_second"] > 1e6 and entry["disk_by"], entry
        limit = 1 / max(0.01, entry["read_per_token"] / entry["disk_bytes_per_second"])
        assert abs(entry["limit_ts"] - limit) < 1e-6 * limit and abs(entry["fraction_of_limit"] - 20 / limit) < 1e-6, entry
        check(entry["said_bytes_read_per_token"], 4 * MIB)
        assert 0.02 < entry["peak_rss_of_limit"] < 1, entry
        assert entry["ratios"] == {"peer": 1.0} if entry["engine"] == "colibri" else "ratios" not in entry, entry
    ours = [line for line in turns if line.startswith("stand-in") and "48M" in line]
    check(len(ours), 2)
    for line, tokens in zip(ours, (2, 6)):
        assert f"-p 0 -n {tokens} -r 1 --no-warmup -o json -t 1 --memory 48M --seen" in line, line
    check(sum("--weights resident" in line for line in turns), 2)
    theirs = [line for line in turns if line.startswith("peer")]
    check([line.split(" -n ")[1] for line in theirs[:2]], [f"{n} -r 1 -o json -t 1 --no-warmup --repack 0" for n in (1, 4)])


def test_failures_have_a_row(f):
    model = synthetic(f, "dense", "20")
    if without_groups() or not direct_reads(model):
        return
    common = (model, "--colibri", stand_in(f), "--limits", "48M", "-n", "4", "--warm", "2", "--no-fio")
    swap = any(line.startswith("SwapTotal:") and line.split()[1] != "0" for line in open("/proc/meminfo", encoding="ascii"))
    if not swap:  # else the kernel swaps, which the column of that name shows
        for when in ("always", "later"):
            done, _ = stream(f, *common, "--json", EAT=when)
            entry = json.loads(done.stdout)[0]
            check((entry["failed"], "ts" in entry), ("killed: out of memory", False))
            assert entry["oom_kill"] >= 1, entry
    done, _ = stream(f, *common, "--timeout", "1", SLEEP="30")
    check((done.returncode, done.stderr), (0, b""))
    lines = done.stdout.decode().splitlines()
    check(len({line.count("|") for line in lines[:3]}), 1)
    assert lines[2].startswith("| dense.gguf | ") and lines[4] == "dense.gguf, 48 MiB, colibri: too slow", lines
    done, _ = stream(f, *common, BROKEN="1")
    assert b"dense.gguf can't be resident here, so the limit is the disk's alone: out of order" in done.stderr, done.stderr
    assert b"colibri: status 3: out of order" in done.stdout, done.stdout


def test_the_real_program_maps_synthetic_models(f):
    models = [synthetic(f, "dense", "20"), synthetic(f, "moe", "20", "1", "16", "2")]
    if without_groups():
        return
    done, _ = stream(f, *models, "--colibri", f.program, "--limits", "1G", "--ways", "mapped,resident", "-n", "4", "--warm", "2", "--no-fio", "--json")
    check((done.returncode, done.stderr), (0, b""))
    made = json.loads(done.stdout)
    check([(entry["model"], entry["engine"]) for entry in made],
          [(model, engine) for model in ("dense.gguf", "moe.gguf") for engine in ("colibri mapped", "colibri resident")])
    for entry in made:
        assert "failed" not in entry and entry["oom_kill"] == 0 and entry["resident_ts"] > 0, entry
        check(entry["held_of_limit"] is None, entry["model"] == "moe.gguf")


def test_synthetic_models_are_the_same_each_time_and_of_the_size_asked_for(f):
    program = os.environ["COLIBRI_SYNTHETIC"]
    for kind in (("dense", "12"), ("moe", "30", "1", "32", "4")):
        path = synthetic(f, *kind)
        with open(path, "rb") as file:
            first = file.read()
        synthetic(f, *kind)
        with open(path, "rb") as file:
            check(file.read() == first, True)
        assert abs(len(first) / 1e6 / int(kind[1]) - 1) < 0.15, len(first)  # to the nearest layer
        done = f.run("run", "-m", path, "--raw", "-p", "a b", "-n", "8", "--temp", "1", "--top-k", "0", "--seed", "1", "--ignore-eos", "--json")
        check((done.returncode, json.loads(done.stdout)["tokens"]["generated"]), (0, 8))
    for words in ((), ("x.gguf", "dense"), ("x.gguf", "moe", "0"), ("x.gguf", "moe", "30", "-1"), ("x.gguf", "moe", "30", "1", "8", "9"), ("x.gguf", "q9_9")):
        done = subprocess.run([program, *words], capture_output=True, cwd=f.home, timeout=PATIENCE, check=False)
        check((words, done.returncode), (words, 1))
        assert done.stderr.startswith(b"usage: "), done.stderr
    assert not os.path.exists(os.path.join(f.home, "x.gguf"))


def test_the_disk_is_measured_by_both(f):
    model = synthetic(f, "dense", "12")
    if direct_reads(model):
        for measure in [streaming.disk_reading.own_bandwidth] + ([streaming.disk_reading.fio_bandwidth] if shutil.which("fio") else []):
            speed, told = measure(model, 0.05)
            assert speed > 1e5 and told, (measure, speed, told)


class MadeUp:
    name, bytes, swept, experts = "made-up", 2000, 1900, False


def run_of(**changes):
    return {"seconds_per_token": 0.5, "read_per_token": 1000, "oom_kill": 0, "peak_rss": 600, "peak_usage": 700, "swap": 0, "refaults": 0, **changes}


def test_the_limit_is_the_slower_of_computing_and_reading(_):
    def entry(runs, resident, disks=((4000.0, "x"), (1000.0, "y"))):
        return streaming.summarise(MadeUp, 1000, "colibri", runs, resident, list(disks))
    one = entry([run_of()], 0.1)  # 1000 bytes at 4000 a second
    check((one["ts"], one["limit_ts"], one["fraction_of_limit"], one["held_of_limit"], one["peak_rss_of_limit"]), (2.0, 4.0, 0.5, 0.9, 0.6))
    one = entry([run_of()], 0.4)
    check((one["limit_ts"], one["fraction_of_limit"]), (2.5, 0.8))
    check(entry([run_of()], None)["limit_ts"], 4.0)
    check(entry([run_of()], None, [(0.0, "")])["limit_ts"], None)
    one = entry([run_of(seconds_per_token=s, refaults=n, peak_rss=r) for s, n, r in ((1.0, 5, 10), (0.25, 0, 990), (0.5, 1, 10))], 0.1)
    check((one["ts"], one["refaults"], one["peak_rss_of_limit"]), (2.0, 5, 0.99))
    one = entry([run_of(), {"failed": "killed", "oom_kill": 1}], 0.1)
    check((one["ts"], one["failed"], one["oom_kill"]), (2.0, "killed", 1))
    check(entry([run_of(said_bytes_read_per_token=800)], 0.1)["read_of_said"], 1.25)


def test_wrong_use_is_said_in_one_line(f):
    for arguments, status, said in (
            (("none.gguf",), 2, b"no file 'none.gguf'"),
            ((f.model(), "--limits", "2"), 1, b"2/3,600M"),
            ((f.model(), "--limits", "0/3"), 1, b"2/3,600M"),
            ((f.model(), "--ways", "swapped"), 1, b"memory, mapped and resident"),
            ((f.model(), "-n", "0"), 1, b"above 0"),
            ((), 1, b"required")):
        done, _ = stream(f, *arguments)
        check((arguments, done.returncode, done.stdout), (arguments, status, b""))
        check(done.stderr.count(b"\n"), 1)
        assert said in done.stderr, done.stderr


run_tests(globals())
