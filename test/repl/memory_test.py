"""--memory and --weights: refusals, the same answers, files that change while they are in use, heat files."""
import json
import os
import re
import shutil

from keyboard import ENTER, check, ctrl
from session import run_tests

ASK = ("-p", "once upon a", "-n", "24", "--temp", "0")


def answer(f, model, *arguments):
    done = f.run("run", "-m", model, *ASK, "--json", *arguments)
    check(done.returncode, 0)
    return json.loads(done.stdout)


def test_all_ways_of_holding_weights_answer_alike(f):
    for name in ("llama", "mixtral", "gemma3"):
        model = f.model(name)
        expected = answer(f, model, "--weights", "resident")["answer"]
        for more in (("--weights", "mapped"), ("--weights", "streamed"), ("--weights", "auto"), ("--memory", "200M"),
                     ("--weights", "streamed", "--memory", "200M", "-t", "1"), ("--weights", "streamed", "-ub", "3")):
            check(answer(f, model, *more)["answer"], expected)


def test_a_budget_that_cannot_work_is_refused_with_one_that_can(f):
    done = f.run("run", "-m", f.model(), *ASK, "--memory", "1M")
    check(done.returncode, 2)
    check(done.stdout, b"")
    text = done.stderr.decode()
    check(text.count("\n"), 1)
    needed = re.search(r"a memory budget of 1 MiB is too small .* at least (\d+) MiB", text)
    assert needed, text
    # What a process takes differs a little from one start to the next.
    check(f.run("run", "-m", f.model(), *ASK, "--memory", f"{int(needed[1]) + 4}M").returncode, 0)


def test_resident_weights_keep_to_the_budget(f):
    done = f.run("run", "-m", f.model(), *ASK, "--weights", "resident", "--memory", "2M")
    check(done.returncode, 2)
    assert b"too small for resident weights" in done.stderr, done.stderr
    check(f.run("plan", "-m", f.model(), "--weights", "resident", "--memory", "2M").returncode, 5)


def test_sizes_that_are_none(f):
    for text in ("much", "-5", "1.5", "0", "12X", ""):
        done = f.run("run", "-m", f.model(), *ASK, f"--memory={text}")
        check(done.returncode, 1)
        check(done.stdout, b"")
        assert b"--memory" in done.stderr, done.stderr
        check(done.stderr.count(b"\n"), 1)
    check(f.run("run", "-m", f.model(), *ASK, "--memory", "auto").returncode, 0)


def test_a_file_that_is_cut_ends_the_answer_and_the_chat_goes_on(f):
    for how in ("streamed", "mapped"):
        model = os.path.join(f.home, how + ".gguf")
        shutil.copy(f.model(), model)
        t = f.terminal(model, "--weights", how, "-n", "5", "--seed", "1")
        t.wait(lambda: t.screen.paste_mode, "the prompt")
        os.truncate(model, os.path.getsize(model) // 2)
        seen = len(t.raw)
        t.send("hello" + ENTER)
        t.wait(lambda: b"became shorter" in t.raw[seen:].replace(b"\r\n", b" ") and t.screen.paste_mode, "the error and the prompt")
        shutil.copy(f.model(), model)  # whole again, but not what was opened
        seen = len(t.raw)
        t.send("hello" + ENTER)
        t.wait(lambda: b"was changed" in t.raw[seen:].replace(b"\r\n", b" ") and t.screen.paste_mode, "what is wrong now and the prompt")
        t.send("/exit" + ENTER)
        check(t.finish(), 0)


def test_a_file_that_is_removed_goes_on_being_read(f):
    for how in ("streamed", "mapped", "resident"):
        model = os.path.join(f.home, how + ".gguf")
        shutil.copy(f.model(), model)
        t = f.terminal(model, "--weights", how, "-n", "5", "--seed", "1")
        t.wait(lambda: t.screen.paste_mode, "the prompt")
        os.remove(model)
        seen = len(t.raw)
        t.send("hello" + ENTER)
        t.wait(lambda: b"TTFT" in t.raw[seen:] and t.screen.paste_mode, "an answer and the prompt")
        assert b"error" not in t.raw[seen:], t.raw[seen:]
        t.send(ctrl("d"))
        check(t.finish(), 0)


def test_heat_files(f):
    heat = os.path.join(f.home, "heat")
    answer(f, f.model("mixtral"), "--record-heat", heat)
    with open(heat, encoding="ascii") as file:
        lines = file.read().splitlines()
    assert len(lines) > 20, lines
    layers, before = set(), (0, -1)
    for line in lines:
        step, layer, experts = re.fullmatch(r"(\d+) (\d+) (\d+(?:,\d+)*)", line).groups()
        numbers = [int(e) for e in experts.split(",")]
        check(numbers, sorted(set(numbers)))
        now = (int(step), int(layer))
        assert now > before, (before, now)
        before = now
        layers.add(int(layer))
    check(layers, set(range(len(layers))))
    check(len(lines) % len(layers), 0)
    done = f.run("run", "-m", f.model("mixtral"), *ASK, "--record-heat", os.path.join(f.home, "no", "folder"))
    assert done.returncode != 0 and b"--record-heat" in done.stderr, done
    check(done.stdout, b"")
    # Nothing is written over the model, nor for one that isn't used.
    model = os.path.join(f.home, "model.gguf")
    shutil.copy(f.model("mixtral"), model)
    size = os.path.getsize(model)
    os.symlink(model, os.path.join(f.home, "link"))
    for target in (model, os.path.join(f.home, "link")):
        check(f.run("run", "-m", model, *ASK, "--record-heat", target).returncode, 1)
        check(os.path.getsize(model), size)
    kept = os.path.join(f.home, "kept")
    shutil.copy(f.model(), kept)
    for more in (("-m", model, "--memory", "1M"), ("-m", f.model())):
        assert f.run("run", *more, *ASK, "--record-heat", kept).returncode != 0
        check(os.path.getsize(kept), os.path.getsize(f.model()))


run_tests(globals())
