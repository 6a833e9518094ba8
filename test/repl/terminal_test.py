"""What the program does with its terminal: leaving, interrupting, suspending, signals, modes, colours."""
import codecs
import os
import re
import signal
import time

from keyboard import ENTER, at_prompt, check, conversation, ctrl, enter, next_prompt, prompts, start
from session import PATIENCE, run_tests


def test_leaving(f):
    for keys in (ctrl("d"), "/quit" + ENTER, "/exit" + ENTER, "/bye" + ENTER):
        t = start(f)
        t.send(keys)
        check(t.finish(), 0)
        check(t.modes(), (True, True))
        check(t.screen.paste_mode, False)


def test_control_d_with_text_deletes(f):
    t = start(f)
    t.send("ab" + ctrl("a") + ctrl("d"))
    t.wait_row("> b")
    t.send(ctrl("e") + ctrl("d") + "c")
    t.wait_row("> bc")


def test_control_c_at_the_prompt(f):
    t = start(f)
    t.send("some text")
    t.wait_row("> some text")
    t.send(ctrl("c"))
    at_prompt(t)
    assert not any("some text" in line for line in t.screen.lines())
    before = prompts(t)
    t.send(ctrl("c"))
    next_prompt(t, before)
    assert any("Ctrl-D" in line for line in t.screen.lines()), t.shown()
    enter(t, "x")
    check(conversation(f, t), ["x"])


# More text than any terminal takes before somebody reads it, so that the answer waits for the test.
ENDLESS = ("-c", "1000000", "--ignore-eos", "--seed", "1")


def endless(f, *more, **changes):
    """In the middle of an answer that doesn't end by itself."""
    t = f.terminal(f.model(), *ENDLESS, *more, **changes)
    at_prompt(t)
    t.send("go" + ENTER)
    some_answer(t)
    return t


def some_answer(t, behind=b"\x1b[?2004l"):
    def answered():
        said = t.raw.rpartition(behind)[2]  # on a slow machine that begins with how far the prompt is read
        return len(re.sub(rb"\rreading: [^\r]*|\r\x1b\[K|\x1b\[\?2004.", b"", said)) > 60
    t.wait(lambda: answered() and not t.screen.paste_mode, "some of the answer")


def test_control_c_stops_an_answer_and_keeps_it(f):
    t = endless(f)
    t.send(ctrl("c"))
    t.wait_text("stopped")
    at_prompt(t)
    t.send("/show messages" + ENTER)
    t.wait_text("assistant: ")
    at_prompt(t)
    t.send(ctrl("d"))
    check(t.finish(), 0)


def test_second_control_c_ends_the_program(f):
    t = endless(f)
    t.stop_output()  # the first one can't be served, as the program can't say so
    end = time.monotonic() + PATIENCE
    while not t.ended() and time.monotonic() < end:
        t.send(ctrl("c"))  # several, since a signal that is waiting already doesn't come twice
        t.pump(0.02)
    check(t.status, 130)
    check(t.modes(), (True, True))


def test_control_c_right_behind_enter(f):
    """Typed before the answer begins, and still it stops the answer."""
    t = f.terminal(f.model(), *ENDLESS)
    at_prompt(t)
    before = prompts(t)
    t.send("go" + ENTER + ctrl("c"))
    next_prompt(t, before)
    assert any("stopped before the answer began" in line for line in t.screen.lines()), t.shown()


def test_an_interrupt_that_comes_outside_of_answers_is_harmless(f):
    """As Ctrl-C does that was meant for an answer and comes a moment too late."""
    t = start(f)
    t.send("kept")
    t.wait_row("> kept")
    os.kill(t.pid, signal.SIGINT)
    enter(t, "!")
    check(conversation(f, t), ["kept!"])


def test_keys_typed_during_an_answer_are_kept_and_not_shown(f):
    t = endless(f)
    check(t.modes(), (False, False))  # so that the terminal doesn't show them
    t.send("typed ahead")
    t.send(ctrl("c"))
    t.wait_row("> typed ahead")
    check("\n".join(t.screen.lines()).count("typed ahead"), 1)


def test_signals_restore_the_terminal(f):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV):
        t = start(f)
        check(t.modes(), (False, False))
        os.kill(t.pid, number)
        status = t.finish()
        assert status != 0, status
        if number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            check(status, -number)
        check(t.modes(), (True, True))
        check(t.screen.paste_mode, False)


def test_signal_during_an_answer_restores_the_terminal(f):
    t = endless(f)
    check(t.modes(), (False, False))
    os.kill(t.pid, signal.SIGTERM)
    check(t.finish(), -signal.SIGTERM)
    check(t.modes(), (True, True))


def test_the_terminal_goes_away(f):
    t = start(f)
    os.close(t.fd)
    end = time.monotonic() + PATIENCE
    pid = 0
    while pid == 0 and time.monotonic() < end:
        pid, status = os.waitpid(t.pid, os.WNOHANG)
        time.sleep(0.02)
    assert pid, "the program goes on without a terminal"
    t.status = os.waitstatus_to_exitcode(status)
    t.fd = os.open(os.devnull, os.O_RDWR)


def shell(f):
    """A shell with job control, in which the program runs as people run it."""
    t = f.terminal("--norc", "--noprofile", "-i", command=["bash"], PS1="$ ", columns=100)
    t.wait_row("$")
    return t


