"""colibri eval and colibri imatrix: results, files, resuming, what is refused."""
import json
import os
import signal
import struct
import subprocess
import time

from keyboard import check
from session import PATIENCE, run_tests

WORDS = "the quick brown fox jumps over a lazy dog while seven wizards vex some judge "


def text_file(f, name="text.txt", repeat=40, words=WORDS):
    path = os.path.join(f.home, name)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(repeat):
            file.write(f"{i} {words}\n")
    return path


def good(f, *arguments):
    done = f.run(*arguments)
    assert done.returncode == 0, done
    assert b"\x1b" not in done.stderr, done.stderr
    return done.stdout.decode()


def refused(f, status, word, *arguments):
    done = f.run(*arguments)
    check(done.returncode, status)
    check(done.stdout, b"")
    assert word.encode() in done.stderr, done.stderr
    check(done.stderr.count(b"\n"), 1)


def perplexity(f, *arguments):
    return json.loads(good(f, "eval", "perplexity", "-m", f.model(), "-f", text_file(f), "-c", "32", "--json", *arguments))


def test_perplexity(f):
    one = perplexity(f)
    check(one["window"], 32)
    check(one["tokens_scored"], one["windows"] * 15)
    assert one["windows"] > 10 and one["perplexity"]["value"] > 1 and one["perplexity"]["error"] > 0, one
    text = good(f, "eval", "perplexity", "-m", f.model(), "-f", text_file(f), "-c", "32")
    check(text.count("\n"), 1)
    assert text.startswith(f"perplexity {one['perplexity']['value']:.4f} +/- {one['perplexity']['error']:.4f} ("), text
    # The model may also stand behind the word.
    check(good(f, "eval", "perplexity", f.model(), "-f", text_file(f), "-c", "32"), text)
    check(perplexity(f, "--chunks", "3")["windows"], 3)


def test_perplexity_does_not_depend_on_how_it_is_computed(f):
    wanted = perplexity(f)["perplexity"]
    for more in (("-t", "1"), ("-t", "3"), ("-ub", "7"), ("-ub", "32"), ("-b", "64"), ("--weights", "mapped"), ("--weights", "resident"),
                 ("--weights", "streamed", "--memory", "400M"), ("--no-mmap",)):
        check(perplexity(f, *more)["perplexity"], wanted)
    exact = perplexity(f, "--exact")
    assert exact["exact"] and abs(exact["perplexity"]["value"] / wanted["value"] - 1) < 1e-3, exact  # the F16 cache is left out
    check(perplexity(f, "--exact", "-ctk", "f16", "-ctv", "f16")["perplexity"], wanted)  # the model is F32


def test_divergence(f):
    text, base = text_file(f), os.path.join(f.home, "base")
    said = good(f, "eval", "divergence", "-m", f.model(), "-f", text, "-c", "32", "--save-base", base)
    assert "base logits of" in said, said
    refused(f, 1, "--force", "eval", "divergence", "-m", f.model(), "-f", text, "-c", "32", "--save-base", base)
    good(f, "eval", "divergence", "-m", f.model(), "-f", text, "-c", "32", "--save-base", base, "--force")
    same = json.loads(good(f, "eval", "divergence", "-m", f.model(), "--base", base, "--json"))
    check((same["same_file"], same["same_top"]["value"]), (True, 1.0))
    assert abs(same["kl"]["max"]) < 1e-6, same  # half the variance of what a step rounds
    check(json.loads(good(f, "eval", "divergence", "-m", f.model(), "--base", base, "-f", text, "-c", "32", "--json"))["kl"], same["kl"])
    other = good(f, "eval", "divergence", "-m", f.model("llama-rope-linear"), "--base", base)
    for word in ("KL divergence: mean", "median", "99.9 %", "RMS", "same top token", "ratio"):
        assert word in other, other
    part = json.loads(good(f, "eval", "divergence", "-m", f.model(), "--base", base, "--chunks", "2", "--json"))
    check(part["windows"], 2)

    refused(f, 1, "-c 64", "eval", "divergence", "-m", f.model(), "--base", base, "-c", "64")
    refused(f, 1, "another text", "eval", "divergence", "-m", f.model(), "--base", base, "-f", text_file(f, "other.txt", words="other words "))
    refused(f, 2, "vocabulary", "eval", "divergence", "-m", f.model("mistral"), "--base", base)
    with open(base, "rb") as file:
        whole = file.read()
    with open(base, "wb") as file:
        file.write(whole[:-1])
    refused(f, 4, "incomplete", "eval", "divergence", "-m", f.model(), "--base", base)
    refused(f, 4, "no file of base logits", "eval", "divergence", "-m", f.model(), "--base", text)
    refused(f, 1, "either", "eval", "divergence", "-m", f.model(), "-f", text)


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\0", data[:8]
    size = struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:10 + size], {})  # a literal that we wrote
    check((head["descr"], head["fortran_order"]), ("<f4", False))
    rows, columns = head["shape"]
    return rows, columns, data[10 + size:]


