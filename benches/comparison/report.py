"""From points to medians and ratios, and those as text."""

from dataclasses import asdict
from statistics import median

from .experiments import REACTORS, busiest

OURS = "data-server"
# Below this share of the time on its CPU, the client or the disk set the pace, not the server's code.
SATURATED = 0.9


def summarize(workload, points, bodies):
    """Medians of each server, and our ratios to each other one: the median of the ratios round by round.

    `bodies` tells how those of our requests moved, if it is known.
    """
    servers = {name: _medians(runs) for name, runs in points.items()}
    ratios = {}
    for name, runs in points.items():
        if name != OURS and OURS in points:
            pairs = [(ours, theirs) for ours, theirs in zip(points[OURS], runs) if ours.valid and theirs.valid]
            if pairs:
                ratios[name] = {
                    "rate": round(median(ours.rate / theirs.rate for ours, theirs in pairs), 3),
                    "cpu": round(median(theirs.cpu_us / ours.cpu_us for ours, theirs in pairs), 3),
                }
    return {
        "workload": workload.name, "title": workload.title, "size": workload.size,
        "servers": servers, "ratios": ratios, "disturbed": _disturbed(workload, points),
        "absent": workload.absent, "bodies": bodies and {**asdict(bodies), "way": bodies.way()},
    }  # fmt: skip


def _medians(runs):
    fields = ("rate", "megabytes", "cpu_us", "p50_us", "p99_us", "server_share")
    return {field: round(median(getattr(run, field) for run in runs), 3) for field in fields}


def _disturbed(workload, points):
    """How many points other work of the machine disturbed."""
    return 0 if workload.shared else sum(run.disturbed for runs in points.values() for run in runs)


def table(summary):
    """One workload for the terminal."""
    lines = [f"\n{summary['title']}"]
    for name, server in summary["servers"].items():
        ratio = summary["ratios"].get(name)
        compared = f"   {OURS} is {ratio['rate']:.2f} by rate, {ratio['cpu']:.2f} by CPU" if ratio else ""
        lines.append(
            f"  {name:<12}{_amount(server, summary['size']):>16}{server['cpu_us']:>12,.1f} us CPU"
            f"{_latency(server['p50_us'])} us p50{_latency(server['p99_us'])} us p99"
            f"{server['server_share']:>7.0%} busy{compared}"
        )
    lines += [f"  {name:<12}{'-':>16}   takes no part: it {why}" for name, why in summary["absent"].items()]
    if bodies := summary["bodies"]:
        lines.append(
            f"  way of {OURS}'s bodies: {bodies['way']}"
            f" (taken over: {bodies['taken_over']:,} of {bodies['requests']:,} requests, by its own count)"
        )
    if summary["disturbed"]:
        lines.append(
            f"  note: other work took the client's CPU in {summary['disturbed']} points; trust the CPU figures only"
        )
    return "\n".join(lines)


def _latency(us):
    """What the client has not measured is told as such."""
    return f"{us:>12,.0f}" if us else f"{'-':>12}"


def _amount(server, size):
    """Requests for small values, megabytes for large ones."""
    return f"{server['megabytes']:,.0f} MB/s" if size >= 1024 * 1024 else f"{server['rate']:,.0f} /s"


def markdown(summaries):
    """The ratios, as a table, of which docs/performance.md and the README show rows; empty when there are none."""
    lines = []
    for summary in summaries:
        if set(summary["servers"]) & {"nginx", "c-server"} and OURS in summary["servers"]:
            amount = _amount(summary["servers"][OURS], summary["size"])
            nginx, c_server = (_cell(summary, name) for name in ("nginx", "c-server"))
            way = summary["bodies"]["way"] if summary["bodies"] else "-"
            lines.append(f"| {summary['title']} | {way} | {amount} | {nginx} | {c_server} |")
    if not lines:
        return ""
    lines = [f"| work | bodies by | {OURS} | against nginx | against the C server |", "|---|---|---|---|---|", *lines]
    lines.append("\nBy rate; in brackets by CPU time per request of the server. * Neither server was the bottleneck.")
    return "\n".join(lines)


def markdown_over_store(summaries):
    """The table that docs/s3.md shows."""
    lines = ["| work | data-server | by rate, of asking the store itself | CPU of data-server |", "|---|---|---|---|"]
    for summary in summaries:
        ours = summary["servers"][OURS]
        per = summary["size"] / 1e6
        cpu = f"{ours['cpu_us'] / 1e3 / per:.2f} ms a MB" if per >= 1 else f"{ours['cpu_us']:.0f} us a request"
        rate = summary["ratios"]["direct"]["rate"]
        lines.append(f"| {summary['title']} | {_amount(ours, summary['size'])} | {rate:.2f} | {cpu} |")
    return "\n".join(lines)


def _cell(summary, name):
    ratio = summary["ratios"].get(name)
    if not ratio:
        return summary["absent"].get(name, "-")
    mark = "*" if paced_by_others(summary, name) else ""
    return f"{ratio['rate']:.2f}{mark} ({ratio['cpu']:.2f})"


def paced_by_others(summary, name):
    """Whether both servers of a ratio had time to spare, so that their rates say little about them."""
    return all(summary["servers"][server]["server_share"] < SATURATED for server in (OURS, name))


def derived(summaries):
    """Lines that compare workloads with each other."""
    by_name = {summary["workload"]: summary for summary in summaries}
    one, two = (by_name.get(name, {}).get("servers", {}) for name in ("get-1KiB", "get-1KiB-2-threads"))
    lines = []
    for name in sorted(one.keys() & two.keys()):
        gain = 2 * one[name]["cpu_us"] / two[name]["cpu_us"]
        lines.append(f"{name}: 2 threads on 2 CPUs do {gain:.2f} times the requests of 1, by CPU time per request")
    ratio = by_name.get("get-1KiB-constant", {}).get("ratios", {}).get("constant")
    if ratio:
        lines.append(f"{OURS}: GET 1 KiB is {ratio['rate']:.2f} of a constant answer by rate, {ratio['cpu']:.2f} by CPU")
    return lines


def dispatch_table(found):
    """How each way of dispatching did; `busiest`: the busiest reactor's part, 1.00 is perfectly even."""
    lines = [
        f"\nDispatch over {REACTORS} reactors (in brackets what the busiest had, in times of an even share)",
        f"  {'':<18}{'GET 1 KiB, 32 connections':>34}{'one request each':>24}{'PUT 40 MB discarded':>24}",
    ]
    for mode, loads in found.items():
        lines.append(
            f"  {mode:<18}{_spread(loads['long-lived'], 'connections', 'requests'):>34}"
            f"{_spread(loads['short'], 'connections'):>24}{_spread(loads['put-40MB'], 'requests'):>24}"
        )
    lines.append("  busiest by connections, requests / by connections / by requests")
    return "\n".join(lines)


def _spread(runs, *measures):
    rate = median(run["rate"] for run in runs)
    return f"{rate:,.0f} /s ({', '.join(f'{busiest(runs, what):.2f}' for what in measures)})"


def scaling_line(found):
    """What two reactors do, in times of one."""
    one, two = (median(found[reactors]) for reactors in (1, 2))
    return (
        f"\nScaling, GET 1 KiB, each reactor and its client on a CPU of theirs: {one:.2f} us of CPU with 1 reactor,"
        f" {two:.2f} us with 2, which do {2 * one / two:.2f} times the requests"
    )
