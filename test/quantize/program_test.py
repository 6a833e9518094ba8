"""colibri-quantize: what it writes, what it refuses, and what its options do."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "repl"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import models  # noqa: E402
from keyboard import check  # noqa: E402
from models import Reader  # noqa: E402
from session import run_tests  # noqa: E402


def path_of(f, name):
    return os.path.join(f.home, name)


def source(f, **changes):
    path = path_of(f, "in.gguf")
    models.llama(path, **changes)
    return path


def quantise(f, *words, status=0):
    done = f.run(*words)
    check(done.returncode, status)
    if status:
        lines = done.stderr.decode().splitlines()
        errors = [line for line in lines if not line.startswith(("note: ", "["))]
        check(len(errors), 1)
        assert errors[0].startswith("colibri-quantize: "), errors
        return errors[0]
    return done


def leftovers(f):
    return sorted(name for name in os.listdir(f.home) if name.endswith(".part"))


def test_what_is_written(f):
    given, out = source(f), path_of(f, "out.gguf")
    done = quantise(f, given, out, "q8_0")
    check(done.stdout, b"")
    lines = done.stderr.decode().splitlines()
    check(len(lines), 21 + 1)
    assert lines[0].startswith("[ 1/21] token_embd.weight") and "F32 -> Q8_0" in lines[0], lines[0]
    before, after = Reader(given), Reader(out)
    check(list(after.tensors), list(before.tensors))
    check(after.keys["general.file_type"], 7)
    check(after.keys["general.quantization_version"], 2)
    check(after.keys["general.name"], "tiny")
    for name, (dims, kind, _) in after.tensors.items():
        check(dims, before.tensors[name][0])
        check(kind, models.F32 if "norm" in name else models.Q8_0)
        if kind == models.F32:
            check(after.bytes_of(name), before.bytes_of(name))
            continue
        # Half a step of 1/127 of the largest of 32, and what 11 bits for the step add to 127 of them: the rule of Q8_0.
        values = struct.unpack(f"<{math.prod(dims)}f", before.bytes_of(name))
        blocks = after.bytes_of(name)
        for b in range(0, len(values) // 32, 17):
            scale, *codes = struct.unpack_from("<e32b", blocks, 34 * b)
            for code, value in zip(codes, values[32 * b:32 * b + 32]):
                assert abs(scale * code - value) <= (0.5 + 127 / 2048) * scale, (name, b)
    check(leftovers(f), [])


def test_bytes_do_not_depend_on_threads(f):
    given = source(f, layers=3, vocabulary=2048)
    for kind in ("Q4_0", "F16"):
        outs = []
        for threads in ("1", "2", "7"):
            out = path_of(f, f"out{threads}.gguf")
            quantise(f, given, out, kind, threads, "--pure", "--force")
            with open(out, "rb") as file:
                outs.append(file.read())
        assert outs[0] == outs[1] == outs[2]


def test_dry_run(f):
    given, out = source(f), path_of(f, "out.gguf")
    plan = json.loads(quantise(f, given, out, "Q8_0", "--dry-run", "--json").stdout)
    assert not os.path.exists(out)
    check(plan["type"], "Q8_0")
    check(plan["dry_run"], True)
    check(len(plan["tensors"]), 21)
    check(json.loads(quantise(f, given, "q8_0", "--dry-run", "--json").stdout)["bytes"], plan["bytes"])
    text = quantise(f, given, "q8_0", "--dry-run").stdout.decode()
    check(text.count("\n"), 22)
    quantise(f, given, out, "Q8_0")
    check(os.path.getsize(out), plan["file_bytes"])
    # What would be refused is refused now.
    assert "exists" in quantise(f, given, out, "Q8_0", "--dry-run", status=1)


def test_json_result(f):
    given, out = source(f), path_of(f, "out.gguf")
    result = json.loads(quantise(f, given, out, "Q8_0", "--json").stdout)
    check(result["files"], [{"path": out, "bytes": os.path.getsize(out)}])
    assert result["seconds"] >= 0.0
    check({tensor["type"] for tensor in result["tensors"]}, {"F32", "Q8_0"})


def test_an_output_that_is_there(f):
    given, out = source(f), path_of(f, "out.gguf")
    quantise(f, given, out, "Q8_0")
    before = os.stat(out)
    assert "--force" in quantise(f, given, out, "Q8_0", status=1)
    check(os.stat(out).st_ino, before.st_ino)
    quantise(f, given, out, "F16", "--force")
    check(Reader(out).keys["general.file_type"], 1)


def test_the_input_is_never_written_over(f):
    given = source(f)
    size = os.path.getsize(given)
    os.symlink(given, path_of(f, "soft"))
    os.link(given, path_of(f, "hard"))
    for out in (given, "soft", "hard", os.path.join(f.home, ".", "in.gguf")):
        for more in ((), ("--force",)):
            assert "itself" in quantise(f, given, out, "Q8_0", *more, status=1)
    check(os.path.getsize(given), size)
    rules = path_of(f, "rules")
    with open(rules, "w", encoding="ascii") as file:
        file.write("attn_q=F16\n")
    assert "itself" in quantise(f, given, rules, "Q8_0", "--force", "--tensor-type-file", rules, status=1)


def test_quantising_twice_needs_its_flag(f):
    given, once, twice = source(f), path_of(f, "once.gguf"), path_of(f, "twice.gguf")
    quantise(f, given, once, "Q8_0")
    assert "--allow-requantize" in quantise(f, once, twice, "Q4_0", "--pure", status=1)
    assert not os.path.exists(twice)
    quantise(f, once, twice, "Q4_0", "--pure", "--allow-requantize")
    check(Reader(twice).tensors["output.weight"][1], models.Q4_0)
    # The same type again is a copy.
    quantise(f, once, twice, "Q8_0", "--force")
    for name in Reader(once).tensors:
        check(Reader(twice).bytes_of(name), Reader(once).bytes_of(name))


def test_values_that_are_no_numbers_stop_it(f):
    def spoil(value, at):
        def edit(name, data):
            return data if name != "blk.1.ffn_up.weight" else data[:4 * at] + struct.pack("<f", value) + data[4 * at + 4:]
        return edit
    for value, word in ((math.nan, "not a number"), (math.inf, "infinite"), (-math.inf, "infinite")):
        given, out = source(f, edit=spoil(value, 256 * 300 + 5)), path_of(f, "out.gguf")
        for kind in ("Q8_0", "F16", "COPY"):
            said = quantise(f, given, out, kind, status=2)
            for part in ("blk.1.ffn_up.weight", word, "row 300, column 5"):
                assert part in said, said
            assert not os.path.exists(out)
            check(leftovers(f), [])
    said = quantise(f, source(f, edit=spoil(1e6, 7)), path_of(f, "out.gguf"), "F16", status=2)
    assert "too large for F16" in said and "element 7 " in said, said
    quantise(f, path_of(f, "in.gguf"), path_of(f, "out.gguf"), "BF16")


def test_types_by_name(f):
    given, out = source(f), path_of(f, "out.gguf")

    def kinds(*words):
        quantise(f, given, out, *words, "--force")
        return {name: kind for name, (_, kind, _) in Reader(out).tensors.items()}

    got = kinds("Q8_0", "--tensor-type", "attn_(q|k)=q4_0", "--tensor-type", "ATTN_K=F16")
    check((got["blk.0.attn_q.weight"], got["blk.1.attn_k.weight"], got["blk.0.attn_v.weight"]), (models.Q4_0, models.Q4_0, models.Q8_0))
    rules = path_of(f, "rules")
    with open(rules, "w", encoding="ascii") as file:
        file.write("# attn_v=F16\nffn_up=F16 \n\t^blk\\.1\\.ffn_down=bf16\n")
    got = kinds("Q8_0", "--tensor-type-file", rules)
    check((got["blk.0.ffn_up.weight"], got["blk.0.ffn_down.weight"], got["blk.1.ffn_down.weight"]), (models.F16, models.Q8_0, models.BF16))
    check(got["blk.0.attn_v.weight"], models.Q8_0)
    got = kinds("Q4_0", "--pure", "--output-tensor-type", "F16", "--token-embedding-type", "Q8_0")
    check((got["output.weight"], got["token_embd.weight"], got["blk.0.attn_v.weight"]), (models.F16, models.Q8_0, models.Q4_0))
    got = kinds("Q8_0", "--leave-output-tensor")
    check((got["output.weight"], got["token_embd.weight"]), (models.F32, models.Q8_0))
    done = quantise(f, given, out, "Q8_0", "--force", "--tensor-type", "attn_z=F16")
    assert b"note: " in done.stderr and b"attn_z" in done.stderr, done.stderr
    for rule in ("attn_q", "=F16", "attn_q=Q9", "(=F16", "attn_q="):
        assert "--tensor-type" in quantise(f, given, out, "Q8_0", "--tensor-type", rule, status=1)


def test_rows_that_blocks_do_not_fit(f):
    given, out = source(f, width=40, hidden=96), path_of(f, "out.gguf")
    done = quantise(f, given, out, "Q4_0", "--pure")
    got = Reader(out).tensors
    check((got["blk.0.attn_q.weight"][1], got["blk.0.ffn_down.weight"][1]), (models.F16, models.Q4_0))
    assert b"don't fit" in done.stderr, done.stderr


def test_metadata(f):
    given, out = source(f), path_of(f, "out.gguf")
    quantise(f, given, out, "Q8_0", "--override-kv", "general.name=str:other", "--override-kv", "my.number=int:-3", "--override-kv",
             "llama.block_count=int:2", "--override-kv", "my.float=float:0.5", "--override-kv=my.flag=bool:true")
    keys = Reader(out).keys
    check((keys["general.name"], keys["my.number"], keys["my.float"], keys["my.flag"], keys["llama.block_count"]), ("other", -3, 0.5, True, 2))
    for change in ("general.name", "=int:3", "a=int", "a=int:x", "a=bool:1", "a=float:", "a=list:1", "split.count=int:3", "a\nb=int:1"):
        assert "--override-kv" in quantise(f, given, out, "Q8_0", "--override-kv", change, status=1)


def test_layers_left_out(f):
    heads = ("llama.some_list", models.ARRAY, (models.U32, [10, 11, 12, 13]))
    given, out = source(f, layers=4, more_keys=[heads]), path_of(f, "out.gguf")
    quantise(f, given, out, "COPY", "--prune-layers", "2,0")
    before, after = Reader(given), Reader(out)
    check(after.keys["llama.block_count"], 2)
    check(after.keys["llama.some_list"], [11, 13])
    check(len(after.tensors), 3 + 2 * 9)
    for new, old in ((0, 1), (1, 3)):
        check(after.bytes_of(f"blk.{new}.attn_q.weight"), before.bytes_of(f"blk.{old}.attn_q.weight"))
    for layers in ("4", "0,1,2,3", "x", "1,", "-1", ""):
        quantise(f, given, out, "COPY", "--force", f"--prune-layers={layers}", status=1)


def test_split_outputs_and_inputs(f):
    given, out = source(f), path_of(f, "out.gguf")
    whole, again, kept = path_of(f, "whole.gguf"), path_of(f, "again.gguf"), path_of(f, "kept.gguf")
    quantise(f, given, whole, "Q8_0")
    # The smallest size that can be said is a megabyte; this model in F32 has five.
    result = json.loads(quantise(f, given, out, "COPY", "--split-max-size", "1M", "--json").stdout)
    count = len(result["files"])
    assert count > 2, result["files"]
    assert not os.path.exists(out)
    parts = [path_of(f, f"out-{i + 1:05d}-of-{count:05d}.gguf") for i in range(count)]
    check([file["path"] for file in result["files"]], parts)
    check([Reader(part).keys["split.no"] for part in parts], list(range(count)))
    check(Reader(parts[0]).keys["split.tensors.count"], 21)
    check(sum(len(Reader(part).tensors) for part in parts), 21)
    assert "general.architecture" not in Reader(parts[1]).keys
    quantise(f, parts[1], again, "Q8_0")
    with open(whole, "rb") as one, open(again, "rb") as two:
        assert one.read() == two.read()
    result = json.loads(quantise(f, parts[0], kept, "Q8_0", "--keep-split", "--json").stdout)
    check(len(result["files"]), count)
    for file, part in zip(result["files"], parts):
        check(list(Reader(file["path"]).tensors), list(Reader(part).tensors))
    assert "itself" in quantise(f, parts[0], parts[2], "COPY", "--keep-split", status=1)
    for size in ("1", "M", "0M", "1K", "1.5G", "-1M"):
        assert "--split-max-size" in quantise(f, given, out, "COPY", "--split-max-size", size, status=1)
    os.remove(parts[1])
    quantise(f, parts[0], again, "Q8_0", "--force", status=2)


def test_a_target_size(f):
    given, out = source(f, layers=3), path_of(f, "out.gguf")
    sizes = []
    for bits in ("5.2", "6", "7.5", "8.9"):
        result = json.loads(quantise(f, given, out, "--target-bpw", bits, "--json", "--force").stdout)
        assert result["bits_per_weight"] <= float(bits), result["bits_per_weight"]
        assert result["bits_per_weight"] >= float(bits) - 0.6, result["bits_per_weight"]
        sizes.append(result["file_bytes"])
    check(sizes, sorted(set(sizes)))
    for size in (sizes[1], sizes[2] + 1000):
        result = json.loads(quantise(f, given, out, "--target-size", str(size), "2", "--json", "--force").stdout)
        assert size * 0.9 < result["file_bytes"] <= size, (size, result["file_bytes"])
        check(os.path.getsize(out), result["file_bytes"])
    assert "at least" in quantise(f, given, out, "--target-size", "100K", "--force", status=1)
    quantise(f, given, out, "--target-size", "10", "--force", status=1)
    for words in (("--target-bpw", "0"), ("--target-bpw", "x"), ("--target-size", "x"), ("--target-bpw", "5", "--pure"), ("--target-bpw", "5", "Q4_0")):
        quantise(f, given, out, *words, "--force", status=1)


def mixture(path):
    """Eight experts of two layers, a router, and the bias of its choice."""
    experts, width, hidden = 8, 64, 96
    keys = [("general.architecture", models.STRING, "llama"), ("llama.block_count", models.U32, 2), ("llama.expert_count", models.U32, experts)]
    tensors = []
    for i in range(2):
        shapes = [("ffn_gate_inp.weight", (width, experts)), ("exp_probs_b.bias", (experts,)), ("ffn_up_exps.weight", (width, hidden, experts)),
                  ("ffn_down_exps.weight", (hidden, width, experts)), ("attn_q.weight", (width, width))]
        for seed, (name, dims) in enumerate(shapes):
            tensors.append((f"blk.{i}.{name}", dims, models.F32, models.floats(math.prod(dims), 100 * i + seed)))
    models.write(path, tensors, keys)
    return experts


def test_order_by_heat(f):
    given, out, heat = path_of(f, "in.gguf"), path_of(f, "out.gguf"), path_of(f, "heat")
    experts = mixture(given)
    with open(heat, "w", encoding="ascii") as file:
        file.write("0 0 2,5\n0 1 1,7\n1 0 3,5\n1 1 7\n2 1 0,7\n")
    quantise(f, given, out, "COPY", "--order", heat)
    before, after = Reader(given), Reader(out)
    orders = {0: [5, 2, 3, 0, 1, 4, 6, 7], 1: [7, 0, 1, 2, 3, 4, 5, 6]}
    for name, (dims, _, _) in before.tensors.items():
        old, new = before.bytes_of(name), after.bytes_of(name)
        if "attn" in name:
            check(new, old)
            continue
        size = len(old) // experts
        check(dims[-1], experts)
        check(new, b"".join(old[e * size:(e + 1) * size] for e in orders[int(name.split(".")[1])]))
    # A layer that is left out may be in the recording.
    pruned = path_of(f, "pruned.gguf")
    quantise(f, given, pruned, "COPY", "--order", heat, "--prune-layers", "0")
    for name, (dims, _, _) in Reader(pruned).tensors.items():
        old, size = before.bytes_of(name.replace("blk.0", "blk.1")), 0
        if "attn" in name:
            continue
        size = len(old) // experts
        check(Reader(pruned).bytes_of(name), b"".join(old[e * size:(e + 1) * size] for e in orders[1]))
    # Layer 1 has five uses and layer 0 four.
    order = [name for name in after.tensors if "_exps" in name]
    check([name.split(".")[1] for name in order], ["1", "1", "0", "0"])
    check(list(after.tensors)[-4:], order)
    for text in ("", "0 0\n", "0 0 1,\n", "x 0 1\n", "0 0 8\n", "0 2 1\n"):
        with open(heat, "w", encoding="ascii") as file:
            file.write(text)
        assert "heat" in quantise(f, given, out, "COPY", "--order", heat, "--force", status=2)
    assert "--order" in quantise(f, given, out, "COPY", "--order", path_of(f, "none"), "--force", status=4)


def test_a_model_in_the_order_of_its_heat_answers_alike(f):
    colibri = os.path.join(os.path.dirname(f.program), "colibri")
    if not os.path.exists(colibri):
        print("not run: answers of a reordered model (colibri isn't built)")
        return
    given, out, heat = f.model("mixtral"), path_of(f, "out.gguf"), path_of(f, "heat")

    def answer(model, *more):
        done = subprocess.run([colibri, "run", "-m", model, "-p", "once upon a", "-n", "24", "--temp", "0", "--json", *more], capture_output=True,
                              cwd=f.home, env=f.environment(), check=False)
        check(done.returncode, 0)
        return json.loads(done.stdout)["answer"]

    expected = answer(given, "--record-heat", heat)
    quantise(f, given, out, "COPY", "--order", heat)
    before, after = Reader(given), Reader(out)
    assert any(before.bytes_of(name) != after.bytes_of(name) for name in before.tensors if "_exps" in name)
    check(answer(out), expected)


def golden_json(f, *names):
    path = os.path.join(f.models, "..", *names)
    if not os.path.exists(path):
        print(f"golden: {names[0]}: absent")
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def test_mixtures_of_a_published_model(f):
    model = golden_json(f, "mixtures", "mixtral-8x7b.json")
    if model is None:
        return
    given = path_of(f, "in.gguf")
    keys = [("general.architecture", models.STRING, model["arch"])]
    keys += [(f"{model['arch']}.{key}", models.F32_VALUE if isinstance(value, float) else models.U32, value) for key, value in model["hparams"].items()]
    models.write(given, [(name, dims, kind, None) for name, dims, kind in model["tensors"]], keys)
    for kind, expected in model["mixtures"].items():
        done = f.run(given, kind, "--dry-run", "--json")
        check((kind, done.returncode), (kind, 0))
        plan = json.loads(done.stdout)
        for tensor in plan["tensors"]:
            check((kind, tensor["name"], tensor["type"]), (kind, tensor["name"], expected["other"].get(tensor["name"], expected["default"])))
        check((kind, plan["bytes"]), (kind, expected["bytes"]))


def test_sizes_of_the_tiny_model(f):
    expected = golden_json(f, "tiny", "results.json")
    if expected is None:
        return
    folder, out = os.path.join(f.models, "..", "tiny"), path_of(f, "out.gguf")
    # The matrix's name stands in the file. How long it was there isn't known; with this one, of 37 bytes, all sizes are the same.
    matrix = "imatrix.gguf".rjust(37, "_")
    shutil.copy(os.path.join(folder, "imatrix.gguf"), path_of(f, matrix))
    for kind, columns in expected["types"].items():
        for column, more in (("plain", ()), ("importance", ("--imatrix", matrix))):
            done = f.run(os.path.join(folder, "tiny.gguf"), out, kind, "--force", *more)
            refused = columns[column].get("refused", False)
            check((kind, column, done.returncode), (kind, column, 1 if refused else 0))
            if not refused:
                check((kind, column, os.path.getsize(out)), (kind, column, columns[column]["bytes"]))


def test_refused_command_lines(f):
    given, out = source(f), path_of(f, "out.gguf")
    for words in ((), (given,), (given, out), (given, out, "Q9"), (given, out, "Q8_0", "0"), (given, out, "Q8_0", "x"), (given, out, "Q8_0", "2", "3"),
                  (given, out, "Q8_0", "--nonsense"), (given, out, "Q8_0", "--pure=1"), (given, out, "Q8_0", "--imatrix"), (given, "", "Q8_0"),
                  (given, out, "Q8_0", "--include-weights", "a"), (given, out, "COPY", "--pure"), (given, out, "Q8_0", "--keep-split", "--split-max-size", "1G"),
                  (given, out, "Q8_0", "--leave-output-tensor", "--output-tensor-type", "F16"), (given, out, "Q8_0", "-x")):
        quantise(f, *words, status=1)
    quantise(f, path_of(f, "none"), out, "Q8_0", status=4)
    quantise(f, given, path_of(f, "no/folder.gguf"), "Q8_0", status=4)
    os.mkdir(path_of(f, "folder"))
    quantise(f, given, path_of(f, "folder"), "Q8_0", "--force", status=4)
    check(sorted(os.listdir(f.home)), ["folder", "in.gguf"])
    assert b"Q4_K_M" in quantise(f, "--help").stdout
    assert quantise(f, "--version").stdout.startswith(b"colibri-quantize ")
    for name, number in (("q8_0", "7"), ("F16", "1"), ("bf16", "32"), ("f32", "0")):
        one = json.loads(quantise(f, given, name, "--dry-run", "--json").stdout)
        two = json.loads(quantise(f, given, number, "--dry-run", "--json").stdout)
        check(one["tensors"], two["tensors"])


def test_imatrix(f):
    given, out, matrix = source(f), path_of(f, "out.gguf"), path_of(f, "matrix.gguf")

    def write(change=lambda entries: None):
        entries = {name: dims[0] for name, (dims, _, _) in Reader(given).tensors.items() if "blk" in name and "norm" not in name}
        change(entries)
        tensors = []
        for name, columns in entries.items():
            tensors.append((name + ".in_sum2", (columns, 1), models.F32, struct.pack("<f", 0.5) * columns))
            tensors.append((name + ".counts", (1, 1), models.F32, struct.pack("<f", 2.0)))
        models.write(matrix, tensors, [("general.type", models.STRING, "imatrix"), ("imatrix.chunk_count", models.U32, 3), ("imatrix.chunk_size", models.U32, 512),
                                       ("imatrix.datasets", models.ARRAY, (models.STRING, ["text.txt"]))])

    write()
    quantise(f, given, out, "Q8_0", "--imatrix", "matrix.gguf")
    keys = Reader(out).keys
    check((keys["quantize.imatrix.file"], keys["quantize.imatrix.dataset"], keys["quantize.imatrix.entries_count"], keys["quantize.imatrix.chunks_count"]),
          ("matrix.gguf", "text.txt", 14, 3))
    done = quantise(f, given, out, "Q8_0", "--imatrix", matrix, "--force", "--exclude-weights", "attn")
    assert b"blk.0.attn_q.weight" in done.stderr and b"no importance weights" in done.stderr, done.stderr
    result = json.loads(quantise(f, given, out, "Q8_0", "--imatrix", matrix, "--force", "--include-weights", "ffn_up", "--json").stdout)
    check({tensor["name"] for tensor in result["tensors"] if tensor["importance"]}, {"blk.0.ffn_up.weight", "blk.1.ffn_up.weight"})
    os.remove(out)
    for change, word in ((lambda e: e.update({"blk.0.other.weight": 256}), "blk.0.other.weight"), (lambda e: e.update({"blk.0.attn_q.weight": 128}), "blk.0.attn_q.weight"),
                         (lambda e: [e.pop(name) for name in list(e) if name.startswith("blk.1.")], "layer 1")):
        write(change)
        said = quantise(f, given, out, "Q8_0", "--imatrix", matrix, status=2)
        assert word in said and "another model" in said, said
        assert not os.path.exists(out)
    shutil.copy(given, matrix)
    quantise(f, given, out, "Q8_0", "--imatrix", matrix, status=4)
    quantise(f, given, out, "Q8_0", "--imatrix", path_of(f, "none"), status=4)
    # Types that are noise without: refused before anything is written, with the tensor's name.
    for kind in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M", "IQ3_XXS", "IQ3_XS", "Q2_K_S"):
        done = f.run(given, out, kind)
        check(done.returncode, 1)
        assert b"needs importance" in done.stderr and b"blk.0." in done.stderr, done.stderr
        plan = f.run(given, out, kind, "--dry-run", "--json")
        check(plan.returncode, 0)
        assert any("needs importance" in note for note in json.loads(plan.stdout)["notes"]), plan.stdout
    check(sorted(os.listdir(f.home)), ["in.gguf", "matrix.gguf"])


def test_hostile_files(f):
    folder = os.path.join(f.models, "..", "hostile", "gguf")
    manifest = os.path.join(folder, "manifest.jsonl")
    if not os.path.exists(manifest):
        print("golden: hostile: absent")
        return
    out, ran = path_of(f, "out.gguf"), 0
    with open(manifest, encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    for case in cases:
        if case["level"] != "file" or case["expect"] == "either":
            continue
        done = f.run(os.path.join(folder, case["file"]), out, "COPY", "1")
        check((case["file"], done.returncode), (case["file"], 0 if case["expect"] == "load" else done.returncode))
        if case["expect"] == "refuse":
            assert done.returncode in (2, 4), (case, done.returncode)
            assert not os.path.exists(out), case
            check((case["file"], done.stderr.count(b"\n")), (case["file"], 1))
        assert all(byte >= 32 or byte == 10 for byte in done.stderr), case
        if os.path.exists(out):
            os.remove(out)
        ran += 1
    print(f"golden: hostile/gguf quantised: {ran}")
    assert ran > 100


run_tests(globals())
