"""What is measured: the list of workloads, in the order of the report."""

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
        return self.method == "PUT" and not self.discard

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


def _from_users():
    """GET and PUT of 1 KiB with the fields that users' requests carry, and with an access log."""
    get = Workload("get-1KiB", "GET 1 KiB", "GET", KIB, 32, 64, smoke=True)
    put = Workload("put-1KiB-new", "PUT 1 KiB, new", "PUT", KIB, 32, 64, new=True, smoke=True)
    no_log = {"c-server": "has no log"}
    return [
        _with_fields(get, "proxied", "behind a proxy", headers.PROXY),
        _with_fields(get, "traced", "traced", headers.TRACE),
        _with_fields(get, "browser", "from a browser", headers.BROWSER),
        replace(get, name=f"{get.name}-logged", title=f"{get.title}, logged", logged=True, absent=no_log),
        _with_fields(put, "proxied", "behind a proxy", headers.PROXY),
    ]


def _with_fields(workload, name, title, fields):
    return replace(workload, name=f"{workload.name}-{name}", title=f"{workload.title}, {title}", fields=fields)


def workloads():
    """All of them."""
    one_kib = Workload("get-1KiB", "GET 1 KiB", "GET", KIB, 32, 64, smoke=True)
    discard = Workload("put-40MB-discard", "PUT 40 MB, discarded", "PUT", FORTY_MB, 32, 4, discard=True, smoke=True)
    return [
        *_gets(),
        *_puts(),
        replace(discard, absent={"nginx": "cannot discard"}),
        *_from_users(),
        replace(one_kib, name="get-1KiB-fresh", title="GET 1 KiB, a connection each", fresh=True),
        _with_threads(one_kib, 2),
        _with_threads(one_kib, 32),
        replace(one_kib, name="get-1KiB-constant", title="GET 1 KiB, constant answer", beside=("data-server", "constant")),
    ]


def _with_threads(one, threads):
    return replace(
        one, name=f"{one.name}-{threads}-threads", title=f"{one.title}, {threads} threads",
        connections=max(64, 4 * threads), threads=threads, shared=True, smoke=False,
    )  # fmt: skip
