"""Editing in a real pseudo-terminal: keys in, screen out, and what reached the conversation."""
import os
import random

from keyboard import (DELETE, DOWN, END, ENTER, ESCAPE, HOME, LEFT, NEWLINE, RIGHT, UP, at_prompt, check, conversation,
                      ctrl, enter, next_prompt, paste, prompts, sent, start)
from session import run_tests


def test_moving_and_changing(f):
    cases = {
        "hello" + LEFT * 2 + "X": "helXlo",
        "world" + ctrl("a") + "hello " + ctrl("e") + "!": "hello world!",
        "world" + HOME + "hello " + END + "!": "hello world!",
        "abc" + ctrl("b") * 2 + "X" + ctrl("f") + "Y": "aXbYc",
        "abc" + ctrl("h") + "\x7f" + "z": "az",
        "abc" + HOME + DELETE + "x": "xbc",
        "abc" + HOME + ctrl("d"): "bc",
        "one two three" + ctrl("w"): "one two ",
        "one two-three" + ESCAPE + "\x7f": "one two-",
        "one two three" + ESCAPE + "b" + ESCAPE + "b" + "X": "one Xtwo three",
        "one two" + HOME + ESCAPE + "d": " two",
        "one two" + HOME + ESCAPE + "f" + "X": "oneX two",
        "one two" + LEFT * 3 + ctrl("k"): "one ",
        "one two" + LEFT * 3 + ctrl("u"): "two",
        "one two" + LEFT * 3 + ctrl("u") + ctrl("e") + ctrl("y"): "twoone ",
        "ab" + ctrl("t"): "ba",
        "\x1b[1;5D" + "one two" + "\x1b[1;5D" + "X": "one Xtwo",
        "unknown\x1b[15~\x1b[[A keys": "unknown keys",
    }
    t = start(f)
    for keys in cases:
        enter(t, keys)
    check(conversation(f, t), list(cases.values()))


def test_characters_are_edited_whole(f):
    t = start(f)
    cases = {
        "\u4e2d\u6587" + "\x7f" + "!": "\u4e2d!",
        "ae\u0301x" + LEFT * 2 + DELETE: "ax",
        "\U0001f468\u200d\U0001f469!" + LEFT + "\x7f": "!",
        "\u00e9\u00e8" + LEFT + "x": "\u00e9x\u00e8",
        "\U0001f600\U0001f601" + HOME + DELETE: "\U0001f601",
    }
    for keys in cases:
        enter(t, keys)
    check(conversation(f, t), list(cases.values()))


def test_characters_that_arrive_byte_by_byte(f):
    t = start(f)
    t.send_pieces([bytes([byte]) for byte in "\u4e2d\u00e9".encode()], 0.02)
    enter(t, "")
    check(conversation(f, t), ["\u4e2d\u00e9"])


def test_the_screen_follows(f):
    t = start(f, columns=20)
    t.send("hello")
    t.wait_row("> hello", 7)
    t.send(LEFT * 2)
    t.wait_row("> hello", 5)
    t.send("\u4e2d")
    t.wait_row("> hel\u4e2dlo", 7)
    t.send(ctrl("u") + ctrl("k"))
    at_prompt(t)


def test_long_lines_wrap(f):
    text = "0123456789" * 7
    t = start(f, columns=20, rows=10)
    t.send(text)
    t.wait(lambda: "> " + text in t.screen.lines() and t.screen.cursor()[0] == (2 + 70) % 20, "the wrapped line")
    t.send(HOME + "X")
    t.wait(lambda: "> X" + text in t.screen.lines(), "the longer line")
    t.send(END + "\x7f" * 60)
    t.wait_row("> X0123456789")
    t.send("0123456789012345")
    t.wait(lambda: t.screen.row().endswith("45"), "a second row")
    t.send("\x7f" * 9)  # leaves exactly one full row
    t.wait(lambda: "> X01234567890123456" in t.screen.lines() and t.screen.cursor()[0] == 0, "a full row")
    t.send("\x7f")
    t.wait_row("> X0123456789012345")
    enter(t, "")
    check(conversation(f, t), ["X0123456789012345"])


