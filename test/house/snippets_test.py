"""Every C++ block in README.md, CONTRIBUTING.md and docs/ is a whole file that compiles."""
import re

from compiling import SOURCE, arguments, compile_text

options = arguments()
pages = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").rglob("*.md"))]
count = 0
for page in pages:
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```cpp\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start()) + 1
        done = compile_text(options, block[1], "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DCOLIBRI_EXTERN_KERNELS")
        assert done.returncode == 0, f"{page}:{line}: the snippet doesn't compile\n{done.stderr}"
        count += 1
assert count > 0, "no snippet found"
print(f"{count} snippets compiled")
