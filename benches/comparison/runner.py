"""One workload: its servers side by side, measured in turn."""

import contextlib
import os
import shutil

from . import machine
from .servers import KINDS, ServerFailed

WARM_UP_SECONDS = 0.2
REPEATS = 2


class Bench:
    """What all measurements share: the programs, the client, and how long and how often.

    Problems (failed requests, servers that did not start or end well) are gathered, told at once and fatal at the end.
    """

    def __init__(self, programs, client, directory, rounds, seconds):
        self.programs, self.client, self.directory = programs, client, directory
        self.rounds, self.seconds = rounds, seconds
        self.problems = []
        self.server_cpu, self.client_cpu = machine.cpus()

    def cpu_lists(self, shared):
        """(CPUs of the server, CPUs of the client) as taskset wants them."""
        if shared:
            both = ",".join(map(str, sorted({self.server_cpu, self.client_cpu})))
            return both, both
        return str(self.server_cpu), str(self.client_cpu)

    def server(self, kind, label, threads=1, shared=False, flags=(), logged=False):
        """A server to start, with a fresh directory named after `label`."""
        home = self.directory / label
        shutil.rmtree(home, ignore_errors=True)
        return KINDS[kind](kind, self.programs[kind], home, threads, self.cpu_lists(shared)[0], flags, logged)

    def point(self, server, workload, seconds=None, requests=None):
        """Measure once, from a quiet file system, and leave no new values behind.

        A point that other work of the machine disturbed is taken again, twice at most.
        """
        bounds = {"requests": requests} if requests else {}
        cpu_list = self.cpu_lists(workload.shared)[1]
        for _ in range(1 + REPEATS):
            if workload.writes:
                os.sync()
            point = self._run(server, workload, seconds or self.seconds, cpu_list, bounds)
            if workload.shared or not point.disturbed:
                break
        if not point.valid:
            self.problem(f"{workload.name}, {server.name}: {point.failures} of {point.requests} requests failed")
        return point

    def _run(self, server, workload, seconds, cpu_list, bounds):
        """Load a server; with new values in slices, whose values are removed after each.

        The first of them is not counted: it gets its memory from whoever had it before, the others from it.
        """
        if workload.new and not bounds:
            bounds = {"requests": workload.slice}
            server.asked += self.client.run(server, workload, seconds, cpu_list, **bounds).requests
            remove_new(server.values)
        point = None
        while point is None or (workload.new and point.valid and point.seconds < seconds):
            left = seconds - point.seconds if point else seconds
            found = self.client.run(server, workload, left, cpu_list, **bounds)
            server.asked += found.requests
            point = point + found if point else found
            remove_new(server.values)
        return point

    def problem(self, text):
        """Tell of something that makes the run fail."""
        self.problems.append(text)
        print(f"  INVALID: {text}", flush=True)


def measure(bench, workload):
    """The points of each server, round by round (A B C A B C ...), and which way the bodies of ours took, if it tells."""
    points, bodies = {kind: [] for kind in workload.servers}, None
    with contextlib.ExitStack() as running:
        servers = [running.enter_context(_prepared(bench, workload, kind)) for kind in workload.servers]
        ours = next((server for server in servers if server.name == "data-server"), None)
        before = ours and ours.bodies()
        for server in servers:
            bench.point(server, workload, seconds=WARM_UP_SECONDS)
        for _ in range(bench.rounds):
            for server in servers:
                points[server.name].append(bench.point(server, workload))
        if before:
            # The request that read `before` has been counted since.
            bodies = ours.bodies().since(before, own=1)
        for server in servers:
            _stop(bench, server)
            if workload.logged:
                _check_log(bench, server, workload)
    shutil.rmtree(bench.directory / workload.name, ignore_errors=True)
    return points, bodies


@contextlib.contextmanager
def _prepared(bench, workload, kind):
    """A started server that has its values and was seen to answer right; its directory goes with it."""
    flags = ["--discard"] if workload.discard else []
    server = bench.server(kind, kind, workload.threads, workload.shared, flags, workload.logged)
    try:
        with server:
            if not workload.new and not workload.discard and kind != "constant":
                fill(bench, server, workload)
            check(server, workload)
            yield server
    finally:
        shutil.rmtree(server.home, ignore_errors=True)


def _stop(bench, server):
    try:
        server.stop()
    except ServerFailed as error:
        bench.problem(str(error))


def _check_log(bench, server, workload):
    """A server that leaves lines out of its log is not compared with one that writes them all."""
    lines = server.logged_requests(workload.method)
    if lines < server.asked:
        bench.problem(f"{workload.name}, {server.name}: {lines} lines in the log for {server.asked} requests")


def fill(bench, server, workload):
    """Put the values there by hand.

    For GET all servers get links to the same files: how well a file lies in the page cache moves the figures of
    large ones by a third.
    """
    content = os.urandom(workload.size)
    common = bench.directory / workload.name
    common.mkdir(exist_ok=True)
    for number in range(workload.keys):
        name = f"{workload.prefix}{number}"
        value = (common if workload.method == "GET" else server.data) / name
        if not value.exists():
            value.write_bytes(content)
        if workload.method == "GET":
            os.link(value, server.data / name)


def remove_new(data):
    """Remove what PUTs of new names left."""
    for entry in os.scandir(data):
        if entry.name.startswith("new-"):
            os.unlink(entry.path)


def check(server, workload):
    """Ask for one value, or store one and ask for it: a server that answers fast but wrong has no figures."""
    if workload.method == "GET":
        name = f"{workload.prefix}0"
        path = server.values / name
        want = path.read_bytes() if path.exists() else None
    else:
        name, want = "new-check", os.urandom(workload.size)
        status, _ = request(server, "PUT", name, want)
        _insist(server, status in (200, 201, 204), f"PUT /{name}: {status}")
    if workload.discard:
        return
    status, got = request(server, "GET", name)
    _insist(server, status == 200, f"GET /{name}: {status}")
    _insist(server, want in (None, got), f"GET /{name}: not the bytes stored")
    _insist(server, workload.size == len(got), f"GET /{name}: {len(got)} bytes instead of {workload.size}")
    remove_new(server.values)


def _insist(server, holds, otherwise):
    if not holds:
        raise ServerFailed(f"{server.name}: {otherwise}")


def request(server, method, name, body=None):
    """Ask for a name once; returns the status and the body."""
    connection = server.connection()
    try:
        connection.request(method, server.target(method, name), body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
