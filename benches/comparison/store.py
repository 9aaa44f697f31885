"""Over an S3 store: data-server in front of a gateway, against presigned requests straight to that gateway."""

import contextlib
import hashlib
import hmac
import os
import shutil
import time
import urllib.parse

from . import machine
from .build import Missing
from .runner import WARM_UP_SECONDS, check, request
from .servers import DataServer, Server, ServerFailed
from .workloads import FORTY_MB, KIB, Workload

BUCKET, REGION = "values", "us-east-1"
ACCESS_KEY, SECRET_KEY = "benchmark", "benchmark-secret"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}
HOURS_VALID = 6


def workloads():
    """All of them. Three processes share the CPUs, so the connections are few."""
    shared = {"threads": 1, "shared": True, "beside": ("data-server", "direct")}
    small, large = {"connections": 16, "keys": 64}, {"connections": 4, "keys": 4}
    return [
        Workload("s3-get-1KiB", "GET 1 KiB", "GET", KIB, smoke=True, **small, **shared),
        Workload("s3-put-1KiB", "PUT 1 KiB, replaced", "PUT", KIB, smoke=True, **small, **shared),
        Workload("s3-get-40MB", "GET 40 MB", "GET", FORTY_MB, **large, **shared),
        Workload("s3-put-40MB", "PUT 40 MB, replaced", "PUT", FORTY_MB, **large, **shared),
    ]


def find_gateway(target):
    """The S3 server, where `.ci/run setup` builds it, or on PATH."""
    built = target / "tools" / "versitygw"
    program = built if built.exists() else shutil.which("versitygw")
    if not program:
        raise Missing("versitygw is missing: `.ci/run setup` builds it")
    return program


class Gateway(Server):
    """VersityGW over a directory of its own. The load asks it with a presigned target for each name."""

    def command(self):
        self.port = machine.free_port()
        return [
            "env", f"ROOT_ACCESS_KEY={ACCESS_KEY}", f"ROOT_SECRET_KEY={SECRET_KEY}", self.program, "--quiet", "--keep-alive",
            "--health", "/health", "--region", REGION, "--port", f"127.0.0.1:{self.port}", "posix", str(self.data),
        ]  # fmt: skip

    def await_start(self):
        self.await_port()
        self.values = self.data / BUCKET
        self.values.mkdir()

    def targets(self, workload):
        """A file with the request target of each name."""
        path = self.home / f"{workload.name}.targets"
        names = (f"{workload.prefix}{number}" for number in range(workload.keys))
        path.write_text("".join(f"{presigned(workload.method, self.port, name)}\n" for name in names))
        return path

    def target(self, method, name):
        return presigned(method, self.port, name)


class Front(DataServer):
    """data-server over that gateway."""

    def __init__(self, *rest, gateway, **options):
        super().__init__(*rest, **options)
        self.gateway = gateway

        self.values = gateway.values

    def command(self):
        environment = [f"{name}={value}" for name, value in CREDENTIALS.items()]
        return [
            "env", *environment, self.program, "--threads", str(self.threads), "--listen", "127.0.0.1:0",
            "--log-format", "json", "--store", f"s3://{BUCKET}", "--s3-region", REGION,
            "--s3-endpoint", f"http://127.0.0.1:{self.gateway.port}",
        ]  # fmt: skip


def presigned(method, port, name, more=()):
    """The target of a request of this method for the object, or the bucket without a name, signed in its query (SigV4)."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    signing = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{ACCESS_KEY}/{scope}",
        "X-Amz-Date": now,
        "X-Amz-Expires": HOURS_VALID * 3600,
        "X-Amz-SignedHeaders": "host",
    }
    # In the order of the names, as they are signed: those of the signature come first.
    query = urllib.parse.urlencode({**signing, **dict(sorted(dict(more).items()))}, quote_via=urllib.parse.quote, safe="")
    path = f"/{BUCKET}/{name}" if name else f"/{BUCKET}"
    canonical = f"{method}\n{path}\n{query}\nhost:127.0.0.1:{port}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in [*scope.split("/"), to_sign]:
        key = hmac.digest(key, part.encode(), "sha256")
    return f"{path}?{query}&X-Amz-Signature={key.hex()}"


def measure(bench, workload):
    """The points of data-server and of the gateway asked directly, in turn; both have the same values."""
    home = bench.directory / workload.name
    cpu_list = bench.cpu_lists(shared=True)[0]
    try:
        with contextlib.ExitStack() as running:
            start = running.enter_context
            gateway = start(Gateway("direct", bench.programs["direct"], home / "gateway", cpu_list=cpu_list))
            front = start(
                Front("data-server", bench.programs["data-server"], home / "front", cpu_list=cpu_list, gateway=gateway)
            )
            servers = [front, gateway]
            _fill(gateway, workload)
            for server in servers:
                check(server, workload)
                bench.point(server, workload, seconds=WARM_UP_SECONDS)
            points = {server.name: [] for server in servers}
            for _ in range(bench.rounds):
                for server in servers:
                    points[server.name].append(bench.point(server, workload))
            for server in servers:
                server.stop()
            return points, None
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _fill(gateway, workload):
    for number in range(workload.keys):
        status, _ = request(gateway, "PUT", f"{workload.prefix}{number}", os.urandom(workload.size))
        if status != 200:
            raise ServerFailed(f"{gateway.name}: PUT: {status}")
