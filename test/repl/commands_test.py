"""The commands of the REPL, its history file, and what is said about answers, in a real pseudo-terminal."""
import json
import os
import stat

from keyboard import DOWN, ENTER, NEWLINE, UP, at_prompt, check, conversation, ctrl, enter, paste, start
from session import run_tests


def do(t, command):
    """Sends a line and returns what appears until the next prompt."""
    before = len(t.screen.lines())
    enter(t, command)
    return "\n".join(t.screen.lines()[before:-1])


def messages(f, t):
    path = os.path.join(f.home, "messages.json")
    do(t, "/save messages.json")
    with open(path, encoding="utf-8") as file:
        saved = json.load(file)
    os.remove(path)
    return saved


def history_file(f):
    return os.path.join(f.home, ".local", "state", "colibri", "history")


def test_the_start_says_what_runs(f):
    t = start(f, "--seed", "77", "-t", "2")
    t.wait_row("> Write a message")
    first = t.screen.lines()[-2]  # above, there may be a note: that the machine has less than 2 processors
    for word in ("llama", "context 512", "2 threads", "seed 77", "/help"):
        assert word in first, first


def test_a_context_that_was_chosen_is_said(f):
    t = start(f, "-c", "100000")
    t.wait_text("100000")
    assert any("trained" in line for line in t.screen.lines()), t.shown()


def test_help(f):
    t = start(f)
    said = do(t, "/help")
    for word in ("/help", "/set", "/show", "/system", "/undo", "/retry", "/clear", "/save", "/load", "/stats", "/quit",
                 '"""', "Ctrl-G"):
        assert word in said, said


def test_unknown_commands_are_told_and_not_sent(f):
    t = start(f)
    said = do(t, "/hlep me")
    assert "no command '/hlep'" in said and "/help" in said, said
    assert "no command '/showcase'" in do(t, "/showcase")
    assert "takes nothing" in do(t, "/clear all")
    check(conversation(f, t), [])
    do(t, "/usr/bin fails")
    do(t, "//help")
    check(conversation(f, t), ["/usr/bin fails", "/help"])


def test_set(f):
    t = start(f)
    assert "temp 0" in do(t, "/set temp")
    assert "temp 0.75" in do(t, "/set temp 0.75")
    assert "top_k 7" in do(t, "/set top_k=7")
    assert "top_p 0.5" in do(t, "/set top-p 0.5")
    assert "'hot'" in do(t, "/set temp hot") and "temp 0.75" in do(t, "/set temp")
    assert "'0,5'" in do(t, "/set temp 0,5")
    assert "did you mean temp?" in do(t, "/set temperature 1")
    assert "start of the program" in do(t, "/set threads 1")
    assert "no setting" in do(t, "/set nonsense 1")
    said = do(t, "/set stop END")
    assert "'END'" in said, said
    assert "'END', 'STOP'" in do(t, "/set stop STOP")
    assert "none" in do(t, "/set stop none")
    assert "top_k 40" in do(t, "/set top_k default")
    do(t, "/set seed 12345")
    said = do(t, "/set")
    for word in ("temp                0.75  (set)", "seed                12345", "top_k               40",
                 "history             on", "in force: "):
        assert word in said, said
    settings = messages(f, t)["settings"]
    check(settings, {"predict": 1, "seed": 12345, "temp": 0.75, "top-p": 0.5})


def test_settings_hold_from_the_next_answer_on(f):
    t = start(f, "--ignore-eos")
    do(t, "/set predict 5")
    do(t, "Hello")
    assert any("5 tokens" in line for line in t.screen.lines()), t.shown()
    do(t, "/set predict 7")
    do(t, "Hello")
    assert any("7 tokens" in line for line in t.screen.lines()), t.shown()


def test_system(f):
    t = start(f)
    assert "no system message" in do(t, "/system")
    do(t, "/system Be brief.")
    assert "Be brief." in do(t, "/system")
    do(t, '/system """' + ENTER + "Be" + ENTER + 'kind."""')
    check(messages(f, t)["system"], "Be\nkind.")
    do(t, "/set system none")
    check(messages(f, t)["system"], None)
    t = start(f, "--system", "From the start.", "--show-prompt")
    do(t, "Hi")
    assert any("From the start." in line for line in t.screen.lines()), t.shown()


def test_undo_retry_clear(f):
    t = start(f)
    for text in ("one", "two"):
        do(t, text)
    assert "'two'" in do(t, "/undo")
    check([m["content"] for m in messages(f, t)["messages"] if m["role"] == "user"], ["one"])
    before = messages(f, t)["messages"]
    do(t, "/retry")
    check(messages(f, t)["messages"], before)  # temperature 0 says the same
    do(t, "/set temp 5")
    do(t, "/set top_k 0")
    do(t, "/set predict 30")
    do(t, "/retry")
    after = messages(f, t)["messages"]
    check(after[0], before[0])
    assert after[1] != before[1]
    do(t, "/clear")
    check(messages(f, t)["messages"], [])
    assert "nothing to forget" in do(t, "/undo")
    assert "no message" in do(t, "/retry")


