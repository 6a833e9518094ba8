"""bench/compare: turns, medians and ratios, with a peer that is made up."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "repl"))
from keyboard import check  # noqa: E402
from session import PATIENCE, run_tests  # noqa: E402

COMPARE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "compare"

# Speaks llama-bench's language: each call is logged, and speeds rise from call to call (10, 20, 30 ...).
PEER = '''#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
log = os.environ["TURNS"]
if "--help" in words:
    print("@HELP@")
    sys.exit(0)
with open(log, "a") as file:
    file.write("@NAME@ " + " ".join(words) + "\\n")
if os.environ.get("BROKEN"):
    print("out of order", file=sys.stderr)
    sys.exit(3)
calls = sum(line.startswith("@NAME@ ") for line in open(log))
def values(flag, otherwise):
    return [int(n) for n in words[words.index(flag) + 1].split(",")] if flag in words else otherwise
rows = []
tests = [(p, 0) for p in values("-p", [512]) if p] + [(0, n) for n in values("-n", [128]) if n]
for depth in values("-d", [0]):
    rows += [{"n_prompt": p, "n_gen": n, "n_depth": depth} for p, n in tests]
if "-gp" in words:
    depth, n = values("-gp", [])
    rows.append({"n_prompt": depth, "n_gen": n})
for row in rows:
    row["samples_ts"] = [10.0 * calls] * 3
print(json.dumps(rows))
'''


def peer(f, name="peer", shown="-d, --n-depth"):
    path = os.path.join(f.home, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(PEER.replace("@NAME@", name).replace("@HELP@", shown))
    os.chmod(path, 0o755)
    return path


def logging_colibri(f):
    """The real program behind a script that logs its turns."""
    path = os.path.join(f.home, "logged")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\necho "colibri $*" >> "$TURNS"\nexec "{f.program}" "$@"\n')
    os.chmod(path, 0o755)
    return path


def compare(f, *arguments, peers=(), model=None, **changes):
    turns = os.path.join(f.home, "turns")
    if os.path.exists(turns):
        os.remove(turns)
    environment = f.environment(PEER_BENCH=":".join(peers), TURNS=turns, **changes)
    done = subprocess.run([sys.executable, str(COMPARE), model or f.model(), "--colibri", logging_colibri(f), "-r", "1", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=PATIENCE, check=False)
    lines = open(turns, encoding="utf-8").read().splitlines() if os.path.exists(turns) else []
    return done, lines


def entries(done):
    check((done.returncode, done.stderr), (0, b""))
    return json.loads(done.stdout)


def test_without_a_peer_ours_stands_beside_the_limits(f):
    done, turns = compare(f, "-p", "8", "-n", "4", "-t", "1", "--rounds", "2")
    check((done.returncode, done.stderr), (0, b""))
    lines = done.stdout.decode().splitlines()
    assert "of limit" in lines[0] and "peer" not in lines[0] and "ratio" not in lines[0], lines
    assert lines[2].startswith("| pp8 ") and lines[3].startswith("| tg4 "), lines
    check(len(turns), 2)


def test_turns_alternate_and_medians_are_compared(f):
    done, turns = compare(f, "-p", "8", "-n", "4", "-t", "1", "--rounds", "3", "--json", peers=[peer(f)])
    made = entries(done)
    check([line.split()[0] for line in turns], ["colibri", "peer", "peer", "colibri", "colibri", "peer"])
    check([entry["test"] for entry in made], ["pp8", "tg4"])
    for entry in made:
        check(entry["rounds"], 3)
        check(entry["peers"]["peer"]["ts"], 20.0)
        assert abs(entry["peers"]["peer"]["ratio"] - entry["colibri_ts"] / 20.0) < 1e-9, entry
        assert abs(entry["fraction_of_limit"] - entry["colibri_ts"] / entry["limit_ts"]) < 1e-9, entry


def test_both_get_the_same_settings(f):
    done, turns = compare(f, "-p", "8,0", "-n", "4", "-d", "0,16", "-t", "1,2", "-ub", "4", "-ctk", "bf16", "-ctv", "f32", "--rounds", "1",
                          "--json", "--extra=--no-mmap", peers=[peer(f)])
    made = entries(done)
    check({(entry["test"], entry["threads"]) for entry in made},
          {(test, threads) for test in ("pp8", "tg4", "pp8 @ d16", "tg4 @ d16") for threads in (1, 2)})
    check(len(turns), 4)
    for line in turns:
        for part in ("-p 8,0", "-n 4", "-d 0,16", "-ub 4", "-ctk bf16", "-ctv f32", "-r 1", "-o json"):
            assert part in line, line
        check("--no-mmap" in line, line.startswith("colibri"))


def test_a_table_with_several_peers(f):
    done, _ = compare(f, "-p", "8", "-n", "0", "-t", "1", "--rounds", "1", peers=[peer(f, "a"), peer(f, "b")])
    check((done.returncode, done.stderr), (0, b""))
    lines = done.stdout.decode().splitlines()
    assert "peer 1 tok/s" in lines[0] and "peer 2 tok/s" in lines[0], lines
    check(len({line.count("|") for line in lines[:3]}), 1)
    assert any(line.startswith("peer 2: ") and line.endswith("/b") for line in lines), lines


def test_a_peer_without_depth_measures_what_it_can(f):
    done, turns = compare(f, "-p", "8", "-n", "4", "-d", "0,16", "-t", "1", "--rounds", "1", "--json", peers=[peer(f, shown="-gp <pp,tg>")])
    made = {entry["test"]: entry for entry in entries(done)}
    check([test for test in made if made[test]["peers"]], ["pp8", "tg4", "tg4 @ d16"])
    assert not any("-d" in line.split() for line in turns if line.startswith("peer")), turns
    assert any("-gp 16,4" in line for line in turns), turns
    done, _ = compare(f, "-p", "0", "-n", "4", "-d", "16", "-t", "1", "--rounds", "1", peers=[peer(f, shown="nothing")])
    check(done.returncode, 0)
    assert done.stdout.splitlines()[2].endswith(b" - |"), done.stdout


def test_what_goes_wrong_is_said_in_one_line(f):
    for arguments, more, status, said in (
            (("-p", "x"), {}, 1, b"-p: a list of whole numbers"),
            (("-p", "0", "-n", "0"), {}, 1, b"nothing is left"),
            (("-t", "0"), {}, 1, b"0 threads"),
            (("--rounds", "0"), {}, 1, b"above 0"),
            ((), {"model": "none.gguf"}, 2, b"no file 'none.gguf'"),
            ((), {"peers": ["/nonexistent/peer"]}, 2, b"PEER_BENCH"),
            (("-p", "8", "-n", "0"), {"peers": [peer(f)], "BROKEN": "1"}, 2, b"status 3: out of order"),
            (("-p", "8", "-n", "0", "-ctk", "q9"), {}, 2, b"'q9'")):
        done, _ = compare(f, *arguments, **more)
        check((arguments, done.returncode, done.stdout), (arguments, status, b""))
        check(done.stderr.count(b"\n"), 1)
        assert said in done.stderr, done.stderr


run_tests(globals())
