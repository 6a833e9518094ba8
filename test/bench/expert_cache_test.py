"""bench/expert_cache: policies on traces whose misses can be counted by hand."""
import json
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "repl"))
from keyboard import check  # noqa: E402
from session import PATIENCE, run_tests  # noqa: E402

EXPERT_CACHE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "expert_cache"


def run(f, trace, *arguments):
    path = os.path.join(f.home, "heat.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(trace)
    return subprocess.run([sys.executable, str(EXPERT_CACHE), path, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          env=f.environment(), timeout=PATIENCE, check=False)


def caches(done, status=0):
    check((done.returncode, done.stderr), (status, b""))
    return {row["experts"]: row for row in json.loads(done.stdout)["caches"]}


def steps(experts, layer=0):
    return "".join(f"{step} {layer} {expert}\n" for step, expert in enumerate(experts))


def test_a_sweep_larger_than_the_cache(f):
    # 0 1 2 3, three times: LRU drops each just before its use. The others keep three of them, so that each round misses one.
    trace = "".join(f"0 {layer} 0\n" for layer in (0, 1, 2, 3)) * 3
    row = caches(run(f, trace, "--experts", "3", "--json"))[3]
    check((row["lru"], row["frequency"], row["optimum"]), (12, 6, 6))
    row = caches(run(f, trace, "--experts", "4", "--json"))[4]
    check((row["lru"], row["frequency"], row["optimum"]), (4, 4, 4))


def test_recent_use_against_frequent_use(f):
    # 0 is used every other step and 1, 2, 3 ... once each. With room for one: LRU never has 0, frequency always from the second use on.
    trace = steps([0, 1, 0, 2, 0, 3, 0, 4])
    row = caches(run(f, trace, "--experts", "1", "--half-life", "100", "--json"))[1]
    check((row["lru"], row["frequency"], row["optimum"]), (8, 5, 5))
    # What was used often long ago gives way to what is used now: 0 four times, then 1 for good.
    trace = steps([0] * 4 + [1] * 12)
    check(caches(run(f, trace, "--experts", "1", "--half-life", "100", "--json"))[1]["frequency"], 1 + 5)
    check(caches(run(f, trace, "--experts", "1", "--half-life", "4", "--json"))[1]["frequency"], 1 + 3)
    row = caches(run(f, trace, "--experts", "1", "--half-life", "4,100", "--json"))[1]
    check((row["frequency"], row["half_life"], row["lru"], row["better"]), (4, 4, 2, 2))


def test_a_set_is_needed_at_once(f):
    # The same numbers in two layers are different experts; what one line needs is there, even if the cache is smaller.
    trace = "0 0 1,2,3\n0 1 1,2,3\n1 0 1,2,3\n1 1 1,2,3\n"
    rows = caches(run(f, trace, "--experts", "2,6", "--json"))
    check((rows[2]["lru"], rows[2]["frequency"], rows[2]["optimum"]), (12, 10, 10))
    check((rows[6]["lru"], rows[6]["frequency"], rows[6]["optimum"]), (6, 6, 6))
    check(caches(run(f, trace, "--experts", "6", "--skip", "1", "--json"))[6]["lru"], 0)


def plain_optimum(lines, size):
    """Belady's rule written down as it is said."""
    held, misses = set(), 0
    for number, keys in enumerate(lines):
        misses += len(keys - held)
        def next_use(key, number=number):
            return next((later for later in range(number + 1, len(lines)) if key in lines[later]), len(lines))
        held = set(sorted(held | keys, key=next_use)[:size])
    return misses


def test_no_policy_beats_the_optimum(f):
    noise = random.Random(1)
    lines = [set(noise.choices(range(12), weights=[1 / (1 + rank) for rank in range(12)], k=3)) for _ in range(200)]
    trace = "".join(f"{step} 0 {','.join(map(str, sorted(keys)))}\n" for step, keys in enumerate(lines))
    for size, row in caches(run(f, trace, "--experts", "1,2,4,6,9,12", "--json")).items():
        check((size, row["optimum"]), (size, plain_optimum(lines, size)))
        assert row["optimum"] <= row["better"] == min(row["lru"], row["frequency"]), row


def test_an_engine_is_held_to_the_better_policy(f):
    trace = steps([0, 1, 0, 2, 0, 3, 0, 4] * 10)
    better = caches(run(f, trace, "--experts", "2", "--json"))[2]["better"]
    for misses, status in ((better, 0), (better + better // 20, 0), (better + better // 20 + 1, 3)):
        row = caches(run(f, trace, "--measured", f"2={misses}", "--json"), status)[2]
        check((row["measured"], row["ratio"]), (misses, misses / better))
    done = run(f, trace, "--experts", "1", "--measured", f"2={better}", "--bound", "1")
    check((done.returncode, done.stderr), (0, b""))
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("80 steps, 1 layers, 80 demands for 5 experts"), lines
    check([line.split("|")[1].strip() for line in lines[4:]], ["1", "2"])
    check([line.split("|")[7].strip() for line in lines[4:]], ["-", "1.000"])


def test_use_is_told(f):
    trace = steps([0] * 9 + [9])
    told = json.loads(run(f, trace, "--experts", "1", "--json").stdout)
    check((told["steps"], told["demands"], told["layers"], told["experts"], told["top_tenth"], told["top_half"]), (10, 10, 1, 10, 0.9, 1.0))


def test_what_goes_wrong_is_said_in_one_line(f):
    for trace, arguments, status, said in (
            ("", (), 2, b"is empty"),
            ("0 0 1\nx 0 1\n", (), 2, b"line 2"),
            ("0 0 1,1\n", (), 2, b"line 1"),
            ("0 0\n", (), 2, b"line 1"),
            ("0 0 -1\n", (), 2, b"line 1"),
            ("0 0 1 2\n", (), 2, b"line 1"),
            ("0 0 1\n", ("--skip", "1"), 1, b"leaves none"),
            ("0 0 1\n", ("--experts", "0"), 1, b"above 0"),
            ("0 0 1\n", ("--measured", "5"), 1, b"EXPERTS=MISSES")):
        done = run(f, trace, *arguments)
        check((trace, done.returncode, done.stdout), (trace, status, b""))
        check(done.stderr.count(b"\n"), 1)
        assert said in done.stderr, done.stderr
    done = subprocess.run([sys.executable, str(EXPERT_CACHE), os.path.join(f.home, "none")], capture_output=True, timeout=PATIENCE, check=False)
    check((done.returncode, done.stderr.count(b"\n")), (2, 1))


run_tests(globals())