def test_wide_characters_wrap(f):
    t = start(f, columns=11)
    t.send("\u4e2d" * 6)
    t.wait(lambda: [r for r in t.screen.visible() if r][-2:] == ["> " + "\u4e2d" * 4, "\u4e2d" * 2]
           and t.screen.cursor()[0] == 4, "two rows")
    t.send(LEFT * 3 + "x")
    t.wait(lambda: [r for r in t.screen.visible() if r][-2:] == ["> \u4e2d\u4e2d\u4e2dx\u4e2d", "\u4e2d\u4e2d"], "an x")


def test_text_taller_than_the_screen(f):
    t = start(f, columns=30, rows=5)
    lines = [f"line {i}" for i in range(12)]
    t.send(NEWLINE.join(lines))
    t.wait(lambda: t.screen.visible() == [f". line {i}" for i in range(7, 12)], "the last lines")
    t.send(UP * 11 + HOME)
    t.wait(lambda: t.screen.visible()[0] == "> line 0" and t.screen.cursor() == (2, 0), "the first line")
    enter(t, "X" + DOWN * 11 + END + "Y")
    check(conversation(f, t), ["X" + "\n".join(lines) + "Y"])
    assert "> Xline 0" in t.screen.lines(), "the whole message stays readable"


def test_earlier_lines_can_be_edited(f):
    check(sent(f, "one" + NEWLINE + "two" + NEWLINE + "three" + UP + UP + ctrl("e") + "!" + DOWN + HOME + "x"),
          "one!\nxtwo\nthree")
    check(sent(f, "one" + NEWLINE + "two" + HOME + "\x7f"), "onetwo")
    check(sent(f, "a longer line" + NEWLINE + "b" + NEWLINE + "another line" + LEFT * 2 + UP + UP + "X"),
          "a longer lXine\nb\nanother line")


def test_ways_to_begin_a_line(f):
    check(sent(f, "a" + NEWLINE + "b"), "a\nb")
    check(sent(f, "a" + ESCAPE + ENTER + "b"), "a\nb")
    check(sent(f, "a\x1b[13;2ub"), "a\nb")
    check(sent(f, "a\\" + ENTER + "b"), "a\nb")
    check(sent(f, "a\\\\"), "a\\\\")
    check(sent(f, '"""' + ENTER + "a" + ENTER + "b\\" + ENTER + '"""'), "a\nb\\")
    check(sent(f, '"""a' + ENTER + 'b"""'), "a\nb")


def test_continued_lines_have_their_own_prompt(f):
    t = start(f)
    t.send("a\\" + ENTER)
    t.wait(lambda: t.screen.visible()[t.screen.cursor()[1] - 1:t.screen.cursor()[1] + 1] == ["> a", "."], "a second line")


def test_a_paste_is_one_message(f):
    t = start(f)
    t.send(paste("one\n/clear\n\n\tthree\\\n"))
    t.wait(lambda: ". /clear" in t.screen.lines(), "the pasted text")
    t.send("behind")
    t.wait_row(". behind")  # served after the paste
    assert not any("token" in line for line in t.screen.lines()), "sent without Enter"
    enter(t, "\x7f" * len("behind"))
    check(conversation(f, t), ["one\n/clear\n\n\tthree\\\n"])


def test_pasted_commands_and_quotes_are_text(f):
    check(sent(f, paste("/quit\nnow")), "/quit\nnow")
    check(sent(f, paste('"""Doc."""\ndef f(): pass')), '"""Doc."""\ndef f(): pass')
    check(sent(f, "see: " + paste("a\nb") + " ok"), "see: a\nb ok")
    check(sent(f, paste("one line")), "one line")
    check(sent(f, '"""' + ENTER + paste("a\nb\n") + '"""'), "a\nb")


def test_paste_in_pieces_and_with_odd_bytes(f):
    t = start(f)
    whole = paste("first\nsecond \u4e2d").encode()
    t.send_pieces([whole[at:at + 3] for at in range(0, len(whole), 3)], 0.01)
    enter(t, "")
    enter(t, b"\x1b[200~bad \xff\xfe byte\x1b[201~")
    check(conversation(f, t), ["first\nsecond \u4e2d", "bad \ufffd\ufffd byte"])


