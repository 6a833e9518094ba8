"""colibri-quantize: nothing is lost, whatever happens while it works."""
import errno
import importlib.machinery
import os
import pathlib
import pty
import random
import select
import signal
import subprocess
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "repl"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import models  # noqa: E402
from keyboard import check  # noqa: E402
from session import PATIENCE, run_tests  # noqa: E402

warnings.simplefilter("ignore")
STREAMING = pathlib.Path(__file__).resolve().parents[2] / "bench" / "streaming"
streaming = importlib.machinery.SourceFileLoader("streaming", str(STREAMING)).load_module()

# Kills in the loop; a number in COLIBRI_KILLS for a longer one.
KILLS = int(os.environ.get("COLIBRI_KILLS", "10"))
MIB = 1 << 20


def large(f, name="in.gguf", count=24, columns=1024, rows=1024):
    """Holes, so that it costs no room; enough work for some tenths of a second."""
    path = os.path.join(f.home, name)
    tensors = [(f"blk.{i}.ffn_up.weight", (columns, rows), models.F32, None) for i in range(count)]
    models.write(path, tensors, [("general.architecture", models.STRING, "llama"), ("llama.block_count", models.U32, count)])
    return path


def start(f, *words, **more):
    return subprocess.Popen([f.program, *words], cwd=f.home, env=f.environment(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=more.pop("stderr", subprocess.DEVNULL), **more)


def temporaries(folder):
    return [name for name in os.listdir(folder) if name.endswith(".part")]


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def test_killed_at_any_moment(f):
    given, out, expected = large(f), os.path.join(f.home, "out.gguf"), os.path.join(f.home, "expected.gguf")
    begin = time.monotonic()
    check(f.run(given, expected, "Q8_0").returncode, 0)
    duration = time.monotonic() - begin
    new, old = contents(expected), b"the old file\n"
    generator = random.Random(7)
    unfinished = left = 0
    for number in range(KILLS):
        with open(out, "wb") as file:
            file.write(old)
        process = start(f, given, out, "Q8_0", "--force")
        time.sleep(generator.random() * duration * 1.1)
        process.kill()
        process.wait()
        now = contents(out)
        assert now in (old, new), f"kill {number}: {len(now)} bytes that are neither file"
        unfinished += now == old
        left += len(temporaries(f.home))
        assert len(temporaries(f.home)) <= 1, temporaries(f.home)  # the run before this one's was taken away by it
    assert unfinished > 0, "no run was killed before its end"
    check(f.run(given, out, "Q8_0", "--force").returncode, 0)
    check(temporaries(f.home), [])
    assert contents(out) == new
    print(f"{KILLS} kills: {unfinished} left the old file, {left} a temporary one")


def test_killed_over_a_set_of_files(f):
    """Old and new parts are never taken for one model: all are old, or all new, or the first one is missing."""
    given = large(f)
    split = ("--split-max-size", "8M", "--force")
    check(f.run(given, os.path.join(f.home, "new.gguf"), "Q8_0", *split).returncode, 0)
    names = sorted(name for name in os.listdir(f.home) if name.startswith("new-0"))
    assert len(names) > 2, names
    new = [contents(os.path.join(f.home, name)) for name in names]
    old = [b"part %d of the old set" % i for i in range(len(names))]
    paths = [os.path.join(f.home, name.replace("new", "out", 1)) for name in names]
    begin = time.monotonic()
    check(f.run(given, os.path.join(f.home, "timed.gguf"), "Q8_0", *split).returncode, 0)
    duration = time.monotonic() - begin
    generator = random.Random(8)
    for number in range(KILLS):
        for path, text in zip(paths, old):
            with open(path, "wb") as file:
                file.write(text)
        process = start(f, given, os.path.join(f.home, "out.gguf"), "Q8_0", *split)
        time.sleep(duration * (0.5 + 0.6 * generator.random()))
        process.kill()
        process.wait()
        now = [contents(path) if os.path.exists(path) else None for path in paths]
        assert now in (old, new) or now[0] is None, f"kill {number}: {[part and len(part) for part in now]}"
    check(f.run(given, os.path.join(f.home, "out.gguf"), "Q8_0", *split).returncode, 0)
    check([contents(path) for path in paths], new)
    check(temporaries(f.home), [])


def test_what_others_are_writing_stays(f):
    given, out = large(f, count=64), os.path.join(f.home, "out.gguf")
    first = start(f, given, out, "Q8_0", "1")
    end = time.monotonic() + PATIENCE
    while not temporaries(f.home):
        assert time.monotonic() < end and first.poll() is None
        time.sleep(0.001)
    small = large(f, "small.gguf", count=1)
    second = f.run(small, out, "Q8_0", "1", "--force")
    check(second.returncode, 0)
    check(first.wait(PATIENCE), 0)
    check(temporaries(f.home), [])
    # Files of that name which nobody has locked, and names that only look alike.
    stale, other = os.path.join(f.home, ".out.gguf.1-2-3.part"), os.path.join(f.home, ".out.gguf.1-x-3.part")
    for path in (stale, other):
        with open(path, "w", encoding="ascii"):
            pass
    check(f.run(small, out, "Q8_0", "--force").returncode, 0)
    check((os.path.exists(stale), os.path.exists(other)), (False, True))


def test_signals_end_it_cleanly(f):
    given, out = large(f, count=96), os.path.join(f.home, "out.gguf")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = start(f, given, out, "Q8_0", "1", stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while not temporaries(f.home):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
        check(process.returncode, 130)
        assert said.splitlines()[-1].startswith(b"colibri-quantize: interrupted"), said[-200:]
        check(temporaries(f.home), [])
        assert not os.path.exists(out)


def test_rules_that_take_for_ever_can_be_stopped(f):
    given, out = large(f, count=1), os.path.join(f.home, "out.gguf")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start(f, given, out, "Q8_0", "--tensor-type", "(([a-z0-9._]+)*)*X=Q8_0", stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while processor_seconds(process.pid) < 0.5:  # all else takes hundredths
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
        check((process.returncode, said.count(b"interrupted"), os.path.exists(out)), (130, 1, False))
    done = f.run(given, out, "Q8_0", "--tensor-type", "(" * 60000 + "=Q8_0")
    check(done.returncode, 1)
    assert b"longer than" in done.stderr, done.stderr[-200:]


def test_a_full_disk(f):
    folder = os.path.join(f.home, "disk")
    os.mkdir(folder)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True, check=False).returncode != 0:
        print("not run: a full disk (mounting one needs root)")
        return
    try:
        given, out = large(f, count=8), os.path.join(folder, "out.gguf")
        with open(out, "wb") as file:
            file.write(b"old")
        done = f.run(given, out, "Q8_0", "--force")
        check(done.returncode, 4)
        check(done.stderr.count(b"\n"), 1)
        assert b"bytes left" in done.stderr, done.stderr
        check(contents(out), b"old")
        check(os.listdir(folder), ["out.gguf"])
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_small_file_limit(f):
    # What the first look at the disk doesn't see: the write itself fails.
    given, out = large(f, count=8), os.path.join(f.home, "out.gguf")
    done = subprocess.run(["sh", "-c", 'ulimit -f 2048; trap "" XFSZ; exec "$@"', "sh", f.program, given, out, "Q8_0"], capture_output=True,
                          cwd=f.home, env=f.environment(), timeout=PATIENCE, check=False)
    check(done.returncode, 4)
    assert b"larger than allowed" in done.stderr, done.stderr
    check(temporaries(f.home), [])
    assert not os.path.exists(out)


def test_readers_that_go_away(f):
    given, out = large(f), os.path.join(f.home, "out.gguf")
    process = subprocess.Popen([f.program, given, out, "Q8_0"], cwd=f.home, env=f.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    process.stderr.close()
    check(process.wait(PATIENCE), 0)
    assert os.path.getsize(out) > 20 * MIB
    with open("/dev/full", "wb") as full:
        done = subprocess.run([f.program, given, "Q8_0", "--dry-run"], cwd=f.home, env=f.environment(), stdout=full, stderr=subprocess.PIPE, check=False)
    check(done.returncode, 4)
    assert b"standard output" in done.stderr, done.stderr


def test_a_bar_in_a_terminal(f):
    given, out = large(f, count=48), os.path.join(f.home, "out.gguf")
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(f.home)
        os.execve(f.program, [f.program, given, out, "Q8_0"], f.environment())
    seen = b""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            data = os.read(fd, 65536)
        except OSError as problem:
            check(problem.errno, errno.EIO)
            break
        if not data:
            break
        seen += data
    os.close(fd)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    for part in (b"#", b" % ", b"\r\x1b[K", b"48 tensors"):
        assert part in seen, seen[-300:]
    assert b"[ 1/48]" not in seen, seen
    # The bar is gone in the end.
    check(seen.rsplit(b"\r\x1b[K", 1)[1].count(b"\n"), 1)


def test_memory(f):
    try:
        group = streaming.Group(160 * MIB)
    except OSError as problem:
        print(f"not run: a memory limit ({problem})")
        return
    try:
        given, out = large(f, count=3, columns=8192, rows=16384), os.path.join(f.home, "out.gguf")  # 1.5 GiB, 512 MiB each
        join = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(group.path, "cgroup.procs")]
        done = subprocess.run([*join, f.program, given, out, "Q4_0", "2", "--pure"], cwd=f.home, env=f.environment(), capture_output=True,
                              timeout=PATIENCE, check=False)
        check((done.returncode, group.kills()), (0, 0))
        check(os.path.getsize(out) // MIB, 3 * 72)
    finally:
        group.remove()


run_tests(globals())
