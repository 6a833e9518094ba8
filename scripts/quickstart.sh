#!/usr/bin/env bash
# quickstart.sh [PROMPT...]: installs what the build needs, builds, gets a small model and answers the prompt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib.sh

need_packages g++ cmake make libhwy-dev librange-v3-dev libeigen3-dev libcli11-dev nlohmann-json3-dev python3
model=$(scripts/models.sh smollm2)

say "Building: a few minutes the first time (build/quickstart.log tells how far it is)"
mkdir -p build
if ! { cmake --preset default && cmake --build --preset default --parallel "$(nproc)"; } >build/quickstart.log 2>&1; then
    tail -n 30 build/quickstart.log >&2
    fail "the build failed; build/quickstart.log has all of it"
fi

prompt=${*:-Why is the sky blue?}
say "build/bin/colibri run -m $model -p \"$prompt\""
exec build/bin/colibri run -m "$model" -p "$prompt"