def test_large_paste(f):
    text = "\n".join(f"line {i} of a long text" for i in range(3000))
    t = start(f, "-c", "64")
    before = prompts(t)
    t.send(paste(text))
    t.send(ENTER)
    next_prompt(t, before)
    assert any("the prompt has" in line for line in t.screen.lines()), "refused whole, never cut"


def test_history(f):
    t = start(f)
    for text in ("first", "second", "two" + NEWLINE + "lines"):
        enter(t, text)
    t.send("draft" + UP)
    t.wait(lambda: t.screen.visible()[t.screen.cursor()[1] - 1:t.screen.cursor()[1] + 1] == ["> two", ". lines"])
    t.send(UP + UP)
    t.wait_row("> second")
    t.send(ctrl("p"))
    t.wait_row("> first")
    t.send(UP + "x")  # stays there
    t.wait_row("> firstx")
    t.send("\x7f" + DOWN)
    t.wait_row("> second")
    t.send(ctrl("n") + DOWN)
    t.wait_row("> draft")
    t.send(ctrl("u") + ESCAPE + "p" + ESCAPE + "p")
    t.wait_row("> second")
    enter(t, "")
    check(conversation(f, t), ["first", "second", "two\nlines", "second"])


def test_history_search(f):
    t = start(f)
    for text in ("alpha beta", "gamma", "beta gamma"):
        enter(t, text)
    t.send(ctrl("r") + "beta")
    t.wait_row("(search 'beta') beta gamma")
    t.send(ctrl("r"))
    t.wait_row("(search 'beta') alpha beta")
    t.send(ctrl("r"))
    t.wait_row("(no match 'beta') alpha beta")
    enter(t, "")
    t.send("kept" + ctrl("r") + "gam" + ctrl("g"))
    t.wait_row("> kept")
    t.send(ctrl("u") + ctrl("r") + "gamma" + RIGHT + "X")
    t.wait_row("> beta gXamma")
    t.send(ctrl("c"))
    at_prompt(t)
    check(conversation(f, t), ["alpha beta", "gamma", "beta gamma", "alpha beta"])


def test_completion(f):
    for name in ("one.json", "two.json"):
        with open(os.path.join(f.home, name), "w", encoding="utf-8") as file:
            file.write("{}")
    os.mkdir(os.path.join(f.home, "sub"))
    t = start(f)
    t.send("/he\t")
    t.wait_row("> /help")
    t.send(ctrl("u") + "/s\t\t")
    t.wait(lambda: any("save" in r and "show" in r for r in t.screen.visible()), "a list")
    t.wait_row("> /s")
    t.send(ctrl("u") + "/load o\t")
    t.wait_row("> /load one.json")
    t.send(ctrl("u") + "/load s\t")
    t.wait_row("> /load sub/")
    t.send(ctrl("u") + "/set top_\t\t")
    t.wait(lambda: any("top_k" in r and "top_p" in r for r in t.screen.visible()), "a list")
    enter(t, ctrl("u") + "a\tb")  # text: a tab is a tab
    check(conversation(f, t), ["a\tb"])


def test_clear_screen(f):
    t = start(f)
    t.send("some text" + ctrl("l"))
    t.wait(lambda: [r for r in t.screen.visible() if r] == [t.screen.visible()[0]] == ["> some text"]
           and t.screen.cursor() == (11, 0), "the text alone, at the top")


def test_resizing(f):
    t = start(f, columns=40)
    text = "0123456789" * 6
    t.send(text)

    def painted(columns):
        # All of it: the last that is sent is where the cursor goes.
        column = (2 + 60) % columns
        t.wait(lambda: len(t.raw) > before and t.raw.endswith(b"\r\x1b[%dC" % column), "the cursor")
        check([line for line in t.screen.lines() if "0123" in line], ["> " + text])
        check(t.screen.cursor()[0], column)

    before = 0
    painted(40)
    for columns in (25, 60, 12, 80):
        before = len(t.raw)
        t.resize(columns, 24)
        painted(columns)
    enter(t, "!")
    check(conversation(f, t), [text + "!"])


