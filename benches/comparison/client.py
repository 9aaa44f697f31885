"""The load: one point is one run of the client against one server, with the server's CPU time over it."""

import contextlib
import json
import os
import re
import subprocess
import time
from dataclasses import asdict, dataclass, replace

UNDISTURBED = 0.9  # of the time on its CPU
START_SECONDS = 10
RUN_SECONDS_MORE = 60  # the client waits 30 s for what is under way at the end


class LoadFailed(Exception):
    """The client itself failed."""


@dataclass
class Point:
    """What one run found."""

    requests: int
    seconds: float
    body_bytes: int
    p50_us: float
    p99_us: float
    failures: int  # answers that are not 2xx, and socket errors
    cpu_us: float = 0.0  # of the server, per request
    server_share: float = 0.0  # of the time, how much the server was on a CPU
    client_share: float = 0.0

    @property
    def rate(self):
        """Requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def megabytes(self):
        """Megabytes of bodies per second."""
        return self.body_bytes / self.seconds / 1e6 if self.seconds else 0.0

    @property
    def valid(self):
        """Whether it counts."""
        return self.requests > 0 and self.failures == 0

    @property
    def disturbed(self):
        """Whether a client that never sleeps was kept off its CPU: by somebody else's work."""
        return 0 < self.client_share < UNDISTURBED

    def __add__(self, other):
        """Both as one: their sums, and for what cannot be added up the mean by requests."""
        requests, seconds = self.requests + other.requests, self.seconds + other.seconds

        def mean(name, weight, whole):
            parts = (getattr(point, name) * getattr(point, weight) for point in (self, other))
            return sum(parts) / whole if whole else 0.0

        latencies = {name: mean(name, "requests", requests) for name in ("p50_us", "p99_us", "cpu_us")}
        shares = {name: mean(name, "seconds", seconds) for name in ("server_share", "client_share")}
        return Point(
            requests=requests, seconds=seconds, body_bytes=self.body_bytes + other.body_bytes,
            failures=self.failures + other.failures, **latencies, **shares,
        )  # fmt: skip

    def as_json(self):
        """For the results file."""
        return {**asdict(self), "rate": round(self.rate, 2), "valid": self.valid}


class Load:
    """The client of this directory, in C: one thread, one epoll."""

    def __init__(self, program):
        self.program = program

    @staticmethod
    def can(_workload):
        """It can do all of them."""
        return True

    def command(self, server, workload, seconds, cpu_list, requests=None):
        """The command line."""
        command = [
            "taskset", "--cpu-list", cpu_list, str(self.program), "--port", str(server.port),
            f"--{workload.method.lower()}", "--size", str(workload.size), "--prefix", workload.prefix,
            "--connections", str(workload.connections), "--seconds", str(seconds),
            "--requests", str(requests or workload.requests),
        ]  # fmt: skip
        command += ["--new"] if workload.new else ["--keys", str(workload.keys)]
        command += ["--fresh"] if workload.fresh else []
        command += [part for line in workload.fields for part in ("--header", line)]
        if targets := server.targets(workload):
            command += ["--targets", str(targets)]
        return command + ([] if workload.shared else ["--spin"])

    def run(self, server, workload, seconds, cpu_list, requests=None):
        """Measure one point; amid another load, whose part of the CPU time is not known, without CPU time."""
        commands = [self.command(server, workload, seconds, cpu_list, requests)]
        if workload.amid:
            commands.append(self.command(server, workload.amid, seconds, cpu_list))
        outputs, cpu = _run(commands, server, seconds)
        found, *others = map(json.loads, outputs)
        point = Point(
            requests=found["requests"], seconds=found["seconds"], body_bytes=found["body_bytes"],
            p50_us=found["p50_us"], p99_us=found["p99_us"], failures=sum(map(_failures, [found, *others])),
        )  # fmt: skip
        point = _with_shares(point, cpu, found["client_cpu_seconds"])
        return replace(point, cpu_us=0.0) if workload.amid else point

    def run_local(self, server, workload, seconds, cpus):
        """A client on each of these CPUs, which asks one of as many reactors alone, where connections go round.

        Returns the server's CPU time per request, in microseconds, and the requests of each client.
        """
        commands = [
            [*self.command(server, workload, seconds, str(cpu)), "--share", f"{number}/{len(cpus)}"]
            for number, cpu in enumerate(cpus)
        ]
        outputs, cpu_seconds = _run(commands, server, seconds, workload.connections)
        clients = [json.loads(output) for output in outputs]
        if any(map(_failures, clients)):
            raise LoadFailed(f"{clients}")
        requests = [found["requests"] for found in clients]
        return cpu_seconds / sum(requests) * 1e6, requests


