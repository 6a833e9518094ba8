# What the scripts share; sourced, not run. Everything that isn't an answer goes to stderr.

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# need_packages NAME...: installs the Debian packages that are missing. Elsewhere it only says what the build needs.
need_packages() {
    local missing=() name
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        say "This system has no apt-get; the build needs what these Debian packages hold: $*"
        return 0
    fi
    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "these packages are missing, and installing them needs root: ${missing[*]}"
        as_root=(sudo)
    fi
    say "Installing packages: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update -q &&
           "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install: ${missing[*]}"
    fi
    rm -f "$log"
}

# python_with_pip: prints a python3 that can run pip; installs Debian's if there is none.
python_with_pip() {
    local python
    for python in python3 /usr/bin/python3; do
        if command -v "$python" >/dev/null && "$python" -m pip --version >/dev/null 2>&1; then
            printf '%s\n' "$python"
            return 0
        fi
    done
    need_packages python3 python3-pip
    /usr/bin/python3 -m pip --version >/dev/null 2>&1 || fail "no python3 here has pip, and it could not be installed"
    printf '%s\n' /usr/bin/python3
}

# models_dir: where the models are kept.
models_dir() { printf '%s\n' "${COLIBRI_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/colibri}"; }