def test_logits(f):
    out = os.path.join(f.home, "out.npy")
    good(f, "eval", "logits", "-m", f.model(), "--tokens", "1,2,3", "-o", out)
    rows, columns, first = read_npy(out)
    check((rows, len(first)), (3, 3 * columns * 4))
    refused(f, 1, "--force", "eval", "logits", "-m", f.model(), "--tokens", "1,2", "-o", out)
    good(f, "eval", "logits", "-m", f.model(), "--tokens", "1, 2", "-o", out, "--force", "-ub", "1")
    rows, columns, second = read_npy(out)
    check(second, first[:2 * columns * 4])
    text = text_file(f, repeat=3)
    ids = json.loads(f.run("tokenize", "-m", f.model(), text, "--ids").stdout)
    said = json.loads(good(f, "eval", "logits", "-m", f.model(), "-f", text, "-o", out, "--force", "--json"))
    check(said["tokens"], ids)
    check(read_npy(out)[0], len(ids))
    refused(f, 1, "either", "eval", "logits", "-m", f.model(), "-o", out, "--force")
    refused(f, 1, "'x'", "eval", "logits", "-m", f.model(), "--tokens", "1,x", "-o", out, "--force")
    refused(f, 1, "vocabulary", "eval", "logits", "-m", f.model(), "--tokens", "1,100000", "-o", out, "--force")
    check(read_npy(out)[0], len(ids))  # nothing was written


def imatrix(f, out, *more):
    return good(f, "imatrix", "-m", f.model(), "-f", text_file(f), "-c", "32", "-o", out, *more)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def test_imatrix(f):
    one, two, three = (os.path.join(f.home, name) for name in ("1.gguf", "2.gguf", "3.gguf"))
    assert "tensors" in imatrix(f, one)
    listing = json.loads(good(f, "inspect", one, "--json"))
    assert "imatrix.chunk_count" in json.dumps(listing), listing
    refused(f, 1, "--force", "imatrix", "-m", f.model(), "-f", text_file(f), "-c", "32", "-o", one)
    refused(f, 1, "itself", "imatrix", "-m", f.model(), "-f", text_file(f), "-c", "32", "-o", f.model(), "--force")
    for more in (("-t", "1"), ("-t", "3"), ("--weights", "mapped"), ("--weights", "streamed", "--memory", "400M", "-ub", "512")):
        imatrix(f, two, "--force", *more)
        check(contents(two) == contents(one), True)
    # Merging with itself doubles sums and counts: the statistics of means stay.
    said = good(f, "imatrix", "--in-file", one, "--in-file", two, "-o", three)
    assert "tensors" in said, said
    first = json.loads(good(f, "imatrix", "--in-file", one, "--show-statistics", "--json"))
    both = json.loads(good(f, "imatrix", "--in-file", three, "--show-statistics", "--json"))
    check(both["windows"], 2 * first["windows"])
    check(both["statistics"], first["statistics"])
    assert "blk.0.attn_q.weight" in good(f, "imatrix", "--in-file", one, "--show-statistics")
    names = {s["tensor"] for s in first["statistics"]}
    imatrix(f, two, "--force", "--process-output")
    more = json.loads(good(f, "imatrix", "--in-file", two, "--show-statistics", "--json"))
    check(len({s["tensor"] for s in more["statistics"]} - names), 1)


