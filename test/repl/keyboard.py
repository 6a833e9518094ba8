"""Keys as terminals send them, and what tests of the prompt have in common."""
import json
import os

ENTER, NEWLINE, ESCAPE = "\r", "\n", "\x1b"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
HOME, END, DELETE = "\x1b[H", "\x1b[F", "\x1b[3~"


def ctrl(letter):
    return chr(ord(letter) & 0x1F)


def paste(text):
    return "\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~"


def start(f, *arguments, **more):
    t = f.terminal(f.model(), "-n", "1", "--temp", "0", *arguments, **more)
    t.wait(lambda: t.screen.paste_mode and t.screen.row().startswith(">"), "the prompt")
    return t


def conversation(f, t):
    """The contents of all messages of the user, by way of /save."""
    path = os.path.join(f.home, "talk.json")
    if os.path.exists(path):
        os.remove(path)
    enter(t, ctrl("u") + "/save talk.json")
    with open(path, encoding="utf-8") as file:
        return [m["content"] for m in json.load(file)["messages"] if m["role"] == "user"]


def at_prompt(t):
    t.wait(lambda: t.screen.paste_mode and t.screen.row() in (">", "> Write a message"), "an empty prompt")


def enter(t, keys):
    """Sends keys and Enter, and waits for the prompt behind what that brings."""
    before = t.raw.count(b"\x1b[?2004h")
    t.send(keys + ENTER)
    t.wait(lambda: t.raw.count(b"\x1b[?2004h") > before, "another prompt")
    at_prompt(t)


def sent(f, keys, **more):
    """The message that keys make."""
    t = start(f, **more)
    enter(t, keys)
    messages = conversation(f, t)
    assert len(messages) == 1, messages
    return messages[0]


def check(got, wanted):
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"