def _failures(found):
    return found["non_2xx"] + found["errors"] + found["unanswered"]


def _await_sockets(running, count):
    """Wait until a client has opened its connections, so that the next one's come after them."""
    deadline = time.monotonic() + START_SECONDS
    while running.poll() is None and len(os.listdir(f"/proc/{running.pid}/fd")) < count:
        if time.monotonic() > deadline:
            raise LoadFailed("the client does not connect")
        time.sleep(0.01)


class Wrk:
    """wrk, as a second opinion on GET: one thread, one name."""

    def __init__(self, program):
        self.program = program

    @staticmethod
    def can(workload):
        """What wrk does without a script."""
        return workload.method == "GET" and not workload.amid

    def run(self, server, workload, seconds, cpu_list):
        """Measure one point; wrk knows whole seconds only."""
        seconds = max(1, round(seconds))
        command = [
            "taskset", "--cpu-list", cpu_list, self.program, "--latency", "--threads", "1",
            "--connections", str(workload.connections), "--duration", f"{seconds}s",
            f"http://127.0.0.1:{server.port}/{workload.prefix}0",
        ]  # fmt: skip
        lines = [*workload.fields, *(["Connection: close"] if workload.fresh else [])]
        command += [part for line in lines for part in ("--header", line)]
        (found,), cpu = _run([command], server, seconds)
        requests, took = re.search(r"(\d+) requests in ([\d.]+\w+),", found).groups()
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", found)
        refused = re.search(r"Non-2xx or 3xx responses: (\d+)", found)
        point = Point(
            requests=int(requests), seconds=_microseconds(took) / 1e6, body_bytes=int(requests) * workload.size,
            p50_us=_microseconds(re.search(r"^ +50% +(\S+)", found, re.MULTILINE).group(1)),
            p99_us=_microseconds(re.search(r"^ +99% +(\S+)", found, re.MULTILINE).group(1)),
            failures=sum(map(int, errors.groups() if errors else ())) + int(refused.group(1) if refused else 0),
        )  # fmt: skip
        return _with_shares(point, cpu, 0.0)


def _run(commands, server, seconds, sockets=0):
    """Run clients at once, each from when the one before has so many sockets; their outputs, and the server's CPU seconds meanwhile."""
    before, outputs = server.cpu_seconds(), []
    with contextlib.ExitStack() as ended:
        clients = []
        for command in commands:
            if clients:
                _await_sockets(clients[-1], sockets)
            clients.append(ended.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
            ended.callback(clients[-1].kill)
        for client in clients:
            try:
                output, errors = client.communicate(timeout=seconds + RUN_SECONDS_MORE)
            except subprocess.TimeoutExpired as error:
                raise LoadFailed(f"{error}") from error
            if client.returncode:
                raise LoadFailed(f"{client.args} ended with {client.returncode}: {errors}")
            outputs.append(output)
    return outputs, server.cpu_seconds() - before


def _with_shares(point, cpu, client_cpu):
    if point.requests:
        point.cpu_us = cpu / point.requests * 1e6
        point.server_share = cpu / point.seconds
        point.client_share = client_cpu / point.seconds
    return point


def _microseconds(text):
    """wrk's 1.25ms, 2.00s, 1.00m in microseconds."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6, "m": 6e7}[unit]
