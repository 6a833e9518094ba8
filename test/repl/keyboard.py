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


def prompts(t):
    """How many prompts there have been."""
    return t.raw.count(b"\x1b[?2004h")


def next_prompt(t, before):
    """Waits for an empty prompt when there had been `before` of them."""
    t.wait(lambda: prompts(t) > before, "another prompt")
    at_prompt(t)


def enter(t, keys):
    """Sends keys and Enter, and waits for the prompt behind what that brings."""
    before = prompts(t)
    t.send((keys.encode() if isinstance(keys, str) else keys) + ENTER.encode())
    next_prompt(t, before)


def sent(f, keys, **more):
    """The message that keys make."""
    t = start(f, **more)
    enter(t, keys)
    messages = conversation(f, t)
    assert len(messages) == 1, messages
    return messages[0]


def check(got, wanted):
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"
