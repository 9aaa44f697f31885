"""What is measured: the list of workloads, in the order of the report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from . import headers

KIB, MIB = 1024, 1024 * 1024
FORTY_MB = 40_000_000
ALL = ("data-server", "c-server", "nginx")

# What one point may write to files, so that no run fills a disk however fast it is.
WRITE_BUDGET = 2 * 1024 * MIB

# What is written to new files before they are removed, and their memory is used again.
SLICE = 256 * MIB
LEAST_PER_FILE = 8 * KIB  # of memory


@dataclass(frozen=True)
class Workload:
    """One row of the report: a load, and the shape of the servers under it."""

    name: str
    title: str
    method: str  # GET or PUT
    size: int
    connections: int
    keys: int  # names in use; ignored with `new`
    new: bool = False  # every PUT makes a fresh name
    fresh: bool = False  # a connection for each request
    threads: int = 1
    shared: bool = False  # servers and client share all the CPUs
    discard: bool = False
    fields: tuple = ()  # of the head of each request, besides those it needs
    logged: bool = False  # each server writes a line for each request to a file
    amid: Workload | None = None  # another load that goes on meanwhile
    by: str = "rate"  # what is compared: or p50, of a client that waits for each answer
    absent: dict = field(default_factory=dict)  # servers that cannot take part, each with the reason
    beside: tuple = ALL  # the servers that are compared
    smoke: bool = False

    @property
    def servers(self):
        """Those that take part."""
        return tuple(name for name in self.beside if name not in self.absent)

    @property
    def writes(self):
        """Whether values reach the file system."""
        return bool(self.amid) or self.method == "PUT" and not self.discard

    @property
    def prefix(self):
        """What the names begin with."""
        return "new-" if self.new else "key-"

    @property
    def slice(self):
        """The most new values before they are removed."""
        return max(2 * self.connections, SLICE // max(self.size, LEAST_PER_FILE))

    @property
    def requests(self):
        """The most requests of one point."""
        return max(8, WRITE_BUDGET // self.size) if self.writes else 10_000_000

    def shortened(self):
        """The same, to see that all works: what a point takes is told by its seconds."""
        return self


def _sizes():
    """(label, bytes, connections, names) of the sizes that GET and PUT share."""
    return [
        ("1KiB", KIB, 32, 64),
        ("16KiB", 16 * KIB, 32, 64),
        ("64KiB", 64 * KIB, 32, 64),
        ("1MiB", MIB, 16, 16),
        ("40MB", FORTY_MB, 4, 4),
    ]


def _spaced(label):
    """1KiB -> 1 KiB."""
    return label.replace("KiB", " KiB").replace("MiB", " MiB").replace("MB", " MB")


def _gets():
    return [
        Workload(f"get-{label}", f"GET {_spaced(label)}", "GET", size, connections, keys, smoke=label in ("1KiB", "1MiB"))
        for label, size, connections, keys in _sizes()
    ]


def _puts():
    for label, size, connections, keys in _sizes():
        smoke = label == "1KiB"
        yield Workload(
            f"put-{label}-new", f"PUT {_spaced(label)}, new", "PUT", size, connections, keys, new=True, smoke=smoke
        )
        yield Workload(
            f"put-{label}-replaced", f"PUT {_spaced(label)}, replaced", "PUT", size, connections, keys, smoke=smoke
        )


def _from_users(get, put):
    """With the fields that users' requests carry, with an access log, and one at a time."""
    no_log = {"c-server": "has no log"}
    lone_get, lone_put = _lone(get), _lone(put)
    return [
        _as(get, "proxied", "behind a proxy", fields=headers.PROXY),
        _as(get, "traced", "traced", fields=headers.TRACE),
        _as(get, "browser", "from a browser", fields=headers.BROWSER),
        _as(get, "logged", "logged", logged=True, absent=no_log),
        _as(put, "proxied", "behind a proxy", fields=headers.PROXY),
        lone_get,
        replace(lone_put, name="put-1KiB-lone"),
        replace(lone_get, name="get-beside-put", title="GET 1 KiB, a lone client beside PUTs", amid=lone_put),
    ]


def _as(workload, name, title, **changes):
    return replace(workload, name=f"{workload.name}-{name}", title=f"{workload.title}, {title}", **changes)


def _lone(workload):
    return _as(workload, "lone", "a lone client", connections=1, shared=True, by="p50")


def _with_threads(workload, threads):
    return _as(workload, f"{threads}-threads", f"{threads} threads", connections=max(64, 4 * threads), threads=threads, shared=True)


def workloads():
    """All of them."""
    gets, puts = list(_gets()), list(_puts())
    get, (new, replaced) = gets[0], puts[:2]
    fresh = _as(get, "fresh", "a connection each", fresh=True)
    discard = Workload("put-40MB-discard", "PUT 40 MB, discarded", "PUT", FORTY_MB, 32, 4, discard=True, smoke=True)
    return [
        *gets,
        *puts,
        replace(discard, absent={"nginx": "cannot discard"}),
        *_from_users(get, new),
        fresh,
        *(_with_threads(one, 2) for one in (get, new, replaced, fresh)),
        replace(_with_threads(get, 32), smoke=False),
        _as(get, "constant", "constant answer", beside=("data-server", "constant")),
    ]
