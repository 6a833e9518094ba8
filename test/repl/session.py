"""Runs a program in a pseudo-terminal or with pipes, and the tests of a file."""
import argparse
import errno
import fcntl
import os
import pathlib
import pty
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

# Sanitizers and emulators are slow; a test that waits this long has failed.
PATIENCE = 60.0


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
                if cwd is not None:
                    os.chdir(cwd)
                for path, target in ((out, 1), (err, 2)):
                    if path is not None:
                        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), target)
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)
        self.set_size(columns, rows)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        self.set_size(columns, rows)

    def send(self, keys):
        """Types, however much it is: a terminal takes a little at a time, and wants to be read meanwhile."""
        data = keys.encode() if isinstance(keys, str) else keys
        while data:
            data = data[os.write(self.fd, data[:1024]):]
            if data:
                self.pump(0.001)

    def pump(self, seconds):
        """Reads what comes within some time; false at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
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

    def wait_row(self, text):
        """Until the cursor's row reads so."""
        self.wait(lambda: self.screen.row() == text, f"a row {text!r}")

    def quiet(self, seconds=0.3):
        """Reads until nothing has come for a while."""
        end = time.monotonic() + PATIENCE
        before = -1
        while before != len(self.raw) and time.monotonic() < end:
            before = len(self.raw)
            if not self.pump(seconds):
                return

    def finish(self):
        """Waits for the program's end; its exit status, negative for a signal."""
        end = time.monotonic() + PATIENCE
        while self.status is None:
            self.pump(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, f"the program doesn't end\n{self.shown()}"
        while self.pump(0.05) and select.select([self.fd], [], [], 0)[0]:
            pass
        return self.status

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


def run_tests(tests):
    """Runs all functions test_* of a file (or those named); ends the process with 1 if one failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--models", help="folder of tiny models; without it the golden one")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    options.models = os.path.abspath(options.models or golden_models())
    failed = count = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_") or (options.only and name not in options.only):
            continue
        count += 1
        folder = tempfile.mkdtemp(prefix="colibri-repl-")
        fixture = Fixture(options, folder)
        try:
            test(fixture)
        except Exception:  # noqa: BLE001: any failure is one
            failed += 1
            print(f"FAILED {name}", file=sys.stderr)
            traceback.print_exc()
            for terminal in fixture.open:
                print(terminal.shown(), file=sys.stderr)
        finally:
            fixture.close()
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{count - failed} of {count} tests passed")
    sys.exit(1 if failed or count == 0 else 0)
