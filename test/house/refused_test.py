"""Programs that must not compile, each with the words that the compiler must say.

test/house/refused/*.cpp: the first line is "// refused: WORDS"; the file compiles once its line marked "// fault" is gone."""
import re

from compiling import SOURCE, arguments, compile_text

options = arguments()
flags = ("-fsyntax-only", "-Wall", "-Werror")
files = sorted((SOURCE / "test" / "house" / "refused").glob("*.cpp"))
assert files
for path in files:
    text = path.read_text(encoding="utf-8")
    words = re.match(r"// refused: (.+)\n", text)[1]
    sound, faults = re.subn(r"^.*// fault\n", "\n", text, flags=re.MULTILINE)
    assert faults == 1, f"{path}: mark one line as the fault"
    done = compile_text(options, sound, *flags)
    assert done.returncode == 0, f"{path}: doesn't compile without the fault\n{done.stderr}"
    done = compile_text(options, text, *flags)
    assert done.returncode != 0, f"{path}: compiles, but must not"
    assert words in done.stderr, f"{path}: the compiler doesn't say {words!r}\n{done.stderr}"
print(f"{len(files)} programs refused")
