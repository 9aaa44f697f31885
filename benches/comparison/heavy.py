"""Light requests beside heavy ones: the loads of benches/aside, what they find, and how it is told."""

import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from .client import LoadFailed
from .servers import Bodies, DataServer, ServerFailed

FORTY_MB, KIB = 40_000_000, 1024
VALUES = 16
MODES = {"compute threads": []}
LOADS = {"compute threads": ("quiet", "cpu", "disk")}
SAMPLE_SECONDS = 0.05
WARM_UP = 0.3
PATIENCE = 5  # seconds that light requests under way at the end have

KEPT = ("--get", "--size", KIB, "--prefix", "small-", "--connections", 16, "--rate", 1000)
FRESH = ("--get", "--size", KIB, "--prefix", "small-", "--connections", 1000, "--rate", 100, "--fresh")
CLOSING = ("--get", "--size", KIB, "--prefix", "small-", "--connections", 4000, "--rate", 200, "--fresh")
LARGE = ("--prefix", "large-", "--keys", VALUES, "--fresh")
DIGESTS = ("--head", "--header", "Want-Repr-Digest: sha-256=1")
GZIP = ("--get", "--header", "Accept-Encoding: gzip")


@dataclass
class Bench:
    """What every measurement needs, and what went wrong."""

    program: Path
    load: Path
    directory: Path
    rounds: int
    seconds: float
    size: int
    problems: list = field(default_factory=list)

    def __post_init__(self):
        self.values = self.directory / "values"
        self.cpus = sorted(os.sched_getaffinity(0))
        # The reactor's, with the light clients; and all others, with the heavy ones. The light clients go first, where
        # that is allowed: what they measure is the server, and not how long they wait for a CPU themselves.
        first = ["nice", "-n", "-15"] if os.geteuid() == 0 else []
        self.light = [*first, "taskset", "--cpu-list", _list(self.cpus[:1])]
        self.heavy = ["taskset", "--cpu-list", _list(self.cpus[1:] or self.cpus)]
        self.large = (*LARGE, "--size", self.size)
        make_values(self.values, self.size)

    @contextlib.contextmanager
    def server(self, label, *flags):
        """A server over the values, with one reactor."""
        home = self.directory / label.replace(" ", "-")
        home.mkdir(exist_ok=True)
        flags = ["--read-only", "--compress", "--pin", "--admin", "127.0.0.1:0", *flags]
        server = DataServer("data-server", self.program, home, 1, _list(self.cpus), flags)
        server.data = self.values
        with server:
            yield server

    def start(self, server, kind, seconds, *flags):
        """Start a client, light or heavy."""
        command = [*kind, self.load, "--port", server.port, "--seconds", seconds, "--patience", PATIENCE, *flags]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process, what):
        """Wait for a client, and note which of its requests failed; returns what it found. To have no answer yet is no failure."""
        out, complaint = process.communicate(timeout=self.seconds + 60)
        if process.returncode:
            raise LoadFailed(f"{what}: {complaint.decode()}")
        found = json.loads(out)
        if found["non_2xx"] or found["errors"]:
            self.problems.append(f"{what}: {found}")
        return found


def _list(cpus):
    return ",".join(map(str, cpus))


def make_values(directory, size):
    """1 KiB of noise, and values of this size of text."""
    directory.mkdir()
    (directory / "small-0").write_bytes(os.urandom(KIB))
    dice = random.Random(40)
    line = "{} {} after {:.4f} s\n"
    lines = [line.format(dice.getrandbits(20), dice.choice(("done", "failed", "late")), dice.random()) for _ in range(50_000)]
    block = "".join(lines).encode()
    text = block * (size // len(block) + 2)
    for number in range(VALUES):
        path = directory / f"large-{number}"
        with path.open("wb") as file:
            file.write(text[number : number + size])
            os.fsync(file.fileno())  # what is not on the disk, the kernel cannot forget
        os.setxattr(path, "user.mime_type", b"text/plain")


def rounds(bench):
    """{mode: {load: [point]}}, the modes and loads in turn."""
    points = {mode: {load: [] for load in LOADS[mode]} for mode in MODES}
    for _ in range(bench.rounds):
        for mode, flags in MODES.items():
            for load in LOADS[mode]:
                with bench.server(mode, *flags) as server:
                    points[mode][load].append(_point(bench, server, mode, load))
    return points


def _point(bench, server, mode, load):
    heavy = [bench.start(server, bench.heavy, bench.seconds + 2 * WARM_UP, *flags) for flags in _heavy(bench, load)]
    time.sleep(WARM_UP)
    read, before = _bytes_read(server), Counts.of(server)
    light = (("kept", KEPT), ("fresh", FRESH))
    light = {name: bench.start(server, bench.light, bench.seconds, *flags) for name, flags in light}
    what = f"{mode}, {load}"
    found = {name: bench.end(process, f"{what}: {name}") for name, process in light.items()}
    read, after = _bytes_read(server) - read, Counts.of(server)
    found["accepted"] = after.accepted - before.accepted
    found["disk_bytes"] = read
    # The listener that tells does not count itself.
    found["bodies"] = asdict(after.bodies.since(before.bodies)) if after.bodies else None
    found["heavy_requests"] = sum(bench.end(process, f"{what}: the load")["requests"] for process in heavy)
    return found


def _heavy(bench, load):
    each = ("--connections", 4 * len(bench.cpus))
    cold = ("--get", "--connections", 4, "--cold", bench.values)
    loads = {"quiet": [], "cpu": [(*DIGESTS, *each), (*GZIP, *each)], "disk": [cold]}[load]
    return [(*bench.large, *flags, "--patience", 0) for flags in loads]


def _bytes_read(server):
    """What the server has had read from the disk."""
    return int(re.search(r"^read_bytes: (\d+)", Path(f"/proc/{server.process.pid}/io").read_text(), re.MULTILINE).group(1))


@dataclass
class Counts:
    """What the server says at /-/metrics."""

    accepted: int
    finished: int
    bodies: Bodies | None

    @classmethod
    def of(cls, server):
        """Now."""
        found = server.await_log(r"admin listening on http://127\.0\.0\.1:(\d+)")
        if not found:
            raise ServerFailed(f"no listener of its own for /-/: {server.log_tail()}")
        asking = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=30)
        asking.request("GET", "/-/metrics")
        text = asking.getresponse().read().decode()
        asking.close()

        def count(name):
            values = re.findall(rf"^data_server_connections_{name}_total{{.*}} (\d+)", text, re.MULTILINE)
            return sum(map(int, values))

        return cls(count("accepted"), count("finished"), Bodies.read(text))


