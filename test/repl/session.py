"""Runs a program in a pseudo-terminal or with pipes, and the tests of a file."""
import argparse
import errno
import fcntl
import os
import pathlib
import pty
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

from screen import Screen

# Ends a test that hangs; nothing that works takes as long, however slow the machine.
PATIENCE = 180.0

# The program takes half a second without a byte for the end of a key, and a second for the end of a paste.
HELD_UP = 0.4
ATTEMPTS = 20

# COLIBRI_TEST_SPLIT=SEED: what comes from a terminal is read one to seven bytes at a time, with pauses, so that tests see
# every state in between.
SPLIT = random.Random(int(os.environ["COLIBRI_TEST_SPLIT"])) if os.environ.get("COLIBRI_TEST_SPLIT") else None


class HeldUp(Exception):
    """This process was held up between two pieces of what it typed, so that the program had to take them for two things:
    the test says nothing and begins anew."""


def clean_environment(home, **changes):
    """What a program of ours may see, without the caller's settings."""
    keep = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TMPDIR", "COLIBRI_SIMD")
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    environment.update(HOME=str(home), TERM="xterm-256color", LANG="C.UTF-8")
    for name, value in changes.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


class Terminal:
    """A program in a pseudo-terminal of its own. `err`: a file that standard error goes to instead; `out` likewise."""

    def __init__(self, command, environment, columns=80, rows=24, cwd=None, out=None, err=None):
        self.screen = Screen(columns, rows)
        self.raw = b""
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                self.set_size(columns, rows, 0)
                if cwd is not None:
                    os.chdir(cwd)
                for path, target in ((out, 1), (err, 2)):
                    if path is not None:
                        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), target)
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)

    def set_size(self, columns, rows, fd=None):
        fcntl.ioctl(self.fd if fd is None else fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        self.set_size(columns, rows)

    def send(self, keys):
        """Types, however much it is: a terminal takes a little at a time, and wants to be read meanwhile."""
        data = keys.encode() if isinstance(keys, str) else keys
        self.send_pieces([data[at:at + 1024] for at in range(0, len(data), 1024)])

    def send_pieces(self, pieces, pause=0.001):
        """Types what may be cut anywhere, with a pause behind each piece."""
        begin = None
        for piece in pieces:
            while piece:
                before, begin = begin, time.monotonic()
                piece = piece[os.write(self.fd, piece):]
                if before is not None and time.monotonic() - before > HELD_UP:
                    raise HeldUp
            if piece is not pieces[-1]:
                self.pump(pause)

    def pump(self, seconds):
        """Reads what comes within some time; false at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        if SPLIT and SPLIT.random() < 0.05:
            time.sleep(SPLIT.random() * 0.002)
        try:
            data = os.read(self.fd, SPLIT.randint(1, 7) if SPLIT else 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        self.raw += data
        self.screen.feed(data)
        return bool(data)

    def wait(self, condition, what="the condition"):
        """Reads until the condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            alive = self.pump(0.05)
            assert time.monotonic() < end, f"waited in vain for {what}\n{self.shown()}"
            if not alive and not condition():
                raise AssertionError(f"the program ended before {what}\n{self.shown()}")

    def wait_text(self, text, count=1):
        self.wait(lambda: "\n".join(self.screen.lines()).count(text) >= count, repr(text))

    def wait_row(self, text, column=None):
        """Until the cursor's row reads so, and the cursor stands in a column."""
        self.wait(lambda: self.screen.row() == text and column in (None, self.screen.cursor()[0]),
                  f"a row {text!r}" + ("" if column is None else f" with the cursor in column {column}"))

    def ended(self):
        """Whether the program is over."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def finish(self):
        """Waits for the program's end and reads all that it wrote; its exit status, negative for a signal."""
        end = time.monotonic() + PATIENCE
        while self.pump(0.05):  # nobody else has the terminal open, so its end is the program's
            assert time.monotonic() < end, f"the program doesn't end\n{self.shown()}"
        while not self.ended():
            time.sleep(0.001)
            assert time.monotonic() < end, f"the program doesn't end\n{self.shown()}"
        return self.status

    def stop_output(self):
        """From now on every write to the terminal waits, for ever."""
        inner = os.open(f"/proc/{self.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
        termios.tcflow(inner, termios.TCOOFF)
        os.close(inner)

    def modes(self):
        """Whether the terminal echoes, and whether it collects lines."""
        flags = termios.tcgetattr(self.fd)[3]
        return bool(flags & termios.ECHO), bool(flags & termios.ICANON)

    def shown(self):
        frame = "\n".join("| " + line for line in self.screen.visible())
        return f"screen, cursor at {self.screen.cursor()}:\n{frame}\nlast bytes: {self.raw[-300:]!r}"

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.fd)


class Fixture:
    """What each test gets: the program, the models, and a home folder of its own."""

    def __init__(self, options, folder):
        self.program, self.models = options.program, options.models
        self.home = folder
        self.open = []

    def model(self, name="llama"):
        return os.path.join(self.models, name, "model.gguf")

    def environment(self, **changes):
        return clean_environment(self.home, **changes)

    def terminal(self, *arguments, columns=80, rows=24, out=None, err=None, command=None, **changes):
        """The program (or another command) in a terminal."""
        words = [*(command or [self.program]), *arguments]
        terminal = Terminal(words, self.environment(**changes), columns, rows, self.home, out, err)
        self.open.append(terminal)
        return terminal

    def run(self, *arguments, stdin=b"", **changes):
        """The program with pipes. Standard input is `stdin`, or a file object."""
        given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        return subprocess.run([self.program, *arguments], capture_output=True, cwd=self.home, timeout=PATIENCE,
                              env=self.environment(**changes), check=False, **given)

    def close(self):
        for terminal in self.open:
            terminal.close()


def golden_models():
    """The tiny models: below the folder that COLIBRI_GOLDEN names, else ../shared/golden, else test/golden."""
    source = pathlib.Path(__file__).resolve().parents[2]
    named = os.environ.get("COLIBRI_GOLDEN")
    folders = [pathlib.Path(named)] if named else [source / ".." / "shared" / "golden", source / "test" / "golden"]
    for folder in folders:
        if (folder / "models" / "llama" / "model.gguf").exists():
            return str(folder / "models")
    raise SystemExit(f"no tiny models below {' or '.join(map(str, folders))}")


def run_test(name, test, options):
    """Runs one function: "passed", "failed" or "held up"."""
    folder = tempfile.mkdtemp(prefix="colibri-repl-")
    fixture = Fixture(options, folder)
    try:
        test(fixture)
        return "passed"
    except HeldUp:
        return "held up"
    except Exception:  # noqa: BLE001: any failure is one
        print(f"FAILED {name}", file=sys.stderr)
        traceback.print_exc()
        for terminal in fixture.open:
            print(terminal.shown(), file=sys.stderr)
        return "failed"
    finally:
        fixture.close()
        shutil.rmtree(folder, ignore_errors=True)


def run_tests(tests):
    """Runs all functions test_* of a file (or those named); ends the process with 1 if one failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--models", help="folder of tiny models; without it the golden one")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    options.models = os.path.abspath(options.models or golden_models())
    # Whatever started this (nohup, a shell's "&") may ignore signals, and the program would inherit that.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    failed = count = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_") or (options.only and name not in options.only):
            continue
        count += 1
        for attempt in range(1, ATTEMPTS + 1):
            outcome = run_test(name, test, options)
            if outcome != "held up":
                break
            print(f"{name}: held up, attempt {attempt}", file=sys.stderr)
        failed += outcome != "passed"
    print(f"{count - failed} of {count} tests passed")
    sys.exit(1 if failed or count == 0 else 0)
