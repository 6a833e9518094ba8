"""Small GGUF files for tests of colibri-quantize: written and read here, independent of the library."""
import array
import random
import struct

F32, F16, Q4_0, Q8_0, Q4_K, BF16 = 0, 1, 2, 8, 12, 30
U32, I32, F32_VALUE, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SIZES = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), Q4_K: (256, 144), BF16: (1, 2)}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def encoded(kind, value):
    """A value's bytes behind its type number."""
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(encoded(inner, one) for one in values)
    return struct.pack({U32: "<I", I32: "<i", F32_VALUE: "<f", BOOL: "<?"}[kind], value)


def size_of(dims, kind):
    block, size = SIZES[kind]
    count = 1
    for dim in dims:
        count *= dim
    return count // block * size


def write(path, tensors, keys=()):
    """`tensors`: (name, dims, type, bytes or None for a hole); `keys`: (name, type, value)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(name) + struct.pack("<I", kind) + encoded(kind, value) for name, kind, value in keys)
    offset = 0
    for name, dims, kind, _ in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
        offset += (size_of(dims, kind) + 31) // 32 * 32
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32))
        begin = file.tell()
        for _, dims, kind, data in tensors:
            size = size_of(dims, kind)
            if data is not None:
                assert len(data) == size, (dims, kind, len(data))
                file.seek(begin)
                file.write(data)
            begin += (size + 31) // 32 * 32
        file.truncate(begin)


def floats(count, seed=1):
    """F32 bytes of values like weights; the same for a seed."""
    generator = random.Random(seed)
    some = array.array("f", (generator.gauss(0.0, 0.02) for _ in range(min(count, 4096))))
    return (some * (count // len(some) + 1))[:count].tobytes()


def llama(path, layers=2, width=256, hidden=512, vocabulary=320, more_keys=(), edit=None):
    """A llama's tensors in F32 with a head of its own."""
    keys = [("general.architecture", STRING, "llama"), ("general.name", STRING, "tiny"), ("llama.block_count", U32, layers),
            ("llama.embedding_length", U32, width), ("llama.attention.head_count", U32, 4), ("llama.attention.head_count_kv", U32, 4), *more_keys]
    shapes = [("token_embd.weight", (width, vocabulary)), ("output_norm.weight", (width,)), ("output.weight", (width, vocabulary))]
    for i in range(layers):
        shapes += [(f"blk.{i}.attn_norm.weight", (width,)), (f"blk.{i}.attn_q.weight", (width, width)), (f"blk.{i}.attn_k.weight", (width, width)),
                   (f"blk.{i}.attn_v.weight", (width, width)), (f"blk.{i}.attn_output.weight", (width, width)), (f"blk.{i}.ffn_norm.weight", (width,)),
                   (f"blk.{i}.ffn_gate.weight", (width, hidden)), (f"blk.{i}.ffn_up.weight", (width, hidden)), (f"blk.{i}.ffn_down.weight", (hidden, width))]
    tensors = []
    for seed, (name, dims) in enumerate(shapes):
        data = floats(size_of(dims, F32) // 4, seed)
        tensors.append((name, dims, F32, data if edit is None else edit(name, data)))
    write(path, tensors, keys)


class Reader:
    """A file's keys and tensors."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 4
        assert self.data[:4] == b"GGUF", path
        _, tensors, keys = self.take("<IQQ")
        self.keys = {}
        for _ in range(keys):
            name = self.text()
            kind, = self.take("<I")
            self.keys[name] = self.value(kind)
        self.tensors = {}
        for _ in range(tensors):
            name = self.text()
            count, = self.take("<I")
            dims = self.take(f"<{count}Q")
            kind, offset = self.take("<IQ")
            self.tensors[name] = (tuple(dims), kind, offset)
        self.begin = (self.at + 31) // 32 * 32

    def take(self, form):
        out = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return out

    def text(self):
        size, = self.take("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            inner, count = self.take("<IQ")
            return [self.value(inner) for _ in range(count)]
        return self.take({0: "<B", 1: "<b", 2: "<H", 3: "<h", U32: "<I", I32: "<i", F32_VALUE: "<f", BOOL: "<?", 10: "<Q", 11: "<q", 12: "<d"}[kind])[0]

    def bytes_of(self, name):
        dims, kind, offset = self.tensors[name]
        return self.data[self.begin + offset:self.begin + offset + size_of(dims, kind)]