def test_external_editor(f):
    editor = os.path.join(f.home, "editor.sh")
    with open(editor, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nstat -c %a "$2" > mode\ncat "$2" > before\nprintf \'%s\\nsecond line\\n\' "$1" > "$2"\n')
    os.chmod(editor, 0o700)
    t = start(f, VISUAL=editor + " edited", EDITOR="false")
    t.send("draft" + ctrl("g"))
    t.wait(lambda: ". second line" in t.screen.lines(), "the edited text")
    enter(t, "")
    check(conversation(f, t), ["edited\nsecond line"])
    check(open(os.path.join(f.home, "mode"), encoding="utf-8").read(), "600\n")
    check(open(os.path.join(f.home, "before"), encoding="utf-8").read(), "draft\n")


def test_external_editor_that_fails(f):
    t = start(f, EDITOR="false")
    t.send("draft" + ctrl("g"))
    t.wait_text("the editor 'false' failed")
    t.wait_row("> draft")
    t = start(f)
    t.send("draft" + ctrl("g"))
    t.wait_text("VISUAL or EDITOR")
    t.wait_row("> draft")


def test_keys_typed_before_the_prompt(f):
    t = f.terminal(f.model(), "-n", "1", "--temp", "0")
    t.send("early" + ENTER + "later")
    t.wait_row("> later")
    enter(t, "")
    check(conversation(f, t), ["early", "later"])


def test_random_keys_keep_the_screen_right(f):
    """What many small changes leave on the screen is what painting it afresh shows."""
    keys = ["a", "b c", "\u4e2d", "e\u0301", "\U0001f600", NEWLINE, "\t", "\x7f", DELETE, LEFT, RIGHT, UP, DOWN, HOME, END,
            *map(ctrl, "abefkltuwy"), ESCAPE + "b", ESCAPE + "f", ESCAPE + "d", ESCAPE + "p", ESCAPE + "n", ESCAPE + "<",
            ESCAPE + ">", paste("x\ny"), paste("0123456789"), ctrl("r") + "a" + ctrl("g"), "word " * 5]
    randomly = random.Random(7)
    t = start(f, columns=16, rows=7)
    for text in ("old one", "old" + NEWLINE + "two lines"):
        enter(t, text)

    def cleared():
        """What was to be seen when Ctrl-L came; what the keys before it changed is complete then."""
        count = len(t.screen.cleared)
        t.send(ctrl("l"))
        t.wait(lambda: len(t.screen.cleared) > count, "a cleared screen")
        rows, cursor = t.screen.cleared[-1]
        while rows and not rows[-1] and len(rows) - 1 > cursor[1]:
            rows.pop()
        return rows, cursor

    for turn in range(60):
        mark = chr(0x5000 + turn)  # shows when all keys have been served
        sent_keys = [randomly.choice(keys) for _ in range(randomly.randint(1, 6))] + [mark]
        seen = len(t.raw)
        for each in sent_keys:
            t.send(each)
            t.pump(0.002)
        t.wait(lambda: mark.encode() in t.raw[seen:], "the mark")
        before, (x, y) = cleared()
        after, (new_x, new_y) = cleared()  # the program paints before it reads another key
        assert before[-len(after):] == after and x == new_x and len(before) - y == len(after) - new_y, (
            turn, sent_keys, before, (x, y), after, (new_x, new_y))


def test_narrow_screens(f):
    for columns in (1, 2, 3, 4):
        t = f.terminal(f.model(), "-n", "1", "--temp", "0", columns=columns)
        t.wait(lambda: t.screen.paste_mode, "the prompt")
        before = prompts(t)
        t.send("abc\u4e2d" + LEFT + "x" + ENTER)
        t.wait(lambda: prompts(t) > before, "another prompt")
        t.send(ctrl("d"))
        check(t.finish(), 0)


run_tests(globals())