def test_save_and_load(f):
    t = start(f, "--seed", "3")
    do(t, "/system Be brief.")
    do(t, "one" + NEWLINE + "more \u4e2d")
    do(t, "/set top_p 0.5")
    do(t, "/set stop XYZ")
    assert "2 messages" in do(t, "/save talk.json")
    path = os.path.join(f.home, "talk.json")
    check(stat.S_IMODE(os.stat(path).st_mode), 0o600)
    with open(path, encoding="utf-8") as file:
        saved = json.load(file)
    check(saved["format"], "colibri-conversation")
    check(saved["settings"], {"predict": 1, "stop": ["XYZ"], "seed": 3, "temp": 0, "top-p": 0.5})
    t.send(ctrl("d"))
    t.finish()

    t = start(f, "--min-p", "0.2")
    said = do(t, "/load talk.json")
    assert "2 messages" in said and "Be brief." in said, said
    again = messages(f, t)
    check(again, saved)
    do(t, "two")
    check(len(messages(f, t)["messages"]), 4)
    do(t, "/save talk.json")  # over a conversation: yes
    with open(path, encoding="utf-8") as file:
        check(len(json.load(file)["messages"]), 4)


def test_save_does_not_overwrite_other_files(f):
    path = os.path.join(f.home, "thesis.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("years of work")
    t = start(f)
    do(t, "Hi")
    assert "something else" in do(t, "/save thesis.txt")
    with open(path, encoding="utf-8") as file:
        check(file.read(), "years of work")
    assert "does not exist" in do(t, "/save no/such/folder/x.json")
    assert "a file is needed" in do(t, "/save")
    check(sorted(name for name in os.listdir(f.home) if not name.startswith(".")), ["thesis.txt"])


def test_load_refuses_what_is_damaged_and_changes_nothing(f):
    t = start(f)
    do(t, "kept")
    before = messages(f, t)
    head = '{"format": "colibri-conversation", "version": 1, '
    bad = {
        "not JSON": "hello",
        "another JSON": "{}",
        "cut off": head + '"messages": [',
        "version": '{"format": "colibri-conversation", "version": 2, "messages": []}',
        "no messages": head + '"system": null}',
        "role": head + '"messages": [{"role": "root", "content": "x"}]}',
        "order": head + '"messages": [{"role": "assistant", "content": "x"}]}',
        "content": head + '"messages": [{"role": "user", "content": 5}]}',
        "system": head + '"system": 5, "messages": []}',
        "unknown setting": head + '"messages": [], "settings": {"nonsense": 1}}',
        "setting's value": head + '"messages": [], "settings": {"temp": "hot"}}',
        "setting's range": head + '"messages": [], "settings": {"top-p": 7}}',
        "setting's shape": head + '"messages": [], "settings": {"temp": [1]}}',
        "not settable": head + '"messages": [], "settings": {"model": "x"}}',
        "deep": head + '"messages": ' + "[" * 100000,
    }
    for what, text in bad.items():
        with open(os.path.join(f.home, "bad.json"), "w", encoding="utf-8") as file:
            file.write(text)
        said = do(t, "/load bad.json")
        assert "nothing was changed" in said.replace("\n", ""), (what, said)
        check(messages(f, t), before)
    assert "no such file" in do(t, "/load none.json")


def test_show(f):
    t = start(f)
    do(t, "Hi")
    said = do(t, "/show")
    for word in ("architecture", "'llama'", "vocabulary", "2 messages", "/show takes"):
        assert word in said, said
    assert "user: Hi" in do(t, "/show messages")
    assert "template" in do(t, "/show model")
    assert "im_start" in do(t, "/show template")
    assert "temp" in do(t, "/show settings")
    assert "did you mean messages?" in do(t, "/show mesages")


def test_statistics(f):
    t = start(f, "--ignore-eos", "-n", "6")
    assert "no answer yet" in do(t, "/stats")
    do(t, "Hello")
    line = next(line for line in t.screen.lines() if "tok/s" in line)
    for word in ("6 tokens", "prompt ", "TTFT ", "context ", " of 512", "weights ", "KV ", "RSS "):
        assert word in line, line
    do(t, "Hello again")
    assert any(" known" in line for line in t.screen.lines()), "the second prompt was evaluated from its start"
    said = do(t, "/stats")
    for word in ("answer", "prompt", "TTFT", "predicted", "context", "weights", "KV cache", "RSS"):
        assert word in said, said
    do(t, "/undo")
    said = do(t, "/stats")
    assert "the last answer was forgotten" in said and "TTFT" not in said and "KV cache" in said, said
    do(t, "Hello")
    assert "TTFT" in do(t, "/stats")
    do(t, "/clear")
    assert "TTFT" not in do(t, "/stats")
    do(t, "/set verbose off")
    before = "\n".join(t.screen.lines()).count("tok/s")
    do(t, "Hello")
    check("\n".join(t.screen.lines()).count("tok/s"), before)


def test_long_prompts_show_how_far_they_are(f):
    t = f.terminal(f.model(), "-n", "1", "--temp", "0", "-c", "30000", "-ub", "64")
    at_prompt(t)
    t.send(paste("some words " * 3500))
    t.send(ENTER)
    t.wait(lambda: b"reading: " in t.raw, "the progress")
    t.send(ctrl("c"))
    t.wait_text("stopped before the answer began")
    at_prompt(t)
    assert not any("reading: " in line for line in t.screen.lines()), "the progress goes away"
    check(messages(f, t)["messages"], [])


def test_a_first_message_that_is_too_long_gets_one_advice(f):
    t = f.terminal(f.model(), "-c", "64", "--temp", "0")
    at_prompt(t)
    said = do(t, "many words " * 100).replace("\n", "")
    assert "the context holds 64; -c at the start makes the context larger" in said and "/undo" not in said, said


def test_a_full_context_keeps_the_talk_alive(f):
    t = f.terminal(f.model(), "-c", "64", "--temp", "0", "--ignore-eos")
    at_prompt(t)
    said = do(t, "Hello").replace("\n", "")
    assert "full" in said and "/undo" in said and "/clear" in said and "-c" in said, said
    said = do(t, "Another message").replace("\n", "")
    assert "64" in said and "/undo" in said, said
    check(len(messages(f, t)["messages"]), 2)  # what didn't fit isn't kept
    do(t, "/set predict 3")
    do(t, "/clear")
    do(t, "Hi")
    check(len(messages(f, t)["messages"]), 2)


def test_history_file(f):
    t = start(f)
    do(t, "one")
    enter(t, "two" + NEWLINE + "lines \\ and slashes")
    enter(t, paste("/clear\nnow"))
    do(t, "/stats")
    t.send(ctrl("d"))
    t.finish()
    path = history_file(f)
    check(stat.S_IMODE(os.stat(path).st_mode), 0o600)
    check(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
    with open(path, encoding="utf-8") as file:
        check(file.read(), 'one\ntwo\\nlines \\\\ and slashes\n"""\\n/clear\\nnow\\n"""\n/stats\n')
    t = start(f)
    t.send(UP + UP)
    t.wait(lambda: ". now" in t.screen.lines(), "the pasted message again")
    enter(t, "")
    t.send(UP + UP + UP + UP + UP + UP)
    t.send(DOWN + ctrl("c"))
    check(conversation(f, t), ["/clear\nnow"])


def test_history_can_be_off(f):
    for more in ({"arguments": ["--no-history"]}, {"COLIBRI_NOHISTORY": "1"}):
        t = start(f, *more.pop("arguments", ()), **more)
        do(t, "secret")
        t.send(UP)
        t.wait_row("> secret")  # still in memory
        t.send(ctrl("c"))
        at_prompt(t)
        t.send(ctrl("d"))
        t.finish()
        assert not os.path.exists(history_file(f))
    t = start(f)
    do(t, "public")
    do(t, "/set history off")
    do(t, "secret")
    do(t, "/set history on")
    do(t, "public again")
    with open(history_file(f), encoding="utf-8") as file:
        check(file.read(), "public\n/set history off\npublic again\n")


def test_state_folder_can_be_elsewhere(f):
    t = start(f, XDG_STATE_HOME=os.path.join(f.home, "state"))
    do(t, "Hi")
    assert os.path.exists(os.path.join(f.home, "state", "colibri", "history"))
    assert not os.path.exists(history_file(f))


def test_a_history_that_cannot_be_written_is_said_once(f):
    with open(os.path.join(f.home, "state"), "w", encoding="utf-8"):
        pass
    t = start(f, XDG_STATE_HOME=os.path.join(f.home, "state"))
    assert "history" in do(t, "one")
    assert "history" not in do(t, "two")


def test_first_message_from_the_command_line(f):
    t = start(f, "-p", "from the start")
    check(conversation(f, t), ["from the start"])


def test_a_model_without_a_template(f):
    t = f.terminal(f.model("gemma3"), "-n", "1", "--temp", "0", "--show-prompt")
    at_prompt(t)
    assert any("no chat template" in line for line in t.screen.lines()), "the plain form is stated"
    do(t, "Hello there")
    assert any("Hello there" in line for line in t.screen.lines()[2:])
    assert "no chat template" in do(t, "/show template")
    # A single prompt goes on as text instead.
    done = f.run("run", "-m", f.model("gemma3"), "-n", "1", "--temp", "0", "--show-prompt", "-p", "Once upon")
    check(done.stderr.splitlines()[1], b"Once upon")


def test_raw_chat(f):
    t = start(f, "--raw", "--show-prompt")
    do(t, "one")
    do(t, "two")
    assert "there is no system message" in do(t, "/system Be brief.")
    lines = t.screen.lines()
    assert "one" in lines and not any("im_start" in line for line in lines), t.shown()


run_tests(globals())
