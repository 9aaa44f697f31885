"""The door of S3: data-server --listen s3+http://, beside servers whose one door is S3, all asked by presigned requests."""

import contextlib
import os
import re
import shutil
import time
import urllib.parse
from dataclasses import dataclass
from statistics import quantiles

from . import machine
from .client import Point
from .runner import WARM_UP_SECONDS
from .servers import DataServer, Server, ServerFailed
from .store import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, Gateway, presigned
from .workloads import KIB, MIB, Workload

PEERS = ("versitygw", "minio")
LISTED, PAGE = 100_000, 1000
RULES = f"""
[[subject]]
name = "bench"
s3-key = "{ACCESS_KEY}"
s3-secret = "{SECRET_KEY}"

[[rule]]
who = ["bench"]
may = ["read", "list", "write", "delete"]
"""


@dataclass(frozen=True)
class Listing(Workload):
    """All names of a bucket, page by page."""

    def shortened(self):
        return Listing(**{**self.__dict__, "keys": 3 * PAGE})


def workloads():
    """All of them: values, then a list."""
    beside = {"beside": ("data-server", *PEERS)}
    rows = []
    for label, size, connections, keys in (("1KiB", KIB, 32, 64), ("1MiB", MIB, 16, 16), ("64MiB", 64 * MIB, 4, 4)):
        title, smoke = label.replace("KiB", " KiB").replace("MiB", " MiB"), size == KIB
        rows += [
            Workload(f"door-get-{label}", f"GET {title}", "GET", size, connections, keys, smoke=smoke, **beside),
            Workload(f"door-put-{label}", f"PUT {title}, replaced", "PUT", size, connections, keys, smoke=smoke, **beside),
        ]
    return [*rows, Listing("door-list", f"list of {LISTED:,}, a page of {PAGE:,}", "GET", 1, 1, LISTED, smoke=True, **beside)]


class Signed(Server):
    """What the load asks of each: a presigned target for each name."""

    def targets(self, workload):
        """A file with the request target of each name."""
        path = self.home / f"{workload.name}-{workload.method}.targets"
        if not path.exists():
            names = (f"{workload.prefix}{number}" for number in range(workload.keys))
            path.write_text("".join(f"{presigned(workload.method, self.port, name)}\n" for name in names))
        return path

    def target(self, method, name):
        return presigned(method, self.port, name)


class Door(Signed, DataServer):
    """data-server, with its defaults, rules of access and a key."""

    def command(self):
        self.port = machine.free_port()
        rules = self.home / "rules.toml"
        rules.touch(mode=0o600)
        rules.write_text(RULES)
        return [*super().command(), "--listen", f"s3+http://127.0.0.1:{self.port}", "--access", str(rules)]

    def await_start(self):
        self.await_port()


class VersityGw(Gateway):
    """VersityGW over files, without a bucket yet."""

    targets = Signed.targets

    def await_start(self):
        self.await_port()


class Minio(Signed):
    """MinIO on one drive."""

    def command(self):
        self.port = machine.free_port()
        return [
            "env", f"MINIO_ROOT_USER={ACCESS_KEY}", f"MINIO_ROOT_PASSWORD={SECRET_KEY}", "MINIO_BROWSER=off", "MINIO_UPDATE=off",
            self.program, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", str(self.data),
        ]  # fmt: skip

    def await_start(self):
        self.await_port()


KINDS = {"data-server": Door, "versitygw": VersityGw, "minio": Minio}


def find_peers(target):
    """The programs of those that are there: built for the tests, or on PATH."""
    built = {name: target / "tools" / name for name in PEERS}
    found = {name: path if path.exists() else shutil.which(name) for name, path in built.items()}
    return {name: program for name, program in found.items() if program}


def measure(bench, workload):
    """The points of each server, in turn."""
    home = bench.directory / workload.name
    point = _list_point if isinstance(workload, Listing) else bench.point
    try:
        with contextlib.ExitStack() as running:
            cpus = bench.cpu_lists(shared=False)[0]
            servers = [
                running.enter_context(KINDS[name](name, bench.programs[name], home / name, cpu_list=cpus))
                for name in workload.servers
            ]
            for server in servers:
                _fill(bench, server, workload)
                point(*_of(bench, point, server, workload), seconds=WARM_UP_SECONDS)
            points = {server.name: [] for server in servers}
            for _ in range(bench.rounds):
                for server in servers:
                    points[server.name].append(point(*_of(bench, point, server, workload)))
            for server in servers:
                server.stop()
            return points, None
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _of(bench, point, server, workload):
    return (server, workload) if point == bench.point else (bench, server, workload)


def _fill(bench, server, workload):
    """Make the bucket and all values by requests, as not each server keeps them as files; and see one come back."""
    _ask(server, "PUT", "", b"", allowed=(200, 409))
    content = os.urandom(workload.size)
    if isinstance(workload, Listing):
        puts = Workload(workload.name, "", "PUT", workload.size, 32, workload.keys)
        found = bench.client.run(server, puts, 600, bench.cpu_lists(shared=False)[1], requests=workload.keys)
        if found.requests != workload.keys or not found.valid:
            raise ServerFailed(f"{server.name}: {found.failures} of {found.requests} PUTs failed")
        return
    for number in range(workload.keys):
        _ask(server, "PUT", f"{workload.prefix}{number}", content)
    if _ask(server, "GET", f"{workload.prefix}0") != content:
        raise ServerFailed(f"{server.name}: not the bytes stored")


def _ask(server, method, name, body=None, allowed=(200,)):
    connection = server.connection()
    try:
        connection.request(method, server.target(method, name), body)
        answer = connection.getresponse()
        received = answer.read()
    finally:
        connection.close()
    if answer.status not in allowed:
        raise ServerFailed(f"{server.name}: {method} {name}: {answer.status} {received[:300]}")
    return received


def _list_point(bench, server, workload, seconds=None):
    """Pages until the time is over, again from the first behind the last; each walk must have found all names."""
    seconds = seconds or bench.seconds
    connection = server.connection()
    times, found, received, token = [], 0, 0, None
    before, began = server.cpu_seconds(), time.monotonic()
    while time.monotonic() - began < seconds or not times:
        query = {"list-type": 2, "max-keys": PAGE} | ({"continuation-token": token} if token else {})
        target = presigned("GET", server.port, "", query)
        sent = time.monotonic()
        connection.request("GET", target)
        page = connection.getresponse().read()
        times.append(time.monotonic() - sent)
        found, received = found + page.count(b"<Key>"), received + len(page)
        more = re.search(rb"<NextContinuationToken>([^<]+)<", page)
        token = urllib.parse.unquote(more.group(1).decode().replace("&#43;", "+")) if more else None
        if not token and found != workload.keys:
            bench.problem(f"{workload.name}, {server.name}: {found} names listed: {page[:200]}")
            break
        found = found if token else 0
    took, cpu = time.monotonic() - began, server.cpu_seconds() - before
    connection.close()
    cuts = quantiles(times, n=100) if len(times) > 1 else times * 99
    return Point(
        requests=len(times), seconds=took, body_bytes=received, p50_us=cuts[49] * 1e6, p99_us=cuts[98] * 1e6,
        failures=0, cpu_us=cpu / len(times) * 1e6, server_share=cpu / took,
    )  # fmt: skip
