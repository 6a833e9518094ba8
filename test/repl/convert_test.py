"""colibri convert: what it prints, refuses and leaves behind, and how much memory it takes."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import time

from keyboard import check, ctrl
from session import PATIENCE, run_tests


def source(f, name="llama"):
    return os.path.join(f.models, name, "hf")


def copied(f, name="llama"):
    folder = os.path.join(f.home, name)
    shutil.copytree(source(f, name), folder)
    for root, folders, files in os.walk(folder):
        for one in folders + files:
            os.chmod(os.path.join(root, one), 0o755)
    os.chmod(folder, 0o755)
    return folder


def large_source(f):
    """A llama of one wide layer, 300 MB of zeros whose data takes no disk; and its size."""
    folder = copied(f)
    for name in list(os.listdir(folder)):
        if name.endswith((".safetensors", ".index.json")):
            os.remove(os.path.join(folder, name))
    hidden, inner = 4096, 8192
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config.update(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=1, num_attention_heads=256, num_key_value_heads=128)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    shapes = {"model.embed_tokens.weight": [320, hidden], "model.norm.weight": [hidden], "lm_head.weight": [320, hidden]}
    layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [hidden, hidden],
             "self_attn.k_proj": [hidden // 2, hidden], "self_attn.v_proj": [hidden // 2, hidden], "self_attn.o_proj": [hidden, hidden],
             "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
    shapes.update({f"model.layers.0.{name}.weight": shape for name, shape in layer.items()})
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return folder, at


def test_a_folder_becomes_a_model_that_answers(f):
    out = os.path.join(f.home, "out.gguf")
    done = f.run("convert", source(f), out, "--type", "f32")
    check((done.returncode, done.stderr), (0, b""))
    check(done.stdout.count(b"\n"), 1)
    for part in (b"out.gguf", b"llama", b"21 tensors", b"f32", b"llama-bpe"):
        assert part in done.stdout, done.stdout
    ask = ("-p", "once upon a", "-n", "16", "--temp", "0", "--raw")
    check(f.run("run", "-m", out, *ask).stdout, f.run("run", "-m", f.model(), *ask).stdout)
    check(f.run("inspect", out).returncode, 0)


def test_json(f):
    out = os.path.join(f.home, "out.gguf")
    said = json.loads(f.run("convert", source(f, "mixtral"), out, "--type=q8_0", "--json").stdout)
    check((said["architecture"], said["type"], said["tensors"], said["tokens"], said["output"]), ("llama", "q8_0", 23, 384, out))
    check(said["notes"], [])
    assert os.path.getsize(out) > said["tensor_bytes"]
    done = f.run("convert", source(f, "mixtral"), "--dry-run", "--json")
    check(done.returncode, 0)
    listed = json.loads(done.stdout)["tensor_list"]
    check(len(listed), 23)
    router = [one for one in listed if one["name"] == "blk.0.ffn_gate_inp.weight"][0]
    check((router["type"], router["shape"]), ("F32", [64, 6]))  # F32 whatever the others are


def test_a_dry_run_writes_nothing(f):
    out = os.path.join(f.home, "out.gguf")
    done = f.run("convert", source(f), out, "--dry-run")
    check((done.returncode, done.stderr, os.path.exists(out)), (0, b"", False))
    check(done.stdout.count(b"\n"), 22)
    assert b"blk.1.ffn_down.weight  [96, 64]  F32" in done.stdout, done.stdout


def test_an_existing_file_stays_without_force(f):
    out = os.path.join(f.home, "out.gguf")
    with open(out, "wb") as file:
        file.write(b"mine")
    done = f.run("convert", source(f), out)
    check((done.returncode, done.stdout), (1, b""))
    assert b"--force" in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
    with open(out, "rb") as file:
        check(file.read(), b"mine")
    check(f.run("convert", source(f), out, "--force").returncode, 0)
    assert os.path.getsize(out) > 100000


def test_wrong_calls_and_folders(f):
    folder = copied(f)
    out = os.path.join(f.home, "out.gguf")
    for words, status, part in ((("convert",), 1, b"DIR OUT"), (("convert", folder), 1, b"DIR OUT"), (("convert", folder, out, "x"), 1, b"DIR OUT"),
                                (("convert", folder, out, "--type", "q4_k"), 1, b"auto f32 f16 bf16 q8_0"),
                                (("convert", folder, out, "--pre", "nonsense"), 1, b"nonsense"), (("convert", folder, out, "--temp", "1"), 1, b"--temp"),
                                (("convert", folder + "x", out), 4, b"no such file"), (("convert", f.model(), out), 2, b"GGUF"),
                                (("convert", folder, os.path.join(f.home, "none", "x.gguf")), 4, b"folder does not exist"),
                                (("convert", folder, f.home), 1, b"is a folder")):
        done = f.run(*words)
        check((words, done.returncode, done.stdout), (words, status, b""))
        assert part in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
    os.remove(os.path.join(folder, "model-00002-of-00003.safetensors"))
    done = f.run("convert", folder, out)
    check(done.returncode, 2)
    assert b"model-00002-of-00003.safetensors" in done.stderr and b"missing" in done.stderr, done.stderr
    check(os.path.exists(out), False)


def test_names_from_files_are_escaped(f):
    folder = copied(f, "qwen2")
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["architectures"] = ["Odd\x1b[31mForCausalLM"]
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    done = f.run("convert", folder, os.path.join(f.home, "out.gguf"))
    check(done.returncode, 2)
    assert b"\x1b" not in done.stderr and b"LlamaForCausalLM" in done.stderr, done.stderr


def test_a_closed_pipe_does_not_stop_it(f):
    out = os.path.join(f.home, "out.gguf")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([f.program, "convert", source(f), out], stdout=writer, stderr=subprocess.PIPE, env=f.environment(), cwd=f.home,
                          timeout=PATIENCE, check=False)
    os.close(writer)
    check((done.returncode, done.stderr), (0, b""))
    assert os.path.getsize(out) > 100000


def test_memory_stays_small_and_threads_change_nothing(f):
    folder, size = large_source(f)
    assert size > 280 << 20
    digests = set()
    for threads in ("1", "3"):
        out = os.path.join(f.home, "out.gguf")
        child = subprocess.Popen([f.program, "convert", folder, out, "--type", "q8_0", "-t", threads, "--force"], stdout=subprocess.DEVNULL,
                                 env=f.environment(), cwd=f.home)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        check(child.returncode, 0)
        # A window of 16 MiB, and a few MiB a thread; a sanitizer's own memory isn't ours.
        with open(f.program, "rb") as file:
            sanitized = b"__asan_init" in file.read()
        if not sanitized:
            assert used.ru_maxrss < 128 << 10, used.ru_maxrss
        digests.add(subprocess.run(["sha256sum", out], capture_output=True, check=True).stdout.split()[0])
        os.remove(out)
    check(len(digests), 1)


def test_interrupted_it_leaves_nothing(f):
    folder, _ = large_source(f)
    out = os.path.join(f.home, "out.gguf")
    terminal = f.terminal("convert", folder, out, "--type", "f32", "-t", "1")
    terminal.wait_text("writing: ")
    terminal.send(ctrl("c"))
    check(terminal.finish(), 130)
    assert "interrupted: nothing was written" in "\n".join(terminal.screen.lines()), terminal.shown()
    check(sorted(os.listdir(f.home)), ["llama"])


def test_a_full_disk_is_noticed(f):
    out = os.path.join(f.home, "out.gguf")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run([f.program, "convert", source(f), out], capture_output=True, env=f.environment(), cwd=f.home, timeout=PATIENCE,
                          check=False, preexec_fn=small_files)
    check((done.returncode, done.stdout), (4, b""))
    assert done.stderr.count(b"\n") == 1, done.stderr
    check(os.listdir(f.home), [])


def test_killed_it_leaves_the_old_file(f):
    folder, _ = large_source(f)
    out = os.path.join(f.home, "out.gguf")
    with open(out, "wb") as file:
        file.write(b"mine")
    for delay in (0.2, 0.5, 1.0):
        child = subprocess.Popen([f.program, "convert", folder, out, "--type", "f32", "--force", "-t", "1"], stdout=subprocess.DEVNULL,
                                 env=f.environment(), cwd=f.home)
        time.sleep(delay)
        child.kill()
        child.wait()
        size = os.path.getsize(out)
        assert size == 4 or size > 560 << 20, size


run_tests(globals())