def program(f, *arguments):
    words = [f.program, f.model(), "-n", "1", "--temp", "0", *arguments]
    return " ".join(words) + ENTER


def test_suspending_at_the_prompt(f):
    t = shell(f)
    t.send(program(f))
    at_prompt(t)
    t.send("half a message")
    t.wait_row("> half a message")
    t.send(ctrl("z"))
    t.wait_text("Stopped")
    t.wait_row("$")
    t.send("stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo | tr '\\n' '+'" + ENTER)
    t.wait_text("icanon+echo+")
    t.send("fg" + ENTER)
    t.wait_row("> half a message")
    enter(t, "!")
    t.send("/show messages" + ENTER)
    t.wait_text("user: half a message!")
    at_prompt(t)
    t.send(ctrl("d"))
    t.wait_row("$")


def test_suspending_an_answer(f):
    t = shell(f)
    t.screen.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # it may stop inside a character
    enter(t, " ".join([f.program, f.model(), *ENDLESS]))
    t.send("go" + ENTER)
    some_answer(t)
    t.send(ctrl("z"))
    t.wait_text("Stopped")
    t.wait_row("$")
    t.send("stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo | tr '\\n' '+'" + ENTER)
    t.wait_text("icanon+echo+")
    command = ENDLESS[-1].encode() + b"\r\n"
    before = t.raw.count(command)
    t.send("fg" + ENTER)
    t.wait(lambda: t.raw.count(command) > before, "the shell's word on what it continues")
    some_answer(t, command)
    t.send(ctrl("c"))
    t.wait_text("stopped;")
    at_prompt(t)
    t.send(ctrl("d"))
    t.wait_row("$")


def test_stopped_by_force_and_continued(f):
    t = start(f)
    t.send("kept")
    t.wait_row("> kept")
    before = prompts(t)
    os.kill(t.pid, signal.SIGSTOP)
    pid, status = os.waitpid(t.pid, os.WUNTRACED)
    assert pid == t.pid and os.WIFSTOPPED(status), status
    os.kill(t.pid, signal.SIGCONT)
    t.wait(lambda: prompts(t) > before, "the terminal's modes anew")
    t.send("!")
    t.wait(lambda: t.screen.row().endswith("> kept!"), "the text again")
    check(t.modes(), (False, False))


def test_colours(f):
    def colours(**changes):
        t = start(f, *changes.pop("arguments", ()), **changes)
        enter(t, "hi")
        return b"m" in [part[-1:] for part in escapes(t.raw)]

    check(colours(), True)
    check(colours(NO_COLOR="1"), False)
    check(colours(NO_COLOR=""), True)
    check(colours(arguments=["--color", "never"]), False)
    check(colours(NO_COLOR="1", arguments=["--color", "always"]), True)


def escapes(raw):
    """All control sequences in some bytes."""
    return re.findall(rb"\x1b\[[?]?[0-9;]*[A-Za-z]", raw)


def test_a_dumb_terminal_gets_no_escapes(f):
    t = f.terminal(f.model(), "-n", "1", "--temp", "0", TERM="dumb")
    t.wait_row(">")
    t.send("hello" + ENTER)
    t.wait(lambda: "token" in "".join(t.screen.lines()) and t.screen.row() == ">", "the next prompt")
    t.send("two\\" + ENTER)
    t.wait_row(".")
    t.send("lines" + ENTER)
    t.wait(lambda: t.screen.row() == ">", "the next prompt")
    t.send(ctrl("c"))
    t.wait_text("Ctrl-D")
    t.wait_row(">")
    t.send("/show messages" + ENTER)
    t.wait_text("user: two")
    t.wait_row(">")
    t.send(ctrl("d"))
    check(t.finish(), 0)
    assert b"\x1b" not in t.raw, t.raw


def test_answers_to_a_file_editing_on_standard_error(f):
    path = os.path.join(f.home, "answers")
    t = start(f, out=path)
    enter(t, "hello")
    t.send(ctrl("d"))
    check(t.finish(), 0)
    with open(path, "rb") as file:
        answers = file.read()
    assert answers.endswith(b"\n") and b"\x1b" not in answers and b"hello" not in answers, answers


def test_messages_to_a_file_editing_on_standard_output(f):
    path = os.path.join(f.home, "messages")
    t = start(f, err=path)
    enter(t, "hello")
    enter(t, "/nope")
    t.send(ctrl("d"))
    check(t.finish(), 0)
    with open(path, "rb") as file:
        said = file.read()
    assert b"no command" in said and b"\x1b" not in said, said


def test_control_characters_in_answers_are_shown(f):
    """A model can't drive the terminal: the tiny model writes bytes at random."""
    t = f.terminal(f.model(), "-n", "200", "--temp", "5", "--top-k", "0", "--seed", "1", "--ignore-eos", NO_COLOR="1")
    at_prompt(t)
    enter(t, "x")
    allowed = (b"\x1b[J", b"\x1b[K", b"\x1b[?2004h", b"\x1b[?2004l")
    for sequence in escapes(t.raw):
        assert sequence in allowed or sequence[-1:] in (b"C", b"A"), sequence


def test_no_echo_while_the_model_is_opened(f):
    t = f.terminal(f.model(), "-n", "1")
    t.wait(lambda: not t.modes()[0], "the end of echoing")
    t.send("early")
    t.wait_row("> early")
    check("\n".join(t.screen.lines()).count("early"), 1)


run_tests(globals())
