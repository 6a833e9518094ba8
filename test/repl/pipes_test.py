"""The program in scripts: clean streams, where prompts come from, exit codes, locales, closed and full outputs."""
import fcntl
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import time

from keyboard import check
from session import PATIENCE, run_tests

GREEDY = ("--temp", "0", "-n", "8")
F_SETPIPE_SZ = 1031  # Python 3.10 and later name it


def run(f, *arguments, **more):
    return f.run("run", "-m", f.model(), *GREEDY, *arguments, **more)


def answer(f, *arguments, **more):
    done = run(f, *arguments, **more)
    check(done.returncode, 0)
    assert b"\x1b" not in done.stderr, done.stderr
    return done.stdout


def prompt_of(f, *arguments, **more):
    """What the model got, without the template, by way of --show-prompt."""
    done = run(f, *arguments, "--raw", "--show-prompt", **more)
    check(done.returncode, 0)
    return done.stderr.split(b"\n", 1)[1].decode()


def test_stdout_has_the_answer_alone(f):
    done = run(f, "-p", "Hello", "--verbose")
    check(done.returncode, 0)
    assert done.stdout.endswith(b"\n") and not done.stdout.endswith(b"\n\n"), done.stdout
    for word in (b"llama", b"token", b"seed", b"context"):
        assert word not in done.stdout and word in done.stderr, done
    check(answer(f, "-p", "Hello"), done.stdout)


def test_answers_do_not_depend_on_threads_or_batches(f):
    wanted = answer(f, "-p", "Hello, how are you?", "-n", "40")
    for more in (("-t", "1"), ("-t", "3"), ("-ub", "1"), ("-ub", "5"), ("-b", "3"), ("--no-mmap",), ("--mmap",),
                 ("--weights", "auto"), ("--weights", "mapped"), ("--weights", "resident"), ("-c", "100")):
        check(answer(f, "-p", "Hello, how are you?", "-n", "40", *more), wanted)


def test_the_statistics_say_where_the_weights_are(f):
    for options, held in ((("--weights", "mapped"), "mapped"), (("--mmap",), "mapped"), (("--weights", "resident"), "resident"),
                          (("--no-mmap",), "resident"), ((), "resident"), (("--mmap", "--weights", "mapped"), "mapped")):
        done = run(f, "-p", "Hello", "-n", "4", "--verbose", *options)
        assert done.returncode == 0 and f"B {held}, KV".encode() in done.stderr, (options, done)
        said = json.loads(run(f, "-p", "Hello", "-n", "4", "--json", *options).stdout)
        assert said["memory"]["weights_mapped"] == (held == "mapped"), (options, said)
        check(said["memory"]["weights_held"], held)


# Small enough that most weights of the tiny model are read for each token.
STREAMED = ("--weights", "streamed", "--memory")


def smallest_budget(f, model):
    """The least memory that a model can be streamed with, as an option."""
    said = f.run("plan", "-m", model, "--weights", "streamed", "--memory", "1M", "--json")
    check(said.returncode, 5)
    return f"{json.loads(said.stdout)['smallest_budget'] >> 20}M"


def test_figures_of_an_answer(f):
    names = ("predicted_tokens_per_second", "limit_tokens_per_second", "expert_hits", "expert_misses")
    for held, read in (("resident", 0), ("mapped", None)):
        said = json.loads(run(f, "-p", "Hello", "--ignore-eos", "--json", "--weights", held).stdout)
        check((held, said["bytes_read_per_token"], said["disk_wait_seconds"]), (held, read, read))
        check([said[name] for name in names], [None] * 4)  # nothing was ever measured here
        assert said["tokens_per_second"] > 0 and said["peak_rss"] >= said["memory"]["rss"] > 0, said
    once = json.loads(run(f, "-p", "Hello", "-n", "1", "--json").stdout)
    check(once["tokens_per_second"], None)


