"""Over TLS: data-server and nginx, each with the same certificate, on one core each."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass, replace
from statistics import median

from .client import LoadFailed, Point
from .runner import check, fill
from .servers import DataServer, Nginx, ServerFailed
from .workloads import FORTY_MB, KIB, MIB, Workload

OURS, NGINX = "data-server", "nginx"
KEYS = {"P-256": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "RSA-2048": ["rsa:2048"]}
IDLE_CONNECTIONS, FEW_CONNECTIONS = 1_000, 100
LOAD_SECONDS = 120


@dataclass(frozen=True)
class Secure(Workload):
    """One row: a load over TLS, by so many requests a point."""

    operations: int = 1
    key: str = "P-256"
    handshakes: str = ""  # full or resumed: a connection for each request
    streams: int = 0  # requests of a connection at once, by HTTP/2; 0 is HTTP/1.1

    def shortened(self):
        """The same by few requests, to see that all works."""
        return replace(self, operations=max(1, self.operations // 20))


def workloads():
    """All of them."""
    kept, each = {"method": "GET", "beside": (OURS, NGINX)}, {"connections": 1, "keys": 1, "operations": 400}
    return [
        Secure("tls-get-1KiB", "GET 1 KiB, TLS", size=KIB, connections=32, keys=64, operations=20_000, smoke=True, **kept),
        Secure("tls-get-1MiB", "GET 1 MiB, TLS", size=MIB, connections=16, keys=16, operations=600, **kept),
        Secure("tls-get-40MB", "GET 40 MB, TLS", size=FORTY_MB, connections=4, keys=4, operations=24, **kept),
        Secure("tls-full", "TLS handshake, full", size=KIB, handshakes="full", smoke=True, **each, **kept),
        Secure("tls-resumed", "TLS handshake, resumed", size=KIB, handshakes="resumed", **each, **kept),
        Secure("tls-full-rsa", "TLS handshake, full, RSA-2048", size=KIB, handshakes="full", key="RSA-2048", **each, **kept),
    ]


def certificate(directory, key):
    """A certificate of its own for the loopback address: the files of it and of its key."""
    files = directory / f"{key}.crt", directory / f"{key}.key"
    command = ["openssl", "req", "-x509", "-newkey", *KEYS[key], "-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    return files


def unverified():
    """What a client needs to know: here nothing, as the certificate proves itself."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class SecureDataServer(DataServer):
    """data-server that listens by TLS alone."""

    scheme = "https"

    def __init__(self, *rest, files, **options):
        super().__init__(*rest, **options)
        self.files = files

    def command(self):
        place = "https://127.0.0.1:0"
        command = super().command()
        command[command.index("--listen") + 1] = place
        return [*command, "--tls-cert", str(self.files[0]), "--tls-key", str(self.files[1])]

    def connection(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=unverified())


class SecureNginx(Nginx):
    """nginx likewise; it speaks TLS 1.3 and HTTP/2 only when told to."""

    def __init__(self, *rest, files, **options):
        super().__init__(*rest, **options)
        self.tls = (
            f"ssl_certificate {files[0]}; ssl_certificate_key {files[1]};"
            " ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:10m;"
        )

    connection = SecureDataServer.connection
    listen_options = ("ssl", "http2")


KINDS = {OURS: SecureDataServer, NGINX: SecureNginx}


@contextlib.contextmanager
def started(bench, workload):
    """Both servers with one certificate, and a directory that goes with them."""
    home = bench.directory / workload.name
    home.mkdir()
    files = certificate(home, workload.key)
    cpu_list = bench.cpu_lists(shared=False)[0]
    try:
        with contextlib.ExitStack() as running:
            yield [
                running.enter_context(kind(name, bench.programs[name], home / name, cpu_list=cpu_list, files=files))
                for name, kind in KINDS.items()
                if name in bench.programs
            ]
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measure(bench, workload):
    """The points of both servers, in turn."""
    with started(bench, workload) as servers:
        points = {server.name: [] for server in servers}
        for server in servers:
            fill(bench, server, workload)
            check(server, workload)
            _point(bench, server, workload)
        for _ in range(bench.rounds):
            for server in servers:
                points[server.name].append(_point(bench, server, workload))
        for server in servers:
            server.stop()
        return points, None


