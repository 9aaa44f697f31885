"""What only data-server is asked: how each --dispatch spreads connections, and how reactors add up."""

import contextlib
import shutil
import subprocess
from dataclasses import replace
from statistics import median

from . import durable
from .runner import fill
from .workloads import FORTY_MB, KIB, Workload

REACTORS = 8
LONG_LIVED = Workload("dispatch-long-lived", "", "GET", KIB, 32, 64, shared=True)
SHORT = replace(LONG_LIVED, name="dispatch-short", fresh=True)
DISCARDED = Workload("dispatch-put-40MB", "", "PUT", FORTY_MB, 32, 4, shared=True, discard=True)
LOCAL = Workload("scaling-get", "", "GET", KIB, 32, 1, shared=True)

MODES = {
    "one reactor": (1, []),
    "reuse-port": (REACTORS, ["--dispatch", "reuse-port"]),
    "round-robin": (REACTORS, ["--dispatch", "round-robin"]),
}


def has_flag(program, flag):
    """Whether the program knows an option."""
    return flag in subprocess.run([str(program), "--help"], capture_output=True, text=True, check=True).stdout


def dispatch(bench, short_connections):
    """{mode: {load: [{rate, connections, requests}]}}, the last two by reactor; the modes in turn."""
    found = {mode: {"long-lived": [], "short": [], "put-40MB": []} for mode in MODES}
    bounds = {"requests": short_connections, "seconds": 60}
    for _ in range(bench.rounds):
        for mode in MODES:
            found[mode]["long-lived"].append(_spread(bench, mode, LONG_LIVED))
            found[mode]["short"].append(_spread(bench, mode, SHORT, **bounds))
            found[mode]["put-40MB"].append(_spread(bench, mode, DISCARDED))
    return found


def _spread(bench, mode, workload, **bounds):
    """One load on a server of its own, whose reactors tell at the end what each had."""
    threads, flags = MODES[mode]
    flags = [*flags, "--discard"] if workload.discard else flags
    with _server(bench, "dispatch", threads, flags, shared=True) as server:
        if workload.method == "GET":
            fill(bench, server, workload)
        point = bench.point(server, workload, **bounds)
        server.stop()
        shares = server.spread()
    if len(shares) != threads or sum(requests for _, requests in shares) < point.requests:
        bench.problem(f"{workload.name}, {mode}: the reactors' own counts do not add up: {shares}")
    return {
        "rate": round(point.rate, 2),
        "connections": [connections for connections, _ in shares],
        "requests": [requests for _, requests in shares],
    }


def durability(bench, is_smoke):
    """As `durable.measure`."""
    return durable.measure(bench, _server, is_smoke)


def scaling(bench):
    """{reactors: [us of CPU per request]} of GET 1 KiB, each reactor and its client on a CPU of theirs; in turn.

    The client takes the same part of a CPU each time, so that what is left is what the reactors cost each other.
    """
    found = {1: [], 2: []}
    cpus = sorted({bench.server_cpu, bench.client_cpu})
    for _ in range(bench.rounds):
        for reactors, points in found.items():
            workload = replace(LOCAL, connections=LOCAL.connections * reactors)
            with _server(bench, "scaling", reactors, ["--pin"], shared=reactors > 1) as server:
                fill(bench, server, workload)
                own = cpus if reactors > 1 else [bench.server_cpu]
                cpu_us, asked = bench.client.run_local(server, workload, bench.seconds, own)
                points.append(round(cpu_us, 3))
                server.stop()
                if sorted(asked) != sorted(requests for _, requests in server.spread()):
                    bench.problem(f"scaling: a client of {asked} asked another reactor too: {server.spread()}")
    return found


@contextlib.contextmanager
def _server(bench, label, threads, flags, shared=False):
    server = bench.server("data-server", label, threads, shared, flags)
    try:
        with server:
            yield server
    finally:
        shutil.rmtree(server.home, ignore_errors=True)


def busiest(runs, what):
    """How much the busiest reactor had, in times of an even share; the median of the runs. 1.0 is perfectly even."""
    return median(max(run[what]) * len(run[what]) / max(1, sum(run[what])) for run in runs)
