"""What an answer costs that survives a cut of power: data-server by --durability, and others on the same file system.

Redis and PostgreSQL are asked over loopback by their own clients, etcd by h2load. RocksDB is a library: its figure has
no network and no server in it.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from .build import find_program
from .client import LoadFailed
from .servers import ServerFailed
from .workloads import KIB, Workload

NEW = Workload("durability", "", "PUT", KIB, 1, 64, new=True, shared=True)
CLIENTS = (1, 32, 128)
DISK = "the disk itself"
MODES = {
    "os": ["--durability", "os"],
    "disk": ["--durability", "disk"],
    "disk, no journal": ["--durability", "disk", "--journal", "off"],
}
PATIENCE = 30


def measure(bench, start, is_smoke):
    """{what: {clients: [rate]}} of new values of 1 KiB, in turn, and what is left out; `start` starts a data-server with flags.

    `DISK` is the disk's own rate, in the same rounds and on the same file system.
    """
    found, left_out = {DISK: {1: []}}, []
    with contextlib.ExitStack() as running:
        asked = {}
        for mode, flags in MODES.items():
            server = running.enter_context(start(bench, f"durability-{mode.replace(', ', '-').replace(' ', '-')}", 1, flags, shared=True))
            asked[mode] = lambda clients, server=server: bench.point(server, replace(NEW, connections=clients)).rate
        for name, other in () if is_smoke else OTHERS:
            try:
                asked[name] = running.enter_context(other(bench))
            except FileNotFoundError as missing:
                left_out.append(f"{name}: {missing.filename} is not installed")
        for _ in range(bench.rounds):
            found[DISK][1].append(round(_syncs(bench), 2))
            for name, rate in asked.items():
                for clients in CLIENTS:
                    rates = found.setdefault(name, {}).setdefault(clients, [])
                    rates.append(round(rate(clients), 2))
    return found, left_out


def _syncs(bench):
    """How often a second 1 KiB is appended to a file and synced, by one thread."""
    path, value, count = bench.directory / "syncs", os.urandom(KIB), 0
    with open(path, "ab", buffering=0) as file:
        began = time.monotonic()
        while (took := time.monotonic() - began) < bench.seconds:
            file.write(value)
            os.fdatasync(file.fileno())
            count += 1
    path.unlink()
    return count / took


def table(found, left_out, file_system):
    """The rates, and what part they are of what the disk allows: the median of that of each round."""
    lines = [f"\nDurability, 1 KiB under new names (on {file_system}), a second, and what part that is"]
    lines.append("  of os with as many clients; with 1, which waits for the disk each time, of 1 / (time of a sync + time of a PUT by os)")
    lines.append(f"  {'':<18}" + "".join(f"{f'clients: {clients}':>20}" for clients in CLIENTS))
    for name, by in found.items():
        cells = (f"{median(rates):>12,.0f} {_part(found, name, clients):<6}" for clients, rates in by.items())
        lines.append(f"  {name:<18}" + "".join(f"{cell:>20}" for cell in cells))
    lines += [f"  1 client: a sync took {1e6 / median(found[DISK][1]):,.0f} us, a PUT by os {1e6 / median(found['os'][1]):,.0f} us"]
    return "\n".join(lines + [f"  left out: {why}" for why in left_out])


def _part(found, name, clients):
    if name in (DISK, "os"):
        return ""
    goals = found["os"][clients]
    if clients == 1:
        goals = [1 / (1 / sync + 1 / put) for sync, put in zip(found[DISK][1], goals)]
    return f"({median(rate / goal for rate, goal in zip(found[name][clients], goals)):.2f})"


@contextlib.contextmanager
def _redis(bench):
    """Redis with a sync before each answer; gives a function from a number of clients to a rate."""
    server, client = find_program("redis-server"), find_program("redis-benchmark")
    home, port = _home(bench, "redis"), _free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--save", "", "--appendonly", "yes"]
    with _running([server, *options, "--appendfsync", "always"], home, port):

        def rate(clients):
            requests = 3_000 if clients == 1 else 20_000
            command = [client, "-p", str(port), "-t", "set", "-d", str(KIB), "-r", str(10**12), "--csv"]
            return _said([*command, "-c", str(clients), "-n", str(requests)], r'"SET","([\d.]+)"')

        yield rate


@contextlib.contextmanager
def _postgresql(bench):
    """PostgreSQL with its defaults, where commits that wait share a sync; gives a function as `_redis`."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise FileNotFoundError(2, "not there", "postgresql")
    home, port = _home(bench, "postgresql"), _free_port()
    as_user = []
    if os.geteuid() == 0:  # it does not run as root
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]
        shutil.chown(home, "postgres", "postgres")
        for parent in home.parents:
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
    data = home / "data"
    initdb = [*as_user, str(programs[-1] / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres"]
    subprocess.run(initdb, capture_output=True, check=True, cwd=home)
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": 200}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with _running([*as_user, str(programs[-1] / "postgres"), "-D", str(data), *options], home, port):
        to = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
        create = "create table v (key bigserial primary key, value text not null)"
        end = time.monotonic() + PATIENCE
        while subprocess.run([str(programs[-1] / "psql"), *to, "-qc", create, "postgres"], capture_output=True, check=False).returncode:
            if time.monotonic() > end:
                raise ServerFailed("postgresql makes no table")
            time.sleep(0.1)
        script = home / "insert.sql"
        script.write_text(f"insert into v (value) values (repeat('x', {KIB}));\n")

        def rate(clients):
            command = [str(programs[-1] / "pgbench"), *to, "-n", "-M", "prepared", "-f", str(script), "-T", str(max(1, round(bench.seconds)))]
            return _said([*command, "-c", str(clients), "postgres"], r"tps = ([\d.]+)")

        yield rate


@contextlib.contextmanager
def _etcd(bench):
    """One member of etcd, which syncs its log before each answer, by HTTP and JSON; gives a function as `_redis`."""
    server, client = find_program("etcd"), find_program("h2load")
    home, port, peers = _home(bench, "etcd"), _free_port(), _free_port()
    url = f"http://127.0.0.1:{port}"
    options = ["--data-dir", str(home / "data"), "--listen-client-urls", url, "--advertise-client-urls", url]
    options += ["--listen-peer-urls", f"http://127.0.0.1:{peers}", "--log-level", "error"]
    body = home / "put.json"
    body.write_text(json.dumps({"key": _base64(b"key"), "value": _base64(b"x" * KIB)}))
    with _running([server, *options], home, port):

        def rate(clients):
            requests = 3_000 if clients == 1 else 20_000
            command = [client, "--h1", "-c", str(clients), "-n", str(requests), "-d", str(body), f"{url}/v3/kv/put"]
            return _said(command, rf"(?s)([\d.]+) req/s.*status codes: {requests} 2xx")

        yield rate


@contextlib.contextmanager
def _rocksdb(bench):
    """RocksDB with a sync for each write, where those that wait share one; gives a function of a number of threads."""
    program, home = find_program("db_bench"), _home(bench, "rocksdb")

    def rate(clients):
        command = [program, "--benchmarks=fillrandom", "--sync=1", "--compression_type=none", f"--value_size={KIB}", "--num=1000000"]
        command += [f"--threads={clients}", f"--duration={max(1, round(bench.seconds))}", f"--db={home / 'data'}"]
        return _said(command, r"fillrandom .* (\d+) ops/sec ")

    yield rate


OTHERS = (("redis, always", _redis), ("postgresql", _postgresql), ("etcd", _etcd), ("rocksdb (library)", _rocksdb))


def _said(command, pattern):
    """The number that a client tells at its end."""
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode or not (found := re.search(pattern, run.stdout)):
        raise LoadFailed(f"{Path(command[0]).name}: {run.stdout[-300:]} {run.stderr[-300:]}")
    return float(found.group(1))


def _base64(data):
    return base64.b64encode(data).decode()


def _home(bench, name):
    home = bench.directory / f"durability-{name}"
    home.mkdir()
    return home


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def _running(command, home, port):
    """A server that takes connections."""
    with open(home / "log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=home) as server:
        try:
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError as error:
                    if server.poll() is not None or time.monotonic() > end:
                        raise ServerFailed(f"{command[0]} does not serve: {(home / 'log').read_text()[-300:]}") from error
                    time.sleep(0.05)
            yield
        finally:
            server.terminate()