def test_figures_of_a_streamed_answer(f):
    for name, experts in (("llama", False), ("mixtral", True)):
        model = f.model(name)
        options = ("-m", model, "-p", "Hello", "--raw", "--ignore-eos", *GREEDY, *STREAMED, smallest_budget(f, model))
        said = json.loads(f.run("run", *options, "--json").stdout)
        check(said["memory"]["weights_held"], "streamed")
        assert said["bytes_read_per_token"] >= 0 and said["disk_wait_seconds"] >= 0, said
        check(said["expert_hits"] is not None, experts)
        if experts:
            assert said["expert_hits"] + said["expert_misses"] > 0 and said["memory"]["expert_cache"] > 0, said
        told = f.run("run", *options, "--verbose").stderr.decode()
        assert "streamed, KV" in told and "waited" in told and ("of experts found" in told) == experts, told
        told = f.run("chat", *options[:2], *options[4:], stdin=b"Hello\n/stats\n").stderr.decode()
        assert "predicted     unknown" in told and "disk  " in told and ("experts  " in told) == experts, told


def test_contradicting_ways_to_hold_weights_are_refused(f):
    for options in (("--mmap", "--weights", "resident"), ("--no-mmap", "--weights", "auto"), ("--weights", "elsewhere")):
        done = run(f, "-p", "Hello", *options)
        assert done.returncode == 1 and b"weights" in done.stderr and done.stdout == b"", (options, done)


def test_the_same_seed_says_the_same(f):
    sampled = ("-p", "Hello", "--temp", "1.5", "-n", "30", "--ignore-eos")
    first = answer(f, *sampled, "--seed", "42")
    check(answer(f, *sampled, "--seed", "42"), first)
    assert answer(f, *sampled, "--seed", "43") != first
    done = run(f, *sampled)
    seed = done.stderr.decode().rsplit("seed ", 1)[1].split()[0]
    check(answer(f, *sampled, "--seed", seed), done.stdout)


def test_where_the_prompt_comes_from(f):
    path = os.path.join(f.home, "prompt.txt")
    with open(path, "wb") as file:
        file.write(b"from a file\n")
    check(prompt_of(f, "-p", "given"), "given\n")
    check(prompt_of(f, stdin=b"piped\n"), "piped\n")
    check(prompt_of(f, "-p", "given", stdin=b"piped\n"), "given\n\npiped\n")
    check(prompt_of(f, path), "from a file\n")
    check(prompt_of(f, path, stdin=b"not read"), "from a file\n")
    check(prompt_of(f, "-f", path), "from a file\n")
    check(prompt_of(f, "-p", "given", "-f", path), "given\n\nfrom a file\n")
    check(prompt_of(f, "-", stdin=b"piped"), "piped\n")
    check(prompt_of(f, "-p", "given", "-", stdin=b"piped"), "given\n\npiped\n")
    check(prompt_of(f, "-p", "given", stdin=subprocess.DEVNULL), "given\n")
    check(prompt_of(f, "-p", "--temp"), "--temp\n")
    check(prompt_of(f, stdin=b"\xef\xbb\xbfa\r\nb\r\n"), "a\nb\n")
    done = run(f, "--show-prompt", stdin=b"a\xffb")
    check(done.returncode, 0)
    assert "a\ufffdb".encode() in done.stderr and b"isn't all UTF-8" in done.stderr, done.stderr


def test_input_that_others_made_non_blocking(f):
    for command, wanted in ((("run", "-m", f.model(), *GREEDY, "--raw", "--show-prompt"), b"late"),
                            (("chat", f.model(), *GREEDY, "--show-prompt"), b"late")):
        read, write = os.pipe()
        os.set_blocking(read, False)
        program = subprocess.Popen([f.program, *command], stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=f.environment())
        os.close(read)
        time.sleep(0.2)  # so that it finds nothing at first; if it is slower, it only has less to do
        os.write(write, b"late\n")
        os.close(write)
        said = program.communicate(timeout=PATIENCE)[1]
        check(program.returncode, 0)
        assert wanted in said, said


