"""From points to medians and ratios, and those as text."""

from dataclasses import asdict
from statistics import median

from .experiments import REACTORS, busiest

OURS = "data-server"
OTHERS = {"nginx": "nginx", "c-server": "the C server", "direct": "the store itself", "versitygw": "VersityGW", "minio": "MinIO"}
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
                ratios[name] = _ratios(pairs)
    return {
        "workload": workload.name, "title": workload.title, "size": workload.size, "by": workload.by,
        "servers": servers, "ratios": ratios, "disturbed": _disturbed(workload, points),
        "absent": workload.absent, "bodies": bodies and {**asdict(bodies), "way": bodies.way()},
    }  # fmt: skip


def _ratios(pairs):
    """How far we are ahead, more than 1, or behind; by all that was measured."""
    found = {}
    for by, field, power in (("rate", "rate", 1), ("cpu", "cpu_us", -1), ("p50", "p50_us", -1)):
        values = [(getattr(ours, field), getattr(theirs, field)) for ours, theirs in pairs]
        if all(map(all, values)):
            found[by] = round(median((ours / theirs) ** power for ours, theirs in values), 3)
    return found


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
        compared = f"   {OURS} is {ratio[summary['by']]:.2f} by {summary['by']}" if ratio else ""
        compared += f", {ratio['cpu']:.2f} by CPU" if ratio and "cpu" in ratio else ""
        lines.append(
            f"  {name:<12}{_amount(server, summary['size']):>14}{_us(server['cpu_us'], 1):>15} CPU"
            f"{_us(server['p50_us']):>15} p50{_us(server['p99_us']):>15} p99"
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


def _us(us, digits=0):
    """What has not been measured is told as such."""
    return f"{us:,.{digits}f} us" if us else "-"


def _amount(server, size):
    """Requests for small values, megabytes for large ones."""
    return f"{server['megabytes']:,.0f} MB/s" if size >= 1024 * 1024 else f"{server['rate']:,.0f} /s"


def markdown(summaries):
    """All rows as a table, of which the README and pages of docs/ show some; empty when there are none."""
    others = [name for name in OTHERS if any(name in summary["servers"] for summary in summaries)]
    lines = []
    for summary in summaries:
        if OURS in summary["servers"] and set(others) & set(summary["servers"]):
            ours = summary["servers"][OURS]
            way = summary["bodies"]["way"] if summary["bodies"] else "-"
            amount = _amount(ours, summary["size"])
            if summary["by"] == "p50":
                amount = f"p50 {_us(ours['p50_us'])}, p99 {_us(ours['p99_us'])}"
            cells = [summary["title"], way, amount, _us(ours["cpu_us"], 1), *(_cell(summary, name) for name in others)]
            lines.append(f"| {' | '.join(cells)} |")
    if not lines:
        return ""
    heads = ["work", "bodies by", OURS, "CPU", *(f"against {OTHERS[name]}" for name in others)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines]
    lines.append("\nBy rate, or of a lone client by p50; in brackets by CPU time per request of the server. * Neither server was the bottleneck.")
    return "\n".join(lines)


def _cell(summary, name):
    ratio = summary["ratios"].get(name)
    if not ratio:
        return summary["absent"].get(name, "-")
    mark = "*" if paced_by_others(summary, name) else ""
    return f"{ratio[summary['by']]:.2f}{mark}" + (f" ({ratio['cpu']:.2f})" if "cpu" in ratio else "")


def paced_by_others(summary, name):
    """Whether both servers of a ratio had time to spare, so that their rates say little about them."""
    return summary["by"] == "rate" and all(summary["servers"][server]["server_share"] < SATURATED for server in (OURS, name))


def derived(summaries):
    """Lines that compare workloads with each other."""
    by_name = {summary["workload"]: summary for summary in summaries}
    lines = []
    for name, two in by_name.items():
        one = by_name.get(name.removesuffix("-2-threads"), two)
        for server in two["servers"] if one is not two else ():
            before, after = one["servers"].get(server), two["servers"][server]
            if before:
                cpu, rate = 2 * before["cpu_us"] / after["cpu_us"], after["rate"] / before["rate"]
                lines.append(
                    f"{one['title']}, {server}: 2 threads on 2 CPUs do {cpu:.2f} times the requests of 1, by CPU time per request;"
                    f" by rate, beside the client on them, {rate:.2f}"
                )
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
