"""colibri inspect: hashes, checks, differences, splitting, merging, and changes of metadata."""
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import time

from keyboard import check
from session import PATIENCE, run_tests


def copy_of(f, name="m.gguf"):
    path = os.path.join(f.home, name)
    shutil.copyfile(f.model(), path)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def listing(f, path):
    return json.loads(f.run("inspect", path, "--json").stdout)


def value(f, path, key):
    """A key's type and value, or nothing."""
    for entry in listing(f, path)["metadata"]:
        if entry["key"] == key:
            return entry["type"], entry["value"]
    return None


def text(string):
    return struct.pack("<Q", len(string)) + string


def made(f, name, tensors, keys=b"", n_keys=0):
    """A file of our own: F32 tensors (type 0) or others, each (name, type, count, bytes)."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), n_keys) + keys, b""
    for tensor, kind, count, content in tensors:
        head += text(tensor) + struct.pack("<IQIQ", 1, count, kind, len(data))
        data += content + bytes(-len(content) % 32)
    path = os.path.join(f.home, name)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)
    return path


def refused(f, status, *words, saying=b""):
    done = f.run("inspect", *words)
    check((words, done.returncode, done.stdout), (words, status, b""))
    assert done.stderr.startswith(b"colibri: ") and done.stderr.count(b"\n") == 1 and saying in done.stderr, done.stderr
    return done


def test_listings_are_filtered(f):
    shown = f.run("inspect", f.model(), "--key", "general.*", "--tensor", "blk.0.attn_?.weight").stdout.decode()
    assert "general.architecture" in shown and "llama.block_count" not in shown, shown
    assert "blk.0.attn_q.weight" in shown and "blk.1" not in shown and "tensors (3 of " in shown, shown
    both = json.loads(f.run("inspect", f.model(), "--json", "--key", "general.architecture", "--tensor", "none").stdout)
    check([entry["key"] for entry in both["metadata"]], ["general.architecture"])
    check(both["tensors"], [])


def test_hashes_are_sha256_of_the_data(f):
    path = copy_of(f)
    whole = read(path)
    lines = f.run("inspect", path, "--hash").stdout.decode().splitlines()
    tensors = listing(f, path)["tensors"]
    everything = b""
    for line, tensor in zip(lines, tensors, strict=False):
        data = whole[tensor["offset"]:tensor["offset"] + tensor["bytes"]]
        everything += data
        check(line.split(), ["sha256", hashlib.sha256(data).hexdigest(), f"{path}:{tensor['name']}"])
    check(lines[len(tensors):], [f"sha256    {hashlib.sha256(everything).hexdigest()}  {path}"])
    as_json = json.loads(f.run("inspect", path, "--hash", "--json", "-t", "1").stdout)
    check([tensor["hash"] for tensor in as_json["tensors"]], [line.split()[1] for line in lines[:-1]])
    check(as_json["hash"], lines[-1].split()[1])


def test_a_list_of_hashes_finds_a_changed_byte(f):
    path = copy_of(f)
    kept = os.path.join(f.home, "list")
    with open(kept, "wb") as file:
        file.write(f.run("inspect", path, "--hash").stdout)
    done = f.run("inspect", path, "--check", kept)
    check((done.returncode, b"all hashes agree" in done.stdout, done.stderr), (0, True, b""))
    done = f.run("inspect", "--check", path, "-", stdin=read(kept))
    check((done.returncode, b"all hashes agree" in done.stdout), (0, True))
    tensor = listing(f, path)["tensors"][2]
    with open(path, "r+b") as file:
        file.seek(tensor["offset"])
        old = file.read(1)
        file.seek(tensor["offset"])
        file.write(bytes([old[0] ^ 1]))
    done = f.run("inspect", path, "--check", kept)
    check(done.returncode, 2)
    assert f"tensor '{tensor['name']}': the hash differs".encode() in done.stdout, done.stdout
    found = json.loads(f.run("inspect", path, "--check", kept, "--json").stdout)
    check((found["sound"], found["hashes"]["same"], found["hashes"]["differing"]), (True, False, [tensor["name"]]))
    with open(kept, "w", encoding="utf-8") as file:
        file.write("nothing\n")
    refused(f, 1, path, "--check", kept, saying=b"line 1")
    refused(f, 4, path, "--check", os.path.join(f.home, "none"))


def test_a_check_names_what_is_not_finite_and_what_is_unused(f):
    done = f.run("inspect", f.model(), "--check")
    check((done.returncode, b"0 tensors with faults, 0 unused bytes" in done.stdout), (0, True))
    numbers = struct.pack("<4f", 1, float("nan"), 3, float("inf"))
    path = made(f, "bad.gguf", [(b"good", 0, 2, bytes(8)), (b"bad \xc2\x9b31m", 0, 4, numbers)])
    with open(path, "ab") as file:
        file.write(b"behind")
    done = f.run("inspect", path, "--check")
    check(done.returncode, 2)
    assert b"1 NaN and 1 infinite of 4 values, the first at 1" in done.stdout, done.stdout
    assert b"6 unused bytes" in done.stdout and b"\xc2\x9b" not in done.stdout, done.stdout
    found = json.loads(f.run("inspect", path, "--check", "--json").stdout)
    check((found["sound"], found["not_finite"][0]["nan"], found["unused"][0]["bytes"]), (False, 1, 6))


def test_differences(f):
    path = copy_of(f)
    done = f.run("inspect", "--diff", f.model(), path)
    check(done.returncode, 0)
    assert done.stdout.startswith(b"metadata: 0 differ") and b"tensors: 0 differ" in done.stdout, done.stdout
    f.run("inspect", path, "--set", "general.name=str:\x1b[31mother")
    a = made(f, "a.gguf", [(b"t", 0, 4, struct.pack("<4f", 1, 2, 3, 4))])
    b = made(f, "b.gguf", [(b"t", 0, 4, struct.pack("<4f", 1, 2, 3, 8)), (b"u", 0, 1, bytes(4))])
    done = f.run("inspect", f.model(), path, "--diff")
    check((done.returncode, b"\x1b" in done.stdout, b"general.name" in done.stdout), (6, False, True))
    done = f.run("inspect", a, "--diff", b)
    check(done.returncode, 6)
    assert b"1 of 4 values, largest 4, rms 2 of 2.739" in done.stdout, done.stdout
    found = json.loads(f.run("inspect", a, b, "--diff", "--json").stdout)
    check((found["same"], [t["name"] for t in found["tensors"]], found["tensors"][0]["values"]["largest"]), (False, ["t", "u"], 4))
    check(found["tensors"][1]["a"], None)
    refused(f, 1, a, "--diff", saying=b"a second name is needed")
    refused(f, 2, a, "--diff", os.path.join(f.home, "none"))


def test_split_and_merged_a_file_has_its_bytes_again(f):
    path, again = copy_of(f), os.path.join(f.home, "again.gguf")
    size = os.path.getsize(path)
    for words in (("--split", "3"), ("--split-max-tensors", "8"), ("--split-max-size", f"{size * 2 // 3}")):
        done = f.run("inspect", path, os.path.join(f.home, "cut"), *words)
        check((words, done.returncode, done.stderr), (words, 0, b""))
        parts = done.stdout.decode().splitlines()
        assert len(parts) >= 2 and parts[0] == os.path.join(f.home, f"cut-00001-of-{len(parts):05}.gguf"), parts
        if words[0] == "--split-max-size":
            assert all(os.path.getsize(part) <= size * 2 // 3 for part in parts)
        check(len(listing(f, parts[1])["parts"]), len(parts))
        check(f.run("inspect", "--diff", path, parts[-1]).returncode, 0)
        check(f.run("inspect", parts[0], "--merge", again, "--force").returncode, 0)
        check(read(again) == read(path), True)
        for part in parts:
            os.remove(part)
    done = f.run("inspect", path, "--split", "2", "--json")
    check(json.loads(done.stdout)["files"], [os.path.join(f.home, f"m-0000{i}-of-00002.gguf") for i in (1, 2)])
    refused(f, 1, path, "--split", "0", saying=b"from 1 to 65535")
    refused(f, 1, path, "--split", "60000", saying=b"tensors can't be cut")
    refused(f, 1, path, "--split-max-size", "100", saying=b"the metadata alone takes")
    refused(f, 1, path, "--split-max-size", "0", saying=b"0 bytes hold nothing")
    refused(f, 1, path, "--split-max-size", "many", saying=b"--split-max-size")
    refused(f, 1, path, "--split", "2", "--split-max-size", "1G", saying=b"exclude each other")


def test_metadata_is_changed(f):
    path = copy_of(f)
    hashes = f.run("inspect", path, "--hash").stdout
    inode = os.stat(path).st_ino
    old = value(f, path, "llama.context_length")
    done = f.run("inspect", path, "--set", "llama.context_length=int:77")
    check((done.returncode, done.stdout, done.stderr), (0, f"{path}: changed in place\n".encode(), b""))
    check((value(f, path, "llama.context_length"), os.stat(path).st_ino), ((old[0], 77), inode))
    check(f.run("inspect", path, "--set", "llama.context_length=u32:77").stdout, f"{path}: had these values already\n".encode())
    template = os.path.join(f.home, "template")
    with open(template, "w", encoding="utf-8") as file:
        file.write("{{ x }}\n\u00fc")
    os.chmod(path, 0o640)
    done = f.run("inspect", path, "--set", f"my.template=file:{template}", "--set", "my.list=u8[]:1,2", "--remove", "llama.context_length", "--json")
    check(json.loads(done.stdout), {"file": path, "way": "rewritten"})
    check(value(f, path, "my.template"), ("string", "{{ x }}\n\u00fc"))
    check(value(f, path, "my.list"), ("u8[2]", [1, 2]))
    check(value(f, path, "llama.context_length"), None)
    check(os.stat(path).st_mode & 0o777, 0o640)
    check(f.run("inspect", path, "--hash").stdout, hashes)
    out = os.path.join(f.home, "out.gguf")
    check(f.run("inspect", path, out, "--set", "my.list=i8[]:3").returncode, 0)
    check((value(f, path, "my.list"), value(f, out, "my.list")), (("u8[2]", [1, 2]), ("i8[1]", [3])))
    before = read(path)
    refused(f, 1, path, "--remove", "none", saying=b"no key 'none'")
    refused(f, 1, path, "--set", "a=u8:300", saying=b"no number of type u8")
    refused(f, 1, path, "--set", "general.alignment=u32:64", saying=b"laid out")
    refused(f, 4, path, "--set", "a=file:/nowhere/at/all", saying=b"no such file")
    refused(f, 1, path, "--set", "a=u8:3", "--force", saying=b"--force does nothing")
    check(read(path) == before, True)
    parts = f.run("inspect", path, os.path.join(f.home, "cut"), "--split", "2").stdout.decode().splitlines()
    check(f.run("inspect", parts[1], "--set", "my.list=u8[]:9,9,9").stdout, f"{parts[0]}: written anew\n".encode())
    check(value(f, parts[0], "my.list"), ("u8[3]", [9, 9, 9]))


def test_inputs_and_existing_files_are_not_overwritten(f):
    path = copy_of(f)
    before = read(path)
    os.symlink(path, os.path.join(f.home, "soft"))
    os.link(path, os.path.join(f.home, "hard"))
    for out in (path, "soft", "hard"):
        for words in (("--merge",), ("--split", "1"), ("--set", "a=u8:1")):
            refused(f, 1, path, out, *words, "--force", saying=b"is the input")
    os.symlink(path, os.path.join(f.home, "cut-00002-of-00002.gguf"))
    refused(f, 1, path, "cut", "--split", "2", "--force", saying=b"is the input")
    os.remove(os.path.join(f.home, "hard"))
    there = os.path.join(f.home, "there")
    with open(there, "w", encoding="utf-8") as file:
        file.write("x")
    for words in (("--merge",), ("--split", "1"), ("--set", "a=u8:1")):
        refused(f, 1, path, there, *words, saying=b"--force")
        check(read(there), b"x")
        check(f.run("inspect", path, there, *words, "--force").returncode, 0)
        with open(there, "w", encoding="utf-8") as file:
            file.write("x")
    refused(f, 4, path, f.home, "--merge", "--force", saying=b"a directory")
    check(read(path) == before, True)


def test_wrong_uses(f):
    refused(f, 1, "--hash", saying=b"a file is needed: colibri inspect FILE --hash")
    refused(f, 1, f.model(), "--hash", "--check", saying=b"can't be done at once")
    refused(f, 1, f.model(), f.model(), "--hash", saying=b"one file at a time")
    refused(f, 1, f.model(), "a", "b", "--merge", saying=b"two names at a time")
    refused(f, 1, f.model(), "--hash", "--force", saying=b"--force does nothing here")
    refused(f, 1, f.model(), "--hash", "--key", "x", saying=b"--key does nothing here")
    refused(f, 1, f.model(), "--merge", saying=b"a second name is needed")
    refused(f, 1, f.model(), "--set", "", saying=b"a key is needed")


def test_hostile_files_are_refused_by_all(f):
    folder = pathlib.Path(f.models).parent / "hostile" / "gguf"
    if not folder.exists():
        print("no hostile files here")
        return
    out = os.path.join(f.home, "out")
    ways = (("--hash",), ("--check",), ("--diff", f.model()), ("--split", "1", out), ("--merge", out), ("--set", "a=u8:1", out))
    seen = {}
    for number, line in enumerate(open(folder / "manifest.jsonl", encoding="utf-8")):
        case = json.loads(line)
        if case["level"] != "file":
            continue
        for way in (ways if case["expect"] != "refuse" or number % 8 == 0 else ways[number % 6:number % 6 + 1]):  # all would take long
            done = f.run("inspect", str(folder / case["file"]), *way)
            what = (case["file"], way)
            assert done.returncode in (0, 1, 2, 6), (what, done)
            if case["expect"] == "refuse":
                check((what, done.returncode, done.stdout), (what, 2, b""))
                assert done.stderr.count(b"\n") == 1, (what, done.stderr)
            elif case["expect"] == "load":
                assert done.returncode in ((0, 2, 6) if way[0] in ("--check", "--diff") else (0,)), (what, done)
            assert b"\x1b" not in done.stdout + done.stderr, (what, done)
            seen[case["expect"]] = seen.get(case["expect"], 0) + 1
            left = [name for name in os.listdir(f.home)]
            check((what, [name for name in left if name != "out"]), (what, []))
            if left:
                os.remove(out)
    assert seen["refuse"] > 100 and seen["load"] > 10, seen


def with_small_disk(f, limit, *words):
    """The program where no file may grow beyond a limit, which writing meets as it meets a full disk."""
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.run([f.program, "inspect", *words], capture_output=True, env=f.environment(), cwd=f.home, timeout=PATIENCE,
                          check=False, preexec_fn=limited)


def test_a_full_disk_changes_nothing(f):
    path = copy_of(f)
    before = read(path)
    for words in ((path, "out", "--merge"), (path, "out", "--split", "2"), (path, "--set", "a=str:" + "x" * 1000), (path, "out", "--set", "a=u8:1")):
        done = with_small_disk(f, len(before) // 3, *words)
        check((words, done.returncode, done.stdout), (words, 4, b""))
        check((words, os.listdir(f.home)), (words, ["m.gguf"]))
    check(read(path) == before, True)


def test_a_reader_that_goes_away_is_no_error(f):
    for words in (("--hash",), ("--check",)):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([f.program, "inspect", f.model(), *words], stdout=writing, stderr=subprocess.PIPE, env=f.environment(),
                              timeout=PATIENCE, check=False)
        os.close(writing)
        check((done.returncode, done.stderr), (0, b""))


def test_ctrl_c_leaves_no_file(f):
    size = 400 << 20
    path = made(f, "large.gguf", [(b"t", 24, size, b"")])  # I8, without its data
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) + size)
    before = os.listdir(f.home)
    for words in (("--merge", "out"), ("--split", "1", "out"), ("out", "--set", "a=u8:1")):
        for _ in range(20):  # until the signal comes before the work is done
            process = subprocess.Popen([f.program, "inspect", path, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       env=f.environment(), cwd=f.home)
            while process.poll() is None and len(os.listdir(f.home)) == len(before):
                time.sleep(0.001)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
            if process.returncode == 130:
                break
            check(process.returncode, 0)
            os.remove(os.path.join(f.home, "out"))
        check((words, process.returncode, said), (words, 130, b"interrupted: nothing was changed\n"))
        check(os.listdir(f.home), before)


def test_files_of_killed_runs_are_removed_by_the_next_one(f):
    path = copy_of(f)
    for name in ("m.gguf", "out"):
        with open(os.path.join(f.home, f".{name}.1-2-3.part"), "wb") as file:
            file.write(b"left")
    check(f.run("inspect", path, "out", "--merge").returncode, 0)
    check(f.run("inspect", path, "--set", "a=str:b").returncode, 0)
    check(sorted(os.listdir(f.home)), ["m.gguf", "out"])


def test_progress_is_shown_in_a_terminal_only(f):
    path = made(f, "large.gguf", [(b"t", 24, 32 << 20, b"")])
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) + (32 << 20))
    t = f.terminal("inspect", path, "--hash", columns=300)
    check(t.finish(), 0)
    assert b"hashing: 8.00 MiB of 32.0 MiB" in t.raw, t.raw
    check([line for line in t.screen.lines() if "hashing" in line], [])
    check(f.run("inspect", path, "--hash").stderr, b"")


run_tests(globals())
