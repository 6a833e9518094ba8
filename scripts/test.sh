#!/usr/bin/env bash
# test.sh [STAGE...]: installs what the tests need, gets the test models, builds and runs everything.
# Stages, all by default: dev sanitize single clang. Their builds stay in build-STAGE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(dev sanitize single clang)
jobs=$(nproc)

need_packages g++ clang-14 cmake ninja-build make ccache libhwy-dev librange-v3-dev libeigen3-dev libcli11-dev \
    nlohmann-json3-dev doctest-dev qemu-user python3 git
scripts/models.sh smollm2 gemma3 >/dev/null

# build_and_run PRESET FOLDER CONFIGURE_OPTION... -- CTEST_OPTION...
build_and_run() {
    local preset=$1 folder=$2 configure=()
    shift 2
    while [ "$1" != -- ]; do
        configure+=("$1")
        shift
    done
    shift
    say "== $folder: build"
    mkdir -p "$folder"
    cmake --preset "$preset" -B "$folder" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "${configure[@]}" >"$folder/build.log" 2>&1 &&
        cmake --build "$folder" --parallel "$jobs" >>"$folder/build.log" 2>&1 ||
        { tail -n 60 "$folder/build.log" >&2; fail "the build in $folder failed; $folder/build.log has all of it"; }
    say "== $folder: tests"
    local status=0
    ctest --test-dir "$folder" --parallel "$jobs" --output-on-failure --no-tests=error "$@" || status=$?
    # What each golden test ran, and which targets this machine can't run.
    grep -hE '^(golden: |not run: )' "$folder/Testing/Temporary/LastTest.log" | sort -u || true
    [ $status -eq 0 ] || fail "tests in $folder failed"
}

for stage in "${stages[@]}"; do
    case $stage in
        dev) build_and_run dev build-dev -- ;;
        sanitize) COLIBRI_SHORT=1 build_and_run sanitize build-sanitize -- ;;
        single) build_and_run single build-single -- ;;
        clang) build_and_run dev build-clang -DCMAKE_CXX_COMPILER=clang++-14 -DCOLIBRI_BUILD_BENCH=OFF -- ;;
        *) fail "no stage is called $stage; there are dev, sanitize, single, clang" ;;
    esac
done
