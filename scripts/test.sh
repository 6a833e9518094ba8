#!/usr/bin/env bash
# test.sh [STAGE...]: installs what the tests need, gets the test models, builds and runs everything.
# Stages, each in build-STAGE; without arguments all but single-all:
#   dev         all tests
#   sanitize    all tests with address and undefined behaviour sanitizers
#   single      tests of the whole stack against the single header; single-all: the whole suite (every file parses all of it)
#   clang       program, main tests, single header and fuzzers with clang 14
#   aarch64     kernels and tiny models, emulated
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

jobs=$(nproc)

# stage NAME PRESET "CMAKE OPTIONS" "TARGETS" CTEST_OPTION...: configures, builds, runs. Sanitizers and emulation are slow:
# they take the short cases of real models.
stage() {
    local name=$1 preset=$2 options=$3 targets=$4 folder=build-$1 status=0
    shift 4
    say "== $name: build"
    mkdir -p "$folder"
    # shellcheck disable=SC2086  # options and targets are lists of words
    if ! { cmake --preset "$preset" -B "$folder" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache $options &&
           cmake --build "$folder" --parallel "$jobs" ${targets:+--target $targets}; } >"$folder/build.log" 2>&1; then
        grep -E -A 5 'error|FAILED' "$folder/build.log" | head -n 60 >&2
        fail "the build in $folder failed; $folder/build.log has all of it"
    fi
    say "== $name: tests"
    ctest --test-dir "$folder" --parallel "$jobs" --output-on-failure --no-tests=error "$@" || status=$?
    # What each golden test ran, and what this machine could not run.
    grep -hE '^(golden: |not run: )' "$folder/Testing/Temporary/LastTest.log" | sort -u || true
    [ $status -eq 0 ] || fail "tests in $folder failed"
}

run_stage() {
    case $1 in
        dev) stage dev dev "" "" ;;
        sanitize) COLIBRI_SHORT=1 stage sanitize sanitize "" "" ;;
        single) COLIBRI_SHORT=1 stage single single "" "test_kv test_session test_golden_models" -R '^(kv|session|golden_models)$' ;;
        single-all) COLIBRI_SHORT=1 stage single single "" "" ;;
        clang) COLIBRI_SHORT=1 stage clang dev "-DCMAKE_CXX_COMPILER=clang++-14 -DCOLIBRI_BUILD_BENCH=OFF" \
            "colibri-program colibri_fuzzers test_core test_io test_quant test_simd test_text test_weights test_session test_golden_models" \
            -R '^(core|io|quant|simd|text|weights|session|golden_models|house_consume_single|.*_fuzz)$' ;;
        aarch64) COLIBRI_SHORT=1 stage aarch64 dev "-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DCOLIBRI_BUILD_APPS=OFF -DCOLIBRI_BUILD_BENCH=OFF" \
            "test_core test_quant test_simd test_golden_models" -R '^(core|quant|simd|golden_models)$' ;;
        *) fail "no stage is called $1; there are dev, sanitize, single, single-all, clang, aarch64" ;;
    esac
}

need_packages g++ clang-14 libclang-rt-14-dev g++-aarch64-linux-gnu cmake ninja-build make ccache git python3 qemu-user \
    libhwy-dev librange-v3-dev libeigen3-dev libcli11-dev nlohmann-json3-dev doctest-dev libbenchmark-dev
scripts/models.sh smollm2 gemma3 >/dev/null

if [ $# -eq 0 ]; then
    set -- aarch64 clang single sanitize dev
fi
for name in "$@"; do
    SECONDS=0
    run_stage "$name"
    say "== $name: $SECONDS s"
done
