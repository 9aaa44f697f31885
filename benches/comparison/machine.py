"""What the kernel tells and gives: CPU clocks, CPUs, a network of our own, and the facts of the machine."""

import ctypes
import fcntl
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path

CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def cpu_seconds(pid):
    """CPU time of a process, of all its threads alive and gone, to the nanosecond."""
    process_clock = (~pid << 3) | 2  # the clockid that clock_getcpuclockid(3) makes
    return time.clock_gettime(process_clock)


def children(pid):
    """Process ids of the direct children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cpus():
    """(CPU of the servers, CPU of the client), one and the same where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[1 % len(usable)]


def free_port():
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def enter_private_network():
    """Move to a network namespace that has only a loopback; says how that went.

    There no firewall rule of the machine sits on the path, no port is taken, and the congestion control is cubic,
    the kernel's default: under one that paces (bbr) figures over loopback would show its timers, not the servers.
    """
    clone_newnet = 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(clone_newnet) != 0:
        return f"the machine's, {CONGESTION_CONTROL.read_text().strip()} (no right to one of our own)"
    _bring_loopback_up()
    control = CONGESTION_CONTROL.read_text().strip()
    if control != "cubic" and _route_with_cubic():
        control = "cubic"
    return f"private, {control}"


def _bring_loopback_up():
    siocsifflags, iff_up_running = 0x8914, 0x1 | 0x40
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, siocsifflags, struct.pack("16sh22x", b"lo", iff_up_running))


def _route_with_cubic():
    """Loopback connections take their congestion control from the route; the namespace's own may not be changed."""
    if not shutil.which("ip"):
        return False
    route = "ip route replace table local local 127.0.0.1 dev lo proto kernel scope host src 127.0.0.1 congctl cubic"
    return subprocess.run(route.split(), stderr=subprocess.DEVNULL, check=False).returncode == 0


def traffic_control(*words):
    """`tc qdisc` with these words, where it is there and allowed; says whether it did."""
    if not shutil.which("tc"):
        return False
    return subprocess.run(["tc", "qdisc", *words], stderr=subprocess.DEVNULL, check=False).returncode == 0


def facts(directory, network):
    """The machine, for the results. No name and no path of it."""
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release(),
        "system": _system(),
        "file_system": file_system(directory),
        "network": network,
    }


def file_system(directory):
    """The type of the file system that a directory lies on; for ext4 also whether it lacks a journal."""
    command = ["df", "--output=source,fstype", str(directory)]
    device, kind = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-2:]
    has_journal = any(Path("/proc/fs/jbd2").glob(f"{Path(device).name}-*"))
    return "ext4 without a journal" if kind == "ext4" and not has_journal else kind


def _cpu_model():
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.machine()


def _system():
    found = re.search(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())
    return found.group(1) if found else platform.system()