def test_a_fifo_is_a_file(f):
    path = os.path.join(f.home, "fifo")
    os.mkfifo(path)
    writer = subprocess.Popen(["sh", "-c", 'printf "through a fifo" > "$1"', "sh", path])
    try:
        check(prompt_of(f, path), "through a fifo\n")
    finally:
        writer.wait(PATIENCE)


def test_usage_errors(f):
    model = f.model()
    for arguments, said in (
            (("run", "-m", model, "--tmp", "1"), b"did you mean --temp?"),
            (("run", "-m", model, "-p", "x", "--temp", "hot"), b"'hot'"),
            (("run", "-m", model, "-p", "x", "--temp", "0,5"), b"'0,5'"),
            (("run", "-p", "x"), b"a model is needed"),
            (("run", "-m", model, "--temp"), b"(see colibri run --help)"),
            (("inspect", "--split", "x", model), b"(see colibri inspect --help)"),
            ((model, "--tmp", "1"), b"(see colibri chat --help)"),
            (("tokenise",), b"(see colibri --help)"),
            (("run", model, "a", "b"), b"only one file"),
            (("run", "-m", model), b"a prompt is needed"),  # standard input is empty
            (("run", "-m", model, "a", "b"), b"only one file"),
            (("run", "-m", model, "-p", "x", "--raw", "--system", "y"), b"--system"),
            (("run", "-m", model, "-p", "x", "--chat-template", "nonsense"), b"nonsense"),
            (("run", "-m", model, "-p", "x", "--special"), b"--raw"),
            (("run", "-m", model, "-p", "x", "--simd", "baseline", "--simd", "mmx"), b"'mmx'"),
            (("chat", "-m", model, "extra"), b"'extra'"),
            (("chat",), b"a model is needed"),
            (("tokenise",), b"did you mean tokenize?"),
            (("inspect",), b"a file is needed"),
            (("completion",), b"a shell is needed"),
            (("completion", "tcsh"), b"'tcsh'"),
            (("help", "rum"), b"did you mean run?"),
            (("tokenize", "-m", model, "--decode", "-p", "1 99999"), b"'99999'"),
    ):
        done = f.run(*arguments)
        check((arguments, done.returncode), (arguments, 1))
        check(done.stdout, b"")
        assert said in done.stderr and done.stderr.startswith(b"colibri: "), done.stderr
        check(done.stderr.count(b"\n"), 1)
    done = f.run("run", "-m", model, "-p", "x", COLIBRI_SIMD="mmx")
    check(done.returncode, 1)
    assert b"COLIBRI_SIMD" in done.stderr, done.stderr


def test_model_errors(f):
    text = os.path.join(f.home, "text.gguf")
    with open(text, "w", encoding="utf-8") as file:
        file.write("this is not a model at all, but text")
    cut = os.path.join(f.home, "cut.gguf")
    with open(f.model(), "rb") as whole, open(cut, "wb") as file:
        file.write(whole.read()[:100000])
    for path in (text, cut, os.path.join(f.home, "none.gguf"), f.home):
        for arguments in (("run", "-m", path, "-p", "x"), ("chat", path), ("tokenize", "-m", path, "-p", "x"),
                          ("inspect", path)):
            if path == cut and arguments[0] == "tokenize":
                continue  # its vocabulary is whole
            done = f.run(*arguments)
            check((arguments, done.returncode), (arguments, 2))
            check(done.stdout, b"")
            assert done.stderr.count(b"\n") == 1, done.stderr


