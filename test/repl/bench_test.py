"""colibri bench: its forms, its errors, and that it ends well."""
import csv
import io
import json
import os
import signal
import subprocess
import time

from keyboard import check
from session import PATIENCE, run_tests

QUICK = ("-p", "8", "-n", "4", "-r", "2", "-t", "1")


def bench(f, *arguments, **more):
    return f.run("bench", f.model(), *arguments, **more)


def rows(f, *arguments):
    done = bench(f, *QUICK, *arguments, "-o", "json")
    check(done.returncode, 0)
    return json.loads(done.stdout)


def test_a_table(f):
    done = bench(f, *QUICK)
    check(done.returncode, 0)
    check(done.stderr, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("| model") and lines[1].startswith("| ---"), lines
    check(len({len(line) for line in lines[:4]}), 1)
    check(len({line.count("|") for line in lines[:4]}), 1)
    assert "| pp8 " in lines[2] and "| tg4 " in lines[3], lines
    assert any(line.startswith("- 1 thread: ") and "GB/s" in line for line in lines), lines
    assert "Knee" not in done.stdout.decode()


def test_json_has_the_common_fields(f):
    both = rows(f, "-d", "16")
    check([(row["n_prompt"], row["n_gen"], row["n_depth"]) for row in both], [(8, 0, 16), (0, 4, 16)])
    for row in both:
        check((row["n_threads"], row["type_k"], row["type_v"], row["n_batch"], row["n_ubatch"]), (1, "f16", "f16", 2048, 512))
        check(row["model_filename"], f.model())
        check(row["model_size"], 410880)
        check((row["weights"], row["bytes_read_per_token"], row["limit_disk_bandwidth"]), ("resident", 0, None))
        check(len(row["samples_ns"]), 2)
        check(len(row["samples_ts"]), 2)
        tokens = row["n_prompt"] + row["n_gen"]
        for nanoseconds, rate in zip(row["samples_ns"], row["samples_ts"]):
            assert abs(tokens * 1e9 / nanoseconds / rate - 1) < 1e-3, row
        assert min(row["samples_ts"]) <= row["median_ts"] <= max(row["samples_ts"]), row
        assert abs(row["fraction_of_limit"] - row["median_ts"] / row["limit_ts"]) < 1e-9, row
        time.strptime(row["test_time"], "%Y-%m-%dT%H:%M:%SZ")


def test_streamed_weights(f):
    made = rows(f, "--weights", "streamed")
    check([(row["weights"], row["use_mmap"]) for row in made], [("streamed", False)] * 2)
    assert all(row["bytes_read_per_token"] >= 0 for row in made), made
    text = bench(f, *QUICK, "--weights", "streamed").stdout
    assert b"read per token, streamed" in text and b"disk: unknown" in text, text
    mapped = rows(f, "--mmap")
    check([(row["weights"], row["bytes_read_per_token"]) for row in mapped], [("mapped", None)] * 2)


def test_other_forms_say_the_same(f):
    names = set(rows(f)[0]) - {"samples_ns", "samples_ts"}
    lines = bench(f, *QUICK, "-o", "jsonl").stdout.splitlines()
    check(len(lines), 2)
    assert names < set(json.loads(lines[1]))
    table = list(csv.DictReader(io.StringIO(bench(f, *QUICK, "-o", "csv").stdout.decode())))
    check(len(table), 2)
    check(set(table[0]), names)
    check((table[0]["test"], table[1]["test"], table[1]["n_gen"]), ("pp8", "tg4", "4"))


def test_lists_are_multiplied(f):
    made = rows(f, "-pg", "4,2", "-t", "1-2", "-ctk", "f16,bf16", "-np", "1,3", "-ub", "4,8", "-tb", "1", "--no-warmup", "-r", "1")
    check(len(made), 3 * 2 * 2 * 2 * 2)
    check({row["n_sequences"] for row in made}, {1, 3})
    check({row["n_ubatch"] for row in made}, {4, 8})
    check({row["type_k"] for row in made}, {"f16", "bf16"})
    check({row["n_threads"] for row in made}, {1, 2})
    check({row["n_threads_batch"] for row in made}, {1})


def test_a_sweep_names_its_knee(f):
    done = bench(f, "-p", "0", "-n", "4", "-t", "1,2", "-r", "2")
    check(done.returncode, 0)
    assert b"Knee of tg4: " in done.stdout, done.stdout
    done = bench(f, "-p", "0", "-n", "4", "-t", "1,2", "-r", "2", "-o", "jsonl")
    assert b"Knee of tg4: " in done.stderr and b"Knee" not in done.stdout, done


def test_usage_errors(f):
    model = f.model()
    for arguments, said in (
            ((), b"a model is needed"),
            ((model, "-m", model), b"one model at a time"),
            ((model, "-t", "1-"), b"-t: a list of whole numbers from 0 to 1024 or auto is needed"),
            ((model, "-t", "2000"), b"'2000'"),
            ((model, "-ctk", "f17"), b"'f17'"),
            ((model, "-pg", "5"), b"'5'"),
            ((model, "-o", "xml"), b"one of md csv json jsonl is needed"),
            ((model, "-r", "0"), b"from 1 to"),
            ((model, "-np", "0"), b"from 1 to"),
            ((model, "-p", "0", "-n", "0"), b"nothing is left to measure"),
            ((model, "-d", "4294967295"), b"too long"),
            ((model, "--temp", "1"), b"--temp does nothing here"),
            ((model, "--promt-tokens", "1"), b"did you mean --prompt-tokens?"),
            ((model, "--simd", "mmx"), b"'mmx'")):
        done = f.run("bench", *arguments)
        check(done.returncode, 1)
        check(done.stdout, b"")
        check(done.stderr.count(b"\n"), 1)
        assert said in done.stderr, done.stderr
    done = f.run("bench", os.path.join(f.home, "none.gguf"))
    check((done.returncode, done.stdout), (2, b""))
    assert b"no such file" in done.stderr, done.stderr


def test_a_reader_that_goes_away_is_no_error(f):
    program = subprocess.Popen([f.program, "bench", f.model(), "-p", "8", "-n", "4", "-r", "3", "-d", "0-90", "-t", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=f.environment())
    program.stdout.readline()
    program.stdout.close()
    said = program.stderr.read()
    program.wait(PATIENCE)
    check((program.returncode, said), (0, b""))


def test_control_c_leaves_what_is_known(f):
    program = subprocess.Popen([f.program, "bench", f.model(), "-p", "8", "-n", "0,2", "-r", "100000", "-t", "1", "-o", "json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=f.environment())
    out = os.read(program.stdout.fileno(), 1)
    program.send_signal(signal.SIGINT)
    rest, said = program.communicate(timeout=PATIENCE)
    out += rest
    check(program.returncode, 130)
    assert b"interrupted" in said, said
    made = json.loads(out)
    assert len(made) <= 1, made
    for row in made:
        check(len(row["samples_ns"]) < 100000, True)


def test_progress_is_for_terminals(f):
    t = f.terminal("bench", f.model(), *QUICK, columns=120)
    check(t.finish(), 0)
    seen = bytes(t.raw)
    assert b"warming up" in seen and b"1 of 2" in seen, seen
    assert not any("warming up" in line for line in t.screen.lines()), t.shown()
    assert any("| tg4 " in line for line in t.screen.lines()), t.shown()


run_tests(globals())
