"""The umbrella reaches every public header and every part of one, and holds nothing that needs JSON."""
import re
import sys

from compiling import SOURCE, arguments, compile_text

sys.path.insert(0, str(SOURCE / "scripts"))
from headers import all_headers, needs_json  # noqa: E402

options = arguments()
include = SOURCE / "include"
done = compile_text(options, '#include "colibri/colibri.hpp"\n', "-M")
assert done.returncode == 0, done.stderr
reached = {match.replace("\\ ", " ") for match in re.findall(re.escape(str(include)) + r"/(\S+\.hpp)", done.stdout)}
expected = {name for name in all_headers(include) if not needs_json(include, name)}
assert len(expected) > 20, expected
missing, extra = sorted(expected - reached), sorted(reached - expected)
assert not missing, f"the umbrella doesn't reach {missing}; run scripts/amalgamate.py"
assert not extra, f"the umbrella reaches headers that need JSON: {extra}"
assert not re.search(r"/nlohmann/|/CLI/|/doctest/", done.stdout), "the umbrella depends on more than it may"
print(f"{len(reached)} headers reached")
