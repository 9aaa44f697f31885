"""By HTTP/2 over TLS: data-server and nginx as in `secure`, and an upload with delay on the way."""

from statistics import median

from . import delay
from .secure import NGINX, OURS, Secure, h2load, started
from .workloads import FORTY_MB, KIB, MIB


def workloads():
    """All of them."""
    get, put = {"method": "GET", "beside": (OURS, NGINX)}, {"method": "PUT", "beside": (OURS, NGINX)}
    small = {"size": KIB, "connections": 8, "keys": 64, "operations": 20_000}
    large = {"connections": 1, "keys": 4, "streams": 1}
    return [
        Secure("http2-get-1KiB-1", "GET 1 KiB, HTTP/2, 1 stream", streams=1, **small, **get),
        Secure("http2-get-1KiB-10", "GET 1 KiB, HTTP/2, 10 streams", streams=10, smoke=True, **small, **get),
        Secure("http2-get-1KiB-100", "GET 1 KiB, HTTP/2, 100 streams", streams=100, **small, **get),
        Secure("http2-get-1MiB", "GET 1 MiB, HTTP/2", size=MIB, operations=400, **large, **get),
        Secure("http2-get-40MB", "GET 40 MB, HTTP/2", size=FORTY_MB, operations=16, **large, **get),
        Secure("http2-put-40MB", "PUT 40 MB, HTTP/2, to a file", size=FORTY_MB, operations=8, smoke=True, **large, **put),
    ]


def upload(bench, is_private):
    """MB/s of an upload by one stream to either server with delay on the way, medians over the rounds, and what delays."""
    row = Secure("http2-delay", "PUT 40 MB", "PUT", FORTY_MB, 1, 1, streams=1, operations=5 if bench.rounds > 1 else 1)
    with started(bench, row) as servers, delay.delayed(is_private) as (way, port_of):
        found = {server.name: [] for server in servers}
        for _ in range(bench.rounds):
            for server in servers:
                with port_of(server.port) as port:
                    answered, seconds = h2load(bench, server, row, port)
                if answered != row.operations:
                    bench.problem(f"{row.name}, {server.name}: {answered} of {row.operations} uploads answered")
                found[server.name].append(row.operations * row.size / seconds / 1e6)
    return {name: round(median(rates), 1) for name, rates in found.items()} | {"by": way}


def upload_line(found):
    """That in words."""
    rates = ", ".join(f"{name} {rate:.0f} MB/s" for name, rate in found.items() if name != "by")
    return f"\nPUT 40 MB, HTTP/2, one stream with {2 * delay.MILLISECONDS} ms of delay (by {found['by']}): {rates}"
