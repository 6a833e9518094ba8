"""A terminal screen in memory: bytes in, rows of text out. Knows what Colibri sends, and refuses anything else."""
import codecs
import re
import unicodedata


def columns_of(char):
    code = ord(char)
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or 0x1160 <= code <= 0x11FF:
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


class Row:
    def __init__(self):
        self.cells = []      # one text per column; "" behind a wide character
        self.wrapped = False  # the text goes on in the next row

    def text(self):
        return "".join(self.cells).rstrip()


class Screen:
    """Wraps late: a character in the last column leaves the cursor there until the next one comes."""

    def __init__(self, columns=80, rows=24):
        self.columns, self.height = columns, rows
        self.rows = [Row()]  # grows; the last `height` are what is seen
        self.top = 0         # index of the first row on the screen
        self.x = self.y = 0  # y counts in self.rows
        self.late = False
        self.paste_mode = False
        self.cleared = []    # what was to be seen, and the cursor, each time it was all cleared from the top
        self.decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self.rest = ""

    # What a test looks at ------------------------------------------------------------------------------------------

    def lines(self):
        """All rows with text in them, scrolled ones too; rows that the terminal wrapped are joined."""
        out, line = [], ""
        for row in self.rows:
            line += "".join(row.cells) if row.wrapped else row.text()
            if not row.wrapped:
                out.append(line)
                line = ""
        return out

    def visible(self):
        return [row.text() for row in self.rows[self.top:self.top + self.height]]

    def row(self):
        """Text of the row where the cursor is."""
        return self.rows[self.y].text()

    def cursor(self):
        return self.x, self.y - self.top

    # What a terminal does -------------------------------------------------------------------------------------------

    def feed(self, data):
        text = self.rest + self.decoder.decode(data)
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                sequence = re.compile(r"\x1b\[([?]?)([0-9;]*)([A-Za-z])").match(text, at)
                if sequence is None:
                    if re.compile(r"\x1b(\[[?]?[0-9;]*)?$").match(text, at):
                        self.rest = text[at:]
                        return
                    raise AssertionError(f"unknown escape sequence: {text[at:at + 12]!r}")
                self.control(*sequence.groups())
                at = sequence.end()
            else:
                self.put(text[at])
                at += 1

    def put(self, char):
        if char == "\r":
            self.x, self.late = 0, False
        elif char == "\n":
            self.down()
        elif char == "\b":
            self.x, self.late = max(0, self.x - 1), False
        elif char == "\t":
            self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)
        elif char == "\a":
            pass
        elif ord(char) < 0x20 or ord(char) == 0x7F:
            raise AssertionError(f"control character {char!r} on the screen")
        else:
            self.print(char)

    def print(self, char):
        width = columns_of(char)
        if width == 0:
            cells = self.rows[self.y].cells
            at = self.x if self.late else self.x - 1
            while at > 0 and (at >= len(cells) or cells[at] == ""):
                at -= 1
            if 0 <= at < len(cells):  # else there is nothing to combine with
                cells[at] += char
            return
        if self.late or self.x + width > self.columns:
            self.rows[self.y].wrapped = True
            self.x, self.late = 0, False
            self.down()
        cells = self.rows[self.y].cells
        while len(cells) < self.x + width:
            cells.append(" ")
        cells[self.x] = char
        if width == 2:
            cells[self.x + 1] = ""
        self.x += width
        if self.x == self.columns:
            self.x, self.late = self.columns - 1, True

    def down(self):
        self.late = False
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append(Row())
        self.top = max(self.top, self.y - self.height + 1)

    def control(self, private, parameters, final):
        numbers = [int(n) if n else 0 for n in parameters.split(";")]
        count = max(1, numbers[0])
        if private:
            assert final in "hl" and numbers[0] in (2004, 25), f"unknown mode {parameters}{final}"
            if numbers[0] == 2004:
                self.paste_mode = final == "h"
            return
        self.late = self.late and final == "m"
        if final == "A":
            self.y = max(self.top, self.y - count)
        elif final == "B":
            self.y = min(len(self.rows) - 1, self.y + count)
        elif final == "C":
            self.x = min(self.columns - 1, self.x + count)
        elif final == "D":
            self.x = max(0, self.x - count)
        elif final == "H":  # comes in front of clearing all
            self.cleared.append((self.visible(), self.cursor()))
            self.x, self.y = 0, self.top
        elif final == "K":
            assert numbers[0] == 0
            del self.rows[self.y].cells[self.x:]
            self.rows[self.y].wrapped = False
        elif final == "J" and numbers[0] == 0:
            del self.rows[self.y].cells[self.x:]
            self.rows[self.y].wrapped = False
            del self.rows[self.y + 1:]
        elif final == "J" and numbers[0] == 2:
            for row in self.rows[self.top:]:
                row.cells, row.wrapped = [], False
        elif final != "m":
            raise AssertionError(f"unknown control sequence {parameters}{final}")

    def resize(self, columns, rows):
        """As terminals do that wrap lines anew: the cursor stays at its character."""
        lines, cursor = [[]], None
        for index, row in enumerate(self.rows):
            if index == self.y:
                cursor = (len(lines) - 1, len(lines[-1]) + self.x + (1 if self.late else 0))
            lines[-1] += row.cells + ([" "] * (self.columns - len(row.cells)) if row.wrapped else [])
            if not row.wrapped:
                lines.append([])
        lines.pop()
        self.rows = []
        self.columns, self.height = columns, rows
        for index, cells in enumerate(lines):
            first = len(self.rows)
            for begin in range(0, max(1, len(cells)), columns):
                row = Row()
                row.cells = cells[begin:begin + columns]
                row.wrapped = begin + columns < len(cells)
                self.rows.append(row)
            if index == cursor[0]:
                self.y, self.x = first + cursor[1] // columns, cursor[1] % columns
                while self.y >= len(self.rows):
                    self.rows.append(Row())
        self.late = False
        self.top = max(0, len(self.rows) - rows)
