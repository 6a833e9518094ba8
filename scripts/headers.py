"""What the scripts know of the headers below include/colibri: layers, includes, which ones are public."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)

# An include may only point to the same rank or down.
RANKS = {"core": 0, "io": 1, "gguf": 2, "quant": 3, "tensor": 3, "simd": 4, "weights": 5, "kv": 5, "text": 5,
         "model": 6, "sampling": 7, "session": 8, "chat": 9, "eval": 9, "convert": 9, "quantize": 9, "serve": 10}
UMBRELLA = "colibri/colibri.hpp"


def layer_of(name):
    """"colibri/gguf/reader.hpp" -> "gguf"; headers directly below colibri/ belong to none."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else None


def all_headers(include):
    """Names ("colibri/core/error.hpp") of all headers, by rank, layer, name."""
    names = [path.relative_to(include).as_posix() for path in sorted((include / "colibri").rglob("*.hpp"))]
    return sorted(names, key=lambda name: (RANKS.get(layer_of(name) or "core", 99), layer_of(name) or "", name))


def includes(text):
    """Names that a header includes, both kinds, in order."""
    return [quoted or angled for quoted, angled in INCLUDE.findall(text)]


def needs_json(include, name, seen=None):
    """Whether a header includes nlohmann-json, directly or through others; such headers stay outside the umbrella."""
    seen = set() if seen is None else seen
    if name in seen or not (include / name).is_file():
        return False
    seen.add(name)
    found = includes((include / name).read_text(encoding="utf-8"))
    return any(i.startswith("nlohmann/") or (i.startswith("colibri/") and needs_json(include, i, seen)) for i in found)


def umbrella_headers(include):
    """The headers that colibri.hpp holds: all public ones that don't need JSON, in layer order. *-inl.hpp are parts of others."""
    return [name for name in all_headers(include)
            if name != UMBRELLA and not name.endswith("-inl.hpp") and not needs_json(include, name)]
