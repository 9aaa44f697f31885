"""A trace of a build cache, an exact LRU to compare with, and the servers that replay it."""

import array
import bisect
import collections
import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import machine, servers

GIB = 1 << 30
SAMPLE_SECONDS = 0.5
BLOCK = 4096


def make_trace(requests, seed):
    """Pairs of a key's number and its length, flat: of 10 requests 7 by Zipf, 2 of scans, 1 for a key that is never asked for again.

    The scans are runs of 500 keys in order, as of a build without local results. Lengths are spread evenly over their
    logarithm, 1 to 128 KiB: 26 KiB in the mean.
    """
    rng = random.Random(seed)
    popular, scanned = max(10, requests // 10), max(10, requests // 25)
    lengths = [int(1024 * 128 ** (step / 127)) for step in range(128)]
    weights = list(itertools.accumulate(1 / rank**0.9 for rank in range(1, popular + 1)))
    fresh, at, left = popular + scanned, 0, 0
    trace = array.array("I")
    for kind in rng.choices("zso", (7, 2, 1), k=requests):
        if kind == "z":
            key = bisect.bisect(weights, rng.random() * weights[-1])
        elif kind == "s":
            if not left:
                at, left = rng.randrange(scanned), 500
            key, at, left = popular + at, (at + 1) % scanned, left - 1
        else:
            key, fresh = fresh, fresh + 1
        # The length belongs to the key.
        trace.extend((key, lengths[(key * 2654435761 >> 7) % 128]))
    return trace


def new_keys(first, count, seed=48):
    """Pairs of keys that are asked for once, from `first` on, and their lengths, spread as those of a trace."""
    rng = random.Random(seed + first)
    trace = array.array("I")
    for key in range(first, first + count):
        trace.extend((key, int(1024 * 128 ** rng.random())))
    return trace


def least_recently_used(trace, bound):
    """The hits of an exact LRU of `bound` bytes, each value taking whole blocks."""
    held, total, hits = collections.OrderedDict(), 0, 0
    pairs = iter(trace)
    for key, length in zip(pairs, pairs, strict=True):
        if key in held:
            held.move_to_end(key)
            hits += 1
            continue
        size = -(-length // BLOCK) * BLOCK
        while held and total + size > bound:
            total -= held.popitem(last=False)[1]
        if total + size <= bound:
            held[key] = size
            total += size
    return hits


class BazelRemote(servers.Server):
    """bazel-remote, its HTTP door alone: values under ac/, which it does not look into."""

    def command(self):
        self.port = machine.free_port()
        return [
            self.program, "--dir", str(self.data), "--http_address", f"127.0.0.1:{self.port}", "--grpc_address", "none",
            "--storage_mode", "uncompressed", "--disable_http_ac_validation", "--access_log_level", "none", *self.flags,
        ]  # fmt: skip

    def await_start(self):
        self.await_port()


class NginxCache(servers.Nginx):
    """nginx's proxy_cache before another nginx that has a file of each length: it fills itself, so there is no PUT.

    Without tcp_nopush: with it the last packet of what comes from the other nginx waits, and makes a miss ten times slower.
    """

    CONFIG = servers.Nginx.PROCESS + """
        http {{
            access_log {access_log};
            sendfile on;
            tcp_nodelay on;
            keepalive_timeout 600;
            keepalive_requests 1000000000;
            client_body_temp_path {home}/body;
            fastcgi_temp_path {home}/unused;
            uwsgi_temp_path {home}/unused;
            scgi_temp_path {home}/unused;
            proxy_temp_path {home}/unused;
            proxy_cache_path {data} levels=1:2 keys_zone=values:64m inactive=60d use_temp_path=off %(limit)s;
            upstream builds {{ server unix:{home}/upstream.sock; keepalive 16; }}
            server {{
                listen 127.0.0.1:{port} backlog=4096 deferred;
                location / {{
                    proxy_pass http://builds;
                    proxy_http_version 1.1;
                    proxy_set_header Connection "";
                    proxy_cache values;
                    proxy_cache_valid 200 60d;
                    add_header X-Cache $upstream_cache_status;
                }}
            }}
        }}
    """
    UPSTREAM = """
        daemon off;
        pid {home}/upstream.pid;
        {user}
        worker_processes 1;
        error_log stderr crit;
        http {{
            access_log off;
            sendfile on;
            keepalive_requests 1000000000;
            client_body_temp_path {home}/unused;
            proxy_temp_path {home}/unused;
            fastcgi_temp_path {home}/unused;
            uwsgi_temp_path {home}/unused;
            scgi_temp_path {home}/unused;
            server {{
                listen unix:{home}/upstream.sock;
                root {home}/lengths;
                location / {{ rewrite "^/([0-9]+)/" /$1 break; }}
            }}
        }}
        events {{ worker_connections 4096; }}
    """

    def __init__(self, *details, limit, lengths, **more):
        super().__init__(*details, **more)
        self.CONFIG = self.CONFIG % {"limit": limit}
        self.lengths, self.upstream = lengths, None

    def __enter__(self):
        (self.home / "lengths").mkdir(parents=True)
        for length in self.lengths:
            with open(self.home / "lengths" / str(length), "wb") as file:
                file.truncate(length)
        user = "user root;" if os.geteuid() == 0 else ""
        (self.home / "upstream.conf").write_text(self.UPSTREAM.format(home=self.home, user=user))
        command = [self.program, "-p", str(self.home), "-c", str(self.home / "upstream.conf"), "-e", "stderr"]
        self.upstream = subprocess.Popen(["taskset", "--cpu-list", str(machine.cpus()[1]), *command], stderr=subprocess.DEVNULL)
        try:
            self._await_upstream()
            return super().__enter__()
        except BaseException:
            self._end_upstream()
            raise

    def __exit__(self, *details):
        super().__exit__(*details)
        self._end_upstream()

    def _await_upstream(self):
        deadline = time.monotonic() + servers.START_SECONDS
        while self.upstream.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.home / "upstream.sock"))
                return
            time.sleep(0.02)
        raise servers.ServerFailed("the upstream of nginx did not start")

    def _end_upstream(self):
        self.upstream.terminate()
        self.upstream.wait()