def test_imatrix_goes_on_where_it_was_interrupted(f):
    whole, part = os.path.join(f.home, "whole.gguf"), os.path.join(f.home, "part.gguf")
    text = text_file(f, "long.txt", repeat=1200)
    common = ("imatrix", "-m", f.model(), "-f", text, "-c", "32", "-ub", "32", "--save-frequency", "50")
    good(f, *common, "-o", whole)
    command = [f.program, *common, "-o", part]
    process = subprocess.Popen(command, env=f.environment(), cwd=f.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    limit = time.monotonic() + PATIENCE
    while not os.path.exists(part) and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    check(process.returncode, 130)
    check(out, b"")
    assert b"--resume goes on" in err, err
    assert contents(part) != contents(whole)
    said = f.run(*common, "-o", part, "--resume")
    check(said.returncode, 0)
    assert b"going on behind window" in said.stderr, said
    check(contents(part) == contents(whole), True)
    check([name for name in os.listdir(f.home) if name.endswith(".part")], [])
    refused(f, 1, "wasn't begun with this", "imatrix", "-m", f.model(), "-f", text_file(f), "-c", "32", "-o", part, "--resume")
    refused(f, 1, "one of them", *common, "-o", part, "--resume", "--force")


def test_what_is_refused(f):
    text = text_file(f)
    short = text_file(f, "short.txt", 1)
    refused(f, 1, "one window takes 512", "eval", "perplexity", "-m", f.model(), "-f", short, "-c", "512")
    refused(f, 1, "one window takes 512", "imatrix", "-m", f.model(), "-f", short, "-o", os.path.join(f.home, "o"), "-c", "512")
    refused(f, 1, "say what to measure", "eval")
    refused(f, 1, "can't be measured", "eval", "speed", "-m", f.model())
    refused(f, 1, "a model is needed", "eval", "perplexity", "-f", text)
    refused(f, 1, "a text is needed", "eval", "perplexity", "-m", f.model())
    refused(f, 4, "none.txt", "eval", "perplexity", "-m", f.model(), "-f", "none.txt")
    refused(f, 2, "none.gguf", "eval", "perplexity", "-m", "none.gguf", "-f", text)
    refused(f, 1, "--base belongs to divergence", "eval", "perplexity", "-m", f.model(), "-f", text, "--base", "x")
    refused(f, 1, "--tokens belongs to logits", "eval", "perplexity", "-m", f.model(), "-f", text, "--tokens", "1")
    refused(f, 1, "--force does nothing", "eval", "perplexity", "-m", f.model(), "-f", text, "--force")
    refused(f, 1, "-o FILE", "imatrix", "-m", f.model(), "-f", text)
    refused(f, 1, "-m does nothing", "imatrix", "-m", f.model(), "--in-file", text, "-o", "x")
    refused(f, 4, "no importance matrix", "imatrix", "--in-file", text, "--show-statistics")
    refused(f, 2, "", "eval", "perplexity", "-m", text, "-f", text)


def test_texts_are_not_written_over(f):
    text, link = text_file(f), os.path.join(f.home, "link")
    os.symlink(text, link)
    with open(text, "rb") as file:
        before = file.read()
    for target in (text, link):
        refused(f, 1, "itself", "imatrix", "-m", f.model(), "-f", text, "-c", "32", "-o", target, "--force")
        refused(f, 1, "itself", "eval", "divergence", "-m", f.model(), "-f", text, "-c", "32", "--save-base", target, "--force")
        refused(f, 1, "itself", "eval", "logits", "-m", f.model(), "-f", text, "-o", target, "--force")
        refused(f, 1, "the text itself", "eval", "perplexity", "-m", f.model("mixtral"), "-f", text, "-c", "32", "--record-heat", target)
    with open(text, "rb") as file:
        check(file.read(), before)


def test_what_killed_runs_left_is_removed(f):
    text, out = text_file(f), os.path.join(f.home, "out.npy")
    stale = os.path.join(f.home, ".out.npy.1-2-3.part")
    with open(stale, "wb"):
        pass
    good(f, "eval", "logits", "-m", f.model(), "-f", text, "-o", out)
    check((os.path.exists(stale), os.path.exists(out)), (False, True))


run_tests(globals())