def puzzle(bench, seconds):
    """{mode: [[second, offered, accepted, finished]]}: the connections of light and heavy requests, one each."""
    return {mode: _curve(bench, mode, flags, seconds) for mode, flags in MODES.items()}


def _curve(bench, mode, flags, seconds):
    heavy = (*bench.large, *DIGESTS, "--connections", 4000, "--rate", 100)
    samples = []
    with bench.server(mode, "--dispatch", "reuse-port", *flags) as server:
        began, loads = time.monotonic(), ((bench.light, CLOSING), (bench.heavy, heavy))
        loads = [bench.start(server, kind, seconds, *load) for kind, load in loads]
        while (now := time.monotonic() - began) < seconds:
            counts = Counts.of(server)
            samples.append([round(now, 3), round(now * 300), counts.accepted, counts.finished])
            time.sleep(SAMPLE_SECONDS)
        for load in loads:  # what is still waiting says nothing more
            load.terminate()
            load.communicate()
    if samples[-1][2] == 0:
        bench.problems.append(f"the puzzle, {mode}: nothing was accepted")
    return samples


def summarize(points):
    """{mode: {load: figures}}: the best of the rounds, the medians beside it, and ratios to the quiet ones."""
    return {mode: {load: _figures(loads[load], loads["quiet"]) for load in loads} for mode, loads in points.items()}


def _figures(points, quiet):
    def p99(runs, name, of):
        return of(map(_p99, (run[name] for run in runs)))

    figures = {
        "heavy_requests": median(point["heavy_requests"] for point in points),
        "accepted": median(point["accepted"] for point in points),
        "disk_mb": round(median(point["disk_bytes"] for point in points) / 1e6),
        "way": _way(points),
    }
    for name in ("kept", "fresh"):
        best = p99(points, name, min)
        figures[name] = {
            "p50_us": min(point[name]["p50_us"] for point in points),
            "p99_us": best,
            "p99_median_us": p99(points, name, median),
            "unanswered": max(point[name]["unanswered"] for point in points),
            "times_quiet": round(best / p99(quiet, name, min), 2),
            "times_quiet_median": round(p99(points, name, median) / p99(quiet, name, median), 2),
        }
    return figures


def _way(points):
    """How the bodies of all requests moved, light and heavy ones, in words; None from a server that does not count it."""
    bodies = [Bodies(**point["bodies"]) for point in points if point["bodies"]]
    return Bodies(sum(of.requests for of in bodies), sum(of.taken_over for of in bodies)).way() if bodies else None


def _p99(found):
    """Of the requests that were due. Where more than one of a hundred had no answer at the end, it is at least that long."""
    few = found["unanswered"] <= found["requests"] / 99
    return found["p99_us"] if few else PATIENCE * 1e6


def table(summary):
    """The figures as Markdown."""
    lines = [
        "| heavy work | beside | GET 1 KiB, kept: p50, p99 (median) | times quiet | a connection each: p99 (median) | times quiet | bodies by |",
        "|---|---|---|---|---|---|---|",
    ]
    for mode, loads in summary.items():
        for load, figures in loads.items():
            kept, fresh = figures["kept"], figures["fresh"]
            lines.append(
                f"| {mode} | {load} | {_time(kept['p50_us'])}, {_time(kept['p99_us'])} ({_time(kept['p99_median_us'])}) "
                f"| {kept['times_quiet']} ({kept['times_quiet_median']}) "
                f"| {_time(fresh['p99_us'])} ({_time(fresh['p99_median_us'])}) "
                f"| {fresh['times_quiet']} ({fresh['times_quiet_median']}) | {figures['way'] or '-'} |"
            )
    return "\n".join(lines)


def _time(us):
    return f"{us / 1e3:,.1f} ms" if us >= 1000 else f"{us:.0f} us"


def puzzle_table(found):
    """What became of the connections of the puzzle."""
    ends = {mode: samples[-1] for mode, samples in found.items()}
    return "\n".join(
        f"{mode}: after {second:.1f} s, of {offered} connections {accepted} were accepted and {finished} finished"
        for mode, (second, offered, accepted, finished) in ends.items()
    )
