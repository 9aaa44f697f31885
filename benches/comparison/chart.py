"""The chart of docs/performance.md: our ratios to nginx and to the C server, as an SVG for light and dark pages."""

from html import escape

from .report import paced_by_others

ROW, BAR, LEFT, RIGHT, TOP, BOTTOM, WIDTH = 34, 11, 230, 60, 88, 48, 800
SERIES = (("nginx", "nginx"), ("c-server", "the C server"))

STYLE = """
    text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
    .title { font-size: 15px; font-weight: 600 }
    .faint { fill: #6e7781; font-size: 11px }
    .grid { stroke: #8c959f; stroke-opacity: .3 }
    .even { stroke: #cf222e; stroke-width: 1.5 }
    .nginx { fill: #2f9e63 } .c-server { fill: #3b7dd8 }
    .cpu { fill: none; stroke: #57606a; stroke-width: 1.5 }
    .spare { fill-opacity: .45 }
    @media (prefers-color-scheme: dark) {
      text { fill: #d1d7e0 } .faint { fill: #9198a1 } .even { stroke: #ff7b72 } .cpu { stroke: #d1d7e0 }
      .nginx { fill: #3fb877 } .c-server { fill: #5b9bf0 }
    }
"""


def draw(summaries, caption):
    """The whole picture; None when there is nothing to compare."""
    rows = [summary for summary in summaries if any(name in summary["ratios"] for name, _ in SERIES)]
    if not rows:
        return None
    highest = max(ratio for row in rows for name, _ in SERIES for ratio in row["ratios"].get(name, {"rate": 0}).values())
    scale = Scale(min(4.0, max(2.0, highest + 0.1)))
    bottom = TOP + ROW * len(rows)
    parts = [_legend(), *_grid(scale, bottom)]
    for number, row in enumerate(rows):
        parts += _row(scale, row, TOP + number * ROW)
    parts.append(_line(scale(1), TOP - 6, bottom, "even"))
    parts.append(_text(10, bottom + 36, caption, "faint"))
    height = bottom + BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">\n'
        f"  <title>data-server against nginx and a C server</title>\n  <style>{STYLE}  </style>\n  "
        + "\n  ".join(parts)
        + "\n</svg>\n"
    )


class Scale:
    """Ratio to x."""

    def __init__(self, highest):
        self.highest = highest

    def __call__(self, ratio):
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(ratio, self.highest) / self.highest, 1)


def _legend():
    return "\n  ".join([
        _text(10, 22, "data-server's rate (of a lone client: by p50), in times of the other server's", "title"),
        _bar(10, 34, 12, "nginx"), _text(42, 44, "against nginx"),
        _bar(10, 54, 12, "c-server"), _text(42, 64, "against the C server (threads + epoll)"),
        _bar(350, 34, 12, "nginx spare"), _bar(364, 34, 12, "c-server spare"),
        _text(386, 44, "neither server was the bottleneck (client or disk)"),
        _circle(363, 60), _text(386, 64, "the same by CPU time per request"),
    ])  # fmt: skip


def _grid(scale, bottom):
    ratio = 0.0
    while ratio <= scale.highest:
        yield _line(scale(ratio), TOP - 6, bottom, "grid")
        yield _text(scale(ratio), bottom + 14, f"{ratio:.1f}", "faint", "middle")
        ratio += 0.5


def _row(scale, row, top):
    yield _text(LEFT - 10, top + ROW / 2 + 1, row["title"], anchor="end")
    for number, (name, title) in enumerate(SERIES):
        ratio = row["ratios"].get(name)
        y = top + 3 + number * (BAR + 2)
        if not ratio:
            if why := row["absent"].get(name):
                yield _text(LEFT + 4, y + BAR - 1, f"{title} {why}", "faint")
            continue
        spare = " spare" if paced_by_others(row, name) else ""
        yield _bar(LEFT, y, round(scale(ratio[row["by"]]) - LEFT, 1), name + spare)
        if "cpu" in ratio:
            yield _circle(scale(ratio["cpu"]), y + BAR / 2)
        yield _text(WIDTH - 10, y + BAR - 1, f"{ratio[row['by']]:.2f}", "faint", "end")


def _bar(x, y, width, name):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{BAR}" rx="2" class="{name}"/>'


def _circle(x, y):
    return f'<circle cx="{x}" cy="{y}" r="3.5" class="cpu"/>'


def _line(x, top, bottom, name):
    return f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" class="{name}"/>'


def _text(x, y, words, name="", anchor="start"):
    style = f' class="{name}"' if name else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{style}>{escape(words)}</text>'
