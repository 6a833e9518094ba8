"""The tests' own screen: it wraps, scrolls and refuses as a terminal does."""
from keyboard import check
from session import run_tests
from screen import Screen


def shown(data, columns=10, rows=3):
    screen = Screen(columns, rows)
    screen.feed(data.encode())
    return screen


def test_wrapping_is_late(f):
    s = shown("0123456789")
    check((s.visible(), s.cursor()), (["0123456789"], (9, 0)))
    s.feed(b"\r\nx")
    check((s.visible(), s.cursor()), (["0123456789", "x"], (1, 1)))
    s = shown("0123456789a")
    check((s.visible(), s.lines()), (["0123456789", "a"], ["0123456789a"]))


def test_wide_and_combining_characters(f):
    s = shown("12345678\u4e2d\u4e2d")
    check((s.visible(), s.cursor()), (["12345678\u4e2d", "\u4e2d"], (2, 1)))
    s = shown("123456789\u4e2d")
    check(s.visible(), ["123456789", "\u4e2d"])
    s = shown("ae\u0301")
    check((s.row(), s.cursor()), ("ae\u0301", (2, 0)))


def test_scrolling(f):
    s = shown("a\r\nb\r\nc\r\nd")
    check((s.visible(), s.lines(), s.cursor()), (["b", "c", "d"], ["a", "b", "c", "d"], (1, 2)))


def test_control_sequences(f):
    s = shown("abc\x1b[2D\x1b[K\r\n\x1b[1Ax")
    check(s.visible(), ["x", ""])
    s = shown("ab\r\ncd\x1b[1A\r\x1b[J")
    check((s.visible(), s.cursor()), ([""], (0, 0)))
    s = shown("\x1b[?2004h\x1b[1;31mred\x1b[0m")
    check((s.visible(), s.paste_mode), (["red"], True))
    for unknown in ("\x1b]0;title\x07", "\x1b[5q", "\x07\x00"):
        try:
            shown(unknown)
        except AssertionError:
            continue
        raise AssertionError(f"{unknown!r} was accepted")


def test_sequences_and_characters_in_pieces(f):
    s = Screen(10, 3)
    for byte in "\x1b[1mz\u4e2d\x1b[0m".encode():
        s.feed(bytes([byte]))
    check(s.row(), "z\u4e2d")


def test_resizing_wraps_anew(f):
    s = shown("0123456789abc")
    s.resize(5, 4)
    check((s.visible(), s.cursor()), (["01234", "56789", "abc"], (3, 2)))
    s.resize(20, 4)
    check((s.visible(), s.cursor()), (["0123456789abc"], (13, 0)))


run_tests(globals())
