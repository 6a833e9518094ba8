"""How fast a disk gives a file, as others measure it: what streaming is compared with."""
import concurrent.futures
import json
import mmap
import os
import subprocess
import tempfile
import threading
import time

MIB = 1 << 20


def fio_bandwidth(path, seconds):
    """The best of large direct reads at several depths; the jobs run one after the other."""
    job = ["[global]", f"filename={path.replace(':', chr(92) + ':')}", "direct=1", "rw=read", "time_based",
           f"runtime={max(1, round(1000 * seconds))}ms"]
    for engine in ("io_uring", "libaio"):
        for size, depth in (("1m", 16), ("4m", 8), ("16m", 4)):
            job += [f"[{engine}-{size}-{depth}]", "stonewall", f"ioengine={engine}", f"bs={size}", f"iodepth={depth}"]
    with tempfile.NamedTemporaryFile("w", suffix=".fio", encoding="utf-8") as file:
        file.write("\n".join(job) + "\n")
        file.flush()
        # An engine that the kernel lacks fails alone: what the others reached is printed all the same.
        done = subprocess.run(["fio", "--readonly", "--output-format=json", file.name], stdin=subprocess.DEVNULL, capture_output=True,
                              check=False, cwd=tempfile.gettempdir())
    text = done.stdout.decode(errors="replace")
    try:
        jobs = json.loads(text[text.index("{"):])["jobs"]
    except (ValueError, KeyError):
        return 0.0, ""
    return max(((one["read"]["bw_bytes"], f"fio {one['jobname']}") for one in jobs if not one["error"]), default=(0.0, ""))


def own_bandwidth(path, seconds):
    """The same without fio: threads that read 4 MiB each with O_DIRECT."""
    size, chunk, best = os.path.getsize(path), 4 * MIB, (0.0, "")
    for workers in (1, 4, 8):
        end, lock, place = time.monotonic() + seconds, threading.Lock(), [0]

        def work():
            handle, buffer, done = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, chunk), 0
            try:
                while time.monotonic() < end:
                    with lock:
                        offset, place[0] = place[0], (place[0] + chunk) % max(chunk, size - size % chunk)
                    done += os.preadv(handle, [buffer], offset)
            finally:
                os.close(handle)
            return done

        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            total = sum(future.result() for future in [pool.submit(work) for _ in range(workers)])
        best = max(best, (total / (time.monotonic() - start), f"{workers} threads"))
    return best