def _point(bench, server, workload):
    if workload.writes:
        os.sync()
    before, began = server.cpu_seconds(), time.monotonic()
    if workload.handshakes:
        failures = _handshakes(server, workload)
    else:
        failures = _load(bench, server, workload)
    seconds, cpu = time.monotonic() - began, server.cpu_seconds() - before
    point = Point(
        requests=workload.operations, seconds=seconds, body_bytes=workload.operations * workload.size,
        p50_us=0.0, p99_us=0.0, failures=failures, cpu_us=cpu / workload.operations * 1e6, server_share=cpu / seconds,
    )  # fmt: skip
    if not point.valid:
        bench.problem(f"{workload.name}, {server.name}: {failures} of {point.requests} requests failed")
    return point


def _load(bench, server, workload):
    """h2load, which speaks HTTP/1.1 too; the requests that failed."""
    return workload.operations - h2load(bench, server, workload)[0]


def h2load(bench, server, workload, port=None):
    """The requests that h2load has answered by 2xx, and the seconds that it took."""
    uris = (f"https://127.0.0.1:{port or server.port}/{workload.prefix}{number}" for number in range(workload.keys))
    command = [
        "taskset", "--cpu-list", bench.cpu_lists(shared=False)[1], bench.programs["h2load"], "--threads", "1",
        "--clients", str(workload.connections), "--requests", str(workload.operations),
    ]  # fmt: skip
    command += ["--max-concurrent-streams", str(workload.streams)] if workload.streams else ["--h1"]
    if workload.method == "PUT":
        body = bench.directory / f"{workload.size}.body"
        if not body.exists():
            body.write_bytes(os.urandom(workload.size))
        command += ["--data", body, "--header", ":method: PUT"]
    command += uris
    run = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS, check=False)
    found, seconds = (re.search(what, run.stdout) for what in (r"(\d+) 2xx", r"finished in ([\d.]+)(m?s),"))
    if not found or not seconds:
        raise LoadFailed(f"h2load: {run.stdout[-300:]} {run.stderr[-300:]}")
    number, unit = seconds.groups()
    return int(found.group(1)), float(number) / (1000 if unit == "ms" else 1)


def _handshakes(server, workload):
    """A connection for each request, one after the other; those that are not as they should be."""
    context, session, failures = unverified(), None, 0
    for _ in range(workload.operations):
        plain = socket.create_connection(("127.0.0.1", server.port), 30)
        with context.wrap_socket(plain, session=session) as connection:
            connection.sendall(f"GET /{workload.prefix}0 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            is_right = answer.startswith(b"HTTP/1.1 200") and connection.session_reused == bool(session)
            failures += not is_right
            if workload.handshakes == "resumed":
                session = connection.session
    return failures


def idle(bench, is_smoke):
    """KiB of memory that an idle connection takes from each server, medians over the rounds."""
    connections = FEW_CONNECTIONS if is_smoke else IDLE_CONNECTIONS
    home = bench.directory / "idle"
    home.mkdir()
    files, found = certificate(home, "P-256"), {}
    for number in range(bench.rounds):
        for name, kind in KINDS.items():
            if name not in bench.programs:
                continue
            path = home / f"{name}-{number}"
            with kind(name, bench.programs[name], path, cpu_list=bench.cpu_lists(shared=True)[0], files=files) as server:
                (server.data / "key").write_bytes(b"value")
                found.setdefault(name, []).append(_idle(server, connections))
    return {name: round(median(runs), 1) for name, runs in found.items()}


def idle_line(found):
    """That in words."""
    return "\nMemory of an idle connection, TLS: " + ", ".join(f"{name} {kib:.1f} KiB" for name, kib in found.items())


def _idle(server, connections):
    """What the connections add to the server's own memory, when each has served one request."""
    with contextlib.ExitStack() as opened:
        _ask_once(server, opened)
        before = _memory(server)
        for _ in range(connections):
            _ask_once(server, opened)
        return (_memory(server) - before) / connections


def _ask_once(server, opened):
    connection = opened.enter_context(contextlib.closing(server.connection()))
    connection.request("GET", "/key")
    if connection.getresponse().read() != b"value":
        raise ServerFailed(f"{server.name}: not the bytes stored")


def _memory(server):
    """KiB that only its processes have."""
    return sum(_private(pid) for pid in server.processes())


def _private(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as table:
        lines = (line.split() for line in table)
        return sum(int(words[1]) for words in lines if words[0].startswith("Private_"))
