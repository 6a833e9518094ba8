"""The table that bench/streaming prints."""

MIB = 1 << 20


def short(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}" if value < 100 else f"{value:.0f}"


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def table(entries):
    head = ["model", "memory MiB", "engine", "tok/s", "limit", "of limit", "read MB/token", "said", "disk GB/s", "resident tok/s", "held", "peak RSS",
            "refaults", "kills", "swap", "over peers"]
    rows = []
    for entry in entries:
        row = [entry["model"], str(entry["memory"] // MIB), entry["engine"]]
        if "ts" in entry:
            said = entry.get("said_bytes_read_per_token")
            row += [short(entry["ts"]), short(entry["limit_ts"]), percent(entry["fraction_of_limit"]), short(entry["read_per_token"] / 1e6, 1),
                    short(said / 1e6 if said is not None else None, 1)]
        else:
            row += ["-"] * 5
        row += [short(entry["disk_bytes_per_second"] / 1e9), short(entry["resident_ts"]), percent(entry.get("held_of_limit")),
                percent(entry.get("peak_rss_of_limit")), "-" if entry.get("refaults") is None else str(entry["refaults"]), str(entry["oom_kill"]),
                str(entry.get("swap", "-")), ", ".join(short(ratio) for ratio in entry.get("ratios", {}).values()) or "-"]
        rows.append(row)
    left = {0, 2}
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    def line(cells):
        return "| " + " | ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths))) + " |"
    rule = "| " + " | ".join("-" * width if i in left else "-" * (width - 1) + ":" for i, width in enumerate(widths)) + " |"
    return "\n".join([line(head), rule, *map(line, rows)])