def write_gguf(path, texts):
    """A GGUF file of nothing but metadata."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(texts)))
        for key, value in texts.items():
            file.write(text(key) + struct.pack("<I", 8) + text(value))


def test_files_that_are_no_language_models(f):
    path = os.path.join(f.home, "file.gguf")
    for texts, said in (({"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}, b"LoRA"),
                        ({"general.architecture": "clip", "general.type": "mmproj"}, b"projector")):
        write_gguf(path, texts)
        for arguments in (("run", "-m", path, "-p", "x"), ("chat", path)):
            done = f.run(*arguments)
            check((arguments, done.returncode), (arguments, 2))
            assert said in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
        assert said in f.run("inspect", path).stdout


def test_templates(f):
    def shown(*arguments):
        done = run(f, "-p", "Hello", "--show-prompt", *arguments)
        check(done.returncode, 0)
        return done.stderr.decode().split("\n", 1)[1]

    path = os.path.join(f.home, "own.jinja")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}")
    check(shown("--chat-template", path, "--system", "Be brief."), "[system: Be brief.][user: Hello]\n")
    assert "<|im_start|>user" in shown("--chat-template", "chatml")
    assert "<|start_header_id|>user" in shown("--chat-template", "llama3")
    for broken, said in (("{% if %}", b"line 1"), ("{{ raise_exception('not today') }}", b"not today"), ("", b"empty")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(broken)
        done = run(f, "-p", "Hello", "--chat-template", path)
        check((broken, done.returncode), (broken, 2))
        assert said in done.stderr and not done.stdout, done.stderr


def test_control_tokens_only_where_they_are_asked_for(f):
    def ids(*arguments):
        return json.loads(run(f, "-p", "<|im_end|>", "--json", *arguments).stdout)["tokens"]["prompt"]

    assert ids("--raw") > ids("--raw", "--special"), "typed text became a control token"


def test_verbose_says_more(f):
    said = run(f, "-p", "x", "--verbose").stderr
    for word in (b"architecture", b"vocabulary", b"sampling", b"TTFT", b"weights", b"KV ", b"RSS"):
        assert word in said, said
    assert b"TTFT" not in run(f, "-p", "x").stderr


def test_a_prompt_that_does_not_fit(f):
    done = run(f, "-c", "32", stdin=b"many words " * 100)
    check(done.returncode, 3)
    check(done.stdout, b"")
    assert b" 32" in done.stderr, done.stderr
    done = run(f, "-c", "32", "-p", "a few words", "-n", "-1", "--ignore-eos")
    check(done.returncode, 3)
    assert b"full" in done.stderr and done.stdout, done


def test_input_that_cannot_be_read(f):
    for path in (os.path.join(f.home, "none.txt"), f.home):
        for arguments in ((path,), ("-f", path)):
            done = run(f, *arguments)
            check(done.returncode, 4)
            check(done.stdout, b"")


def test_a_reader_that_goes_away_is_no_error(f):
    for command in (("run", "-m", f.model(), "-p", "x", "--ignore-eos"), ("chat", f.model(), "-p", "x", "--ignore-eos"),
                    ("--help",), ("inspect", f.model()), ("completion", "bash")):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([f.program, *command], stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE,
                              env=f.environment(), timeout=PATIENCE, check=False)
        os.close(write)
        check((command, done.returncode), (command, 0))
        assert b"colibri: " not in done.stderr, done.stderr


def test_no_stdout_at_all(f):
    command = [f.program, "run", "-m", f.model(), *GREEDY, "-p", "x"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *command], env=f.environment(), timeout=PATIENCE,
                          check=False)
    check(done.returncode, 0)


def test_a_full_disk_is_an_error(f):
    run_it = ("run", "-m", f.model(), "-p", "x", *GREEDY)
    for command in (run_it, (*run_it, "--json"), ("chat", f.model(), "-p", "x", *GREEDY), ("--help",), ("--version",),
                    ("inspect", f.model()), ("tokenize", "-m", f.model(), "-p", "x")):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([f.program, *command], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                  env=f.environment(), timeout=PATIENCE, check=False)
        check((command, done.returncode), (command, 4))
        assert b"full" in done.stderr and done.stderr.count(b"colibri: ") == 1, done.stderr


def comma_locale(f):
    """A folder with a locale whose decimal point is a comma, made here since few machines have one."""
    tool = shutil.which("localedef")
    if tool is None or not os.path.exists("/usr/share/i18n/locales/de_DE"):
        return None
    target = os.path.join(f.home, "de_DE.UTF-8")
    done = subprocess.run([tool, "-i", "de_DE", "-f", "UTF-8", target], capture_output=True, check=False)
    return f.home if done.returncode == 0 else None


def test_comma_locales_change_nothing(f):
    sampled = ("-p", "Hello", "--seed", "7", "--temp", "0.75", "--top-p", "0.9", "--json", "-n", "20")
    wanted = json.loads(run(f, *sampled).stdout)
    folder = comma_locale(f)
    more = {"LOCPATH": folder} if folder else {}
    print("comma locale:", "made" if folder else "not available, only named")
    done = run(f, *sampled, LANG="de_DE.UTF-8", LC_ALL="de_DE.UTF-8", **more)
    check(done.returncode, 0)
    got = json.loads(done.stdout)
    for key in ("answer", "settings", "seed", "finish_reason"):
        check(got[key], wanted[key])
    check(got["settings"]["temp"], 0.75)


def test_json(f):
    done = run(f, "-p", "Hello", "--json", "--seed", "5", "-sys", "Be brief.")
    check(done.returncode, 0)
    check(done.stdout.count(b"\n"), 1)
    said = json.loads(done.stdout)
    check(said["finish_reason"] in ("end", "length"), True)
    check(said["seed"], 5)
    check(said["settings"]["temp"], 0)
    check(said["settings"]["context"], 512)
    check(said["tokens"]["generated"] > 0 and said["tokens"]["prompt"] > 0, True)
    for key in ("prompt_seconds", "first_token_seconds", "generation_seconds"):
        assert said["timings"][key] >= 0
    check(json.loads(run(f, "-p", "Hello", "--json", "--raw").stdout)["settings"]["raw"], True)
    stopped = json.loads(run(f, "-p", "Hello", "--json", "--stop", "q" * 50).stdout)
    assert stopped["finish_reason"] != "stop"


def test_limits_of_answers(f):
    check(answer(f, "-p", "Hello", "-n", "0"), b"")
    text = answer(f, "-p", "Hello", "-n", "40", "--ignore-eos").decode(errors="surrogateescape").rstrip("\n")
    word = next(c for c in text if c.isascii() and c.isprintable() and c not in " \n")
    cut = answer(f, "-p", "Hello", "-n", "40", "--ignore-eos", "--stop", word).decode(errors="surrogateescape")
    check(cut.rstrip("\n"), text.split(word)[0].rstrip("\n"))


def test_chat_takes_lines(f):
    path = os.path.join(f.home, "talk.json")
    lines = (b'\xef\xbb\xbfHello\r\n\n//slash\n/usr/bin fails\n"""\ntwo\nlines\n"""\ncontinued\\\nhere\n'
             b"/save " + path.encode() + b"\nlast")
    done = f.run("chat", f.model(), *GREEDY, stdin=lines)
    check(done.returncode, 0)
    with open(path, encoding="utf-8") as file:
        saved = json.load(file)
    check([m["content"] for m in saved["messages"] if m["role"] == "user"],
          ["Hello", "/slash", "/usr/bin fails", "two\nlines", "continued\nhere"])
    check(os.stat(path).st_mode & 0o7777, 0o600)
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"saved" not in done.stdout and b"saved" in done.stderr
    assert not os.path.exists(os.path.join(f.home, ".local")), "a pipe leaves no history"


def test_chat_remembers_what_went_wrong(f):
    check(f.run("chat", f.model(), *GREEDY, stdin=b"/nope\n/help\n").returncode, 1)
    check(f.run("chat", f.model(), *GREEDY, stdin=b"/load none.json\n").returncode, 4)
    done = f.run("chat", f.model(), *GREEDY, "-c", "24", stdin=b"many words " * 50 + b"\n/clear\nHi\n")
    check(done.returncode, 3)
    assert done.stdout, "the chat goes on after a message that didn't fit"
    check(f.run("chat", f.model(), *GREEDY, stdin=b"/quit\n/nope\n").returncode, 0)
    check(f.run("chat", f.model(), *GREEDY, stdin=b"").returncode, 0)
    check(f.run("chat", f.model(), *GREEDY, "-p", "first", stdin=b"").stdout != b"", True)


def test_each_line_is_answered_as_it_comes(f):
    first = f.run("chat", f.model(), *GREEDY, stdin=b"one\n").stdout
    both = f.run("chat", f.model(), *GREEDY, stdin=b"one\ntwo\n").stdout
    assert first and both.startswith(first) and len(both) > len(first), (first, both)
    program = subprocess.Popen([f.program, "chat", f.model(), *GREEDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=f.environment())
    try:
        for text, length in ((b"one\n", len(first)), (b"two\n", len(both) - len(first))):
            program.stdin.write(text)
            program.stdin.flush()
            check(len(program.stdout.read(length)), length)
        program.stdin.close()
        check(program.wait(PATIENCE), 0)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


# More text than a pipe takes before somebody reads it, so that the answer waits for the test.
ENDLESS = ("-c", "1000000", "--ignore-eos", "-n", "-1")


def test_control_c_ends_a_run(f):
    program = subprocess.Popen([f.program, "run", "-m", f.model(), "-p", "x", *ENDLESS], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=f.environment())
    try:
        first = os.read(program.stdout.fileno(), 1)
        program.send_signal(signal.SIGINT)
        rest = program.stdout.read()
        check(program.wait(PATIENCE), 130)
        assert (first + rest).endswith(b"\n")
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


def test_control_c_in_a_piped_chat_goes_on_with_the_next_line(f):
    program = subprocess.Popen([f.program, "chat", f.model(), *ENDLESS], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=f.environment())
    try:
        program.stdin.write(b"go\n")
        program.stdin.flush()
        os.read(program.stdout.fileno(), 1)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(b"/show messages\n", timeout=PATIENCE)
        assert b"assistant: " in err and b"stopped" in err, err
        check(program.returncode, 0)
        assert out
    finally:
        program.kill()
        program.wait()


def test_ignored_signals_stay_ignored(f):
    """nohup, and jobs that a script puts into the background."""
    script = 'trap "" INT; exec "$@"'
    command = [f.program, "run", "-m", f.model(), "-p", "x", "--seed", "1", "--ignore-eos", "-n", "5000", "-c", "6000"]
    read, write = os.pipe()
    fcntl.fcntl(write, F_SETPIPE_SZ, 4096)  # less than the answer, so that the program can't be at its end
    program = subprocess.Popen(["sh", "-c", script, "sh", *command], stdin=subprocess.DEVNULL, stdout=write,
                               stderr=subprocess.DEVNULL, env=f.environment())
    os.close(write)
    try:
        with open(read, "rb") as out:
            said = out.read(1)
            program.send_signal(signal.SIGINT)
            said += out.read()
        check(program.wait(PATIENCE), 0)
        check(said, f.run(*command[1:]).stdout)
        assert len(said) > 4096, len(said)
    finally:
        program.kill()
        program.wait()


def test_file_size_limit_is_an_output_error(f):
    path = os.path.join(f.home, "out")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))

    with open(path, "wb") as out:
        done = subprocess.run([f.program, "run", "-m", f.model(), "-p", "x", "-n", "40", "--ignore-eos"],
                              stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, env=f.environment(),
                              preexec_fn=limit, timeout=PATIENCE, check=False)
    check(done.returncode, 4)


def test_tokenize(f):
    def tokenized(*arguments, **more):
        done = f.run("tokenize", "-m", f.model(), *arguments, **more)
        check(done.returncode, 0)
        return done.stdout.decode()

    ids = json.loads(tokenized("-p", "Hello there", "--ids"))
    assert len(ids) > 2
    check(tokenized("-p", " ".join(map(str, ids[1:])), "--decode").rstrip("\n"), "Hello there")
    check(json.loads(tokenized("-p", "Hello there", "--ids", "--no-bos")), ids[1:])
    table = tokenized(stdin=b"Hello there\n").splitlines()
    check([int(line.split("\t")[0]) for line in table], ids)
    check([t["id"] for t in json.loads(tokenized("-p", "Hello there", "--json"))["tokens"]], ids)
    tokens = json.loads(tokenized("-p", "Hello there", "--json", "--no-bos"))["tokens"]
    check("".join(t["text"] for t in tokens), "Hello there")
    with open(os.path.join(f.models, "llama", "case.json"), encoding="utf-8") as file:
        case = json.load(file)["sequences"][0]
    check(json.loads(tokenized("-p", case["text"], "--ids")), case["tokens"])


def test_a_model_may_be_named_without_m(f):
    for command in ("run", "tokenize"):
        named, bare = (f.run(command, *words, *(GREEDY if command == "run" else ()), "-p", "Hello") for words in (("-m", f.model()), (f.model(),)))
        check((command, bare.returncode, bare.stdout), (command, 0, named.stdout))
        prompt = os.path.join(f.home, "prompt")
        with open(prompt, "w", encoding="utf-8") as file:
            file.write("Hello")
        check(f.run(command, f.model(), prompt, *(GREEDY if command == "run" else ())).stdout, named.stdout)
    check(f.run("plan", f.model()).returncode, 0)


def test_inspect(f):
    done = f.run("inspect", f.model())
    check(done.returncode, 0)
    assert b"general.architecture" in done.stdout and b"blk.0." in done.stdout and b"\x1b" not in done.stdout
    check(b"blk.0." in f.run("inspect", f.model(), "--no-tensors").stdout, False)
    listing = json.loads(f.run("inspect", "-m", f.model(), "--json").stdout)
    check(any(entry["key"] == "general.architecture" for entry in listing["metadata"]), True)


def test_version_and_help(f):
    done = f.run("--version")
    check(done.returncode, 0)
    assert done.stdout.startswith(b"colibri ") and b"SIMD target: " in done.stdout, done.stdout
    check(f.run("--version", COLIBRI_SIMD="baseline").stdout.splitlines()[1], b"SIMD target: baseline")
    for words in (("--help",), ("help",), ("run", "--help"), ("chat", "--help"), ("tokenize", "-h"),
                  ("inspect", "--help"), ("convert", "--help"), ("completion", "--help"), ("help", "run"), ()):
        done = f.run(*words)
        check((words, done.returncode), (words, 0))
        assert done.stdout.startswith((b"Usage", b"Colibri")) and not done.stderr and b"\x1b" not in done.stdout
    assert b"\x1b[1m" in f.run("run", "--help", "--color", "always").stdout


def test_bash_completion(f):
    script = f.run("completion", "bash").stdout.decode()

    def offered(*words):
        listing = " ".join(f"'{word}'" for word in words)
        code = (f"{script}\nCOMP_WORDS=({listing}); COMP_CWORD={len(words) - 1}; "
                "_colibri 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, check=True, timeout=PATIENCE)
        return done.stdout.decode().split()

    assert "run" in offered("colibri", "r") and "--version" in offered("colibri", "--v")
    check(offered("colibri", "run", "--temp"), ["--temp"])
    check(offered("colibri", "run", "--color", ""), ["auto", "always", "never"])
    check(offered("colibri", "run", "--color", "=", "al"), ["always"])
    check(offered("colibri", "run", "-ctk", "q"), ["q8_0", "q4_0"])
    check(offered("colibri", "completion", ""), ["bash", "zsh", "fish"])
    assert "--json" not in offered("colibri", "chat", "--js")
    assert "--json" in offered("colibri", "inspect", "--js")
    check(offered("colibri", "plan", "--pro"), ["--probe"])
    assert "plan" in offered("colibri", "pl")
    check(offered("colibri", "convert", "--type", "b"), ["bf16"])


def test_other_shells_accept_their_scripts(f):
    for shell in ("zsh", "fish"):
        path = os.path.join(f.home, "script")
        with open(path, "wb") as file:
            file.write(f.run("completion", shell).stdout)
        if shutil.which(shell) is None:
            print(f"{shell}: not installed, its script is not checked")
            continue
        done = subprocess.run([shell, "-n", path], capture_output=True, check=False, timeout=PATIENCE)
        check((shell, done.returncode, done.stderr), (shell, 0, b""))


run_tests(globals())