def du(directory):
    """What `du` says of a directory, in bytes: whole blocks, folders too."""
    command = ["du", "-s", "--block-size=1", str(directory)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.split()[0])


def of_values(directory):
    """Bytes of the disk that the files of values take, without folders and what the server keeps for itself."""
    command = ["find", str(directory), "-name", ".data-server", "-prune", "-o", "-type", "f", "-printf", "%b\n"]
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return 512 * sum(map(int, found.split()))


def stopped_sizes(server):
    """(du, bytes of values) of a server's directory, while all its processes stand still: so no file is counted twice or not at all."""
    pids = [server.process.pid, *machine.children(server.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        return du(server.data), of_values(server.data)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def replay(server, client, trace, prefix, connections, fills=False, rate=0, is_timed=False):
    """Replay the trace file against a server, looking at its directory meanwhile unless its times count; what came of it."""
    command = [
        "taskset", "--cpu-list", str(machine.cpus()[1]), str(client), "--port", str(server.port), "--trace", str(trace),
        "--prefix", prefix, "--connections", str(connections), "--rate", str(rate), *(["--fills"] if fills else []),
    ]  # fmt: skip
    before, largest, values, paused, samples, wait = server.cpu_seconds(), 0, 0, 0.0, 0, SAMPLE_SECONDS
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        while True:
            try:
                running.wait(None if is_timed else wait)
                break
            except subprocess.TimeoutExpired:
                since = time.monotonic()
                sizes = stopped_sizes(server)
                largest, values, samples = max(largest, sizes[0]), max(values, sizes[1]), samples + 1
                took = time.monotonic() - since
                paused, wait = paused + took, max(SAMPLE_SECONDS, 2 * took)
        said = running.stdout.read()
    if running.returncode:
        raise servers.ServerFailed(f"{server.name}: the client ended with {running.returncode}")
    found = json.loads(said)
    cpu = server.cpu_seconds() - before
    sizes = stopped_sizes(server)
    found |= {
        "cpu_seconds": cpu, "largest_du": max(largest, sizes[0]), "largest_values": max(values, sizes[1]),
        "last_du": sizes[0], "samples": samples + 1, "seconds": found["seconds"] - paused,
    }  # fmt: skip
    return found


def write_trace(trace, path):
    """The trace as the client reads it."""
    with open(path, "wb") as file:
        trace.tofile(file)
    return Path(path)
