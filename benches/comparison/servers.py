"""The servers: how each is configured, started, watched and ended."""

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

from . import machine

START_SECONDS = 10
STOP_SECONDS = 40


class ServerFailed(Exception):
    """A server did not start, or did not end as it should."""


class Server:
    """A running server with a directory of its own. Use it in a `with` statement.

    `threads` is the number of its threads or worker processes, `cpu_list` the CPUs it may use. If it is `logged`, it
    writes a line for each request to the file `access_log`, where it can.
    """

    def __init__(self, name, program, home, threads=1, cpu_list="0", flags=(), logged=False):
        self.name, self.program, self.home = name, str(program), home
        self.threads, self.flags = threads, list(flags)
        self.cpu_list = cpu_list
        self.logged, self.access_log = logged, None
        self.asked = 0  # requests that the load has had answered
        self.data = home / "data"
        self.values = self.data  # where a value is the file of its name
        self.port = None
        self.process = None

    def __enter__(self):
        self.data.mkdir(parents=True, exist_ok=True)
        command = ["taskset", "--cpu-list", self.cpu_list, *self.command()]
        with open(self.home / "stderr", "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            self.await_start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def command(self):
        """The command line."""
        raise NotImplementedError

    def await_start(self):
        """Wait for the line that tells the port."""
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if ready else ""
        found = re.search(r"https?://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise ServerFailed(f"{self.name} did not start: {self.log_tail()}")
        self.port = int(found.group(1))

    def await_port(self):
        """Of a server that says nothing: connect until it answers."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise ServerFailed(f"{self.name} did not start: {self.log_tail()}")

    def target(self, _method, name):
        """The target of a request for a name."""
        return f"/{name}"

    def targets(self, _workload):
        """A file with a target for each name of a load, where the load can't make them itself."""
        return None

    def processes(self):
        """The processes whose CPU time is the server's."""
        return [self.process.pid]

    def cpu_seconds(self):
        """CPU time taken so far."""
        return sum(machine.cpu_seconds(pid) for pid in self.processes())

    def stop(self):
        """Ask the server to finish and wait until it has; its log is whole then."""
        code = self._end()
        if code not in (0, -signal.SIGTERM):
            raise ServerFailed(f"{self.name} ended with {code}: {self.log_tail()}")

    def logged_requests(self, method):
        """The lines of the access log of an ended server that are of requests of this method."""
        with open(self.access_log, "rb") as log:
            return sum(self.access_mark(method) in line for line in log)

    @staticmethod
    def access_mark(method):
        """What only the lines of requests of this method have."""
        return f'"{method} /'.encode()

    def connection(self):
        """A connection of its own, for a request by hand."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def _end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        return self.process.returncode

    def log(self):
        """What it wrote to standard error."""
        return (self.home / "stderr").read_text(errors="replace")

    def await_log(self, pattern):
        """What of that fits the pattern, which may be written a little later than the line on standard output."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = re.search(pattern, self.log())
            if found or time.monotonic() >= deadline:
                return found
            time.sleep(0.02)

    def log_tail(self):
        """The end of that."""
        return self.log()[-500:].strip() or "(it said nothing)"


class DataServer(Server):
    """data-server, as released. Its log is a file: text where requests are logged, or else JSON, which is read here."""

    def command(self):
        self.access_log = self.home / "stderr"
        log = ["--access-log"] if self.logged else ["--log-format", "json"]
        return [
            self.program, "--threads", str(self.threads), "--dir", str(self.data), "--listen", "127.0.0.1:0",
            *log, *self.flags,
        ]  # fmt: skip

    @staticmethod
    def access_mark(method):
        return f' method="{method}" '.encode()

    def bodies(self):
        """What it has counted so far; None where it does not count bodies that are taken over."""
        asking = self.connection()
        try:
            asking.request("GET", "/-/metrics")
            return Bodies.read(asking.getresponse().read().decode())
        finally:
            asking.close()

    def spread(self):
        """(connections, requests) of each reactor, from the log of an ended server."""
        events = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        fields = [event["fields"] for event in events if event["fields"].get("message") == "reactor drained"]
        return [(reactor["connections"], reactor["requests"]) for reactor in fields]


@dataclass(frozen=True)
class Bodies:
    """How bodies moved, by what data-server counts: of all requests, the bodies for which it took the socket over."""

    requests: int
    taken_over: int

    @classmethod
    def read(cls, metrics):
        """From the text of /-/metrics; None from a server that does not count it."""
        counts = [
            re.findall(rf"^data_server_{name}_total{{.*}} (\d+)", metrics, re.MULTILINE) for name in ("requests", "takeovers")
        ]
        return cls(*(sum(map(int, values)) for values in counts)) if counts[1] else None

    def since(self, before, own=0):
        """What came after `before` was read, without `own` requests that did the reading."""
        return Bodies(self.requests - before.requests - own, self.taken_over - before.taken_over)

    def way(self):
        """In words."""
        if not self.taken_over:
            return "hyper"
        share = self.taken_over / max(1, self.requests)
        return "takeover" if share > 0.9995 else f"takeover {share:.1%}, hyper {1 - share:.1%}"


class CServer(Server):
    """The threads + epoll reference."""

    def command(self):
        return [self.program, "--threads", str(self.threads), "--dir", str(self.data), "--port", "0", *self.flags]


class Constant(Server):
    """benches/constant.rs: the same value from memory as every answer, through the same hyper."""

    def command(self):
        return [self.program, "127.0.0.1:0"]


class Nginx(Server):
    """nginx at its best: sendfile, kept descriptors (60 s stale at worst), no log unless asked, PUT by http_dav_module."""

    PROCESS = """
        daemon off;
        pid {home}/pid;
        {user}
        worker_processes {threads};
        error_log stderr crit;
        events {{ worker_connections 16384; }}
"""
    CONFIG = PROCESS + """
        http {{
            access_log {access_log};
            default_type application/octet-stream;
            sendfile on;
            tcp_nopush on;
            tcp_nodelay on;
            keepalive_timeout 600;
            keepalive_requests 1000000000;
            open_file_cache max=10000 inactive=60s;
            open_file_cache_valid 60s;
            client_body_temp_path {home}/body;
            client_max_body_size 0;
            client_body_buffer_size 256k;
            proxy_temp_path {home}/unused;
            fastcgi_temp_path {home}/unused;
            uwsgi_temp_path {home}/unused;
            scgi_temp_path {home}/unused;
            server {{
                listen 127.0.0.1:{port} backlog=4096 deferred {listen};
                {tls}
                root {data};
                location / {{ dav_methods PUT DELETE; }}
            }}
        }}
    """

    tls = ""  # how it does TLS, if it does
    listen_options = ()

    def command(self):
        self.port = machine.free_port()
        self.access_log = self.home / "access.log"
        config = self.CONFIG.format(
            home=self.home, data=self.data, port=self.port, threads=self.threads,
            user="user root;" if os.geteuid() == 0 else "",
            listen=" ".join([*["reuseport"] * (self.threads > 1), *self.listen_options]),
            tls=self.tls,
            # Without a buffer, which is what nginx does unless told otherwise.
            access_log=f"{self.access_log} combined" if self.logged else "off",
        )  # fmt: skip
        (self.home / "nginx.conf").write_text(config)
        return [self.program, "-p", str(self.home), "-c", str(self.home / "nginx.conf"), "-e", "stderr"]

    def await_start(self):
        self.await_port()

    def processes(self):
        return machine.children(self.process.pid)


KINDS = {"data-server": DataServer, "c-server": CServer, "nginx": Nginx, "constant": Constant}
