"""The picture of benches/aside: connections accepted and finished over time, with and without the compute threads."""

from html import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 800, 330, 52, 74, 48, 46
PANEL = (WIDTH - LEFT - GAP - 12) / 2
CURVES = (("offered", 1), ("accepted", 2), ("finished", 3))
TITLES = {"compute threads": "digests on the compute threads", "on the reactor": "digests on the reactor"}

STYLE = """
    text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
    .title { font-size: 15px; font-weight: 600 }
    .faint { fill: #6e7781; font-size: 11px }
    .grid { stroke: #8c959f; stroke-opacity: .3 }
    polyline, .key { fill: none; stroke-width: 2 }
    .offered { stroke: #8c959f; stroke-dasharray: 4 4 } .accepted { stroke: #3b7dd8 } .finished { stroke: #2f9e63 }
    @media (prefers-color-scheme: dark) {
      text { fill: #d1d7e0 } .faint { fill: #9198a1 } .accepted { stroke: #5b9bf0 } .finished { stroke: #3fb877 }
    }
"""


def draw(found, caption):
    """The whole picture, of {mode: [[second, offered, accepted, finished]]}."""
    seconds = max(samples[-1][0] for samples in found.values())
    most = max(max(sample[1:]) for samples in found.values() for sample in samples)
    parts = [_text(10, 22, "200 light and 100 heavy requests a second, a connection each", "title")]
    parts += _legend()
    for number, (mode, samples) in enumerate(found.items()):
        parts += _panel(LEFT + number * (PANEL + GAP), TITLES[mode], samples, seconds, most)
    parts.append(_text(10, HEIGHT - 10, caption, "faint"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">\n'
        f"  <title>Connections accepted and finished over time, with and without compute threads</title>\n  <style>{STYLE}  </style>\n  "
        + "\n  ".join(parts)
        + "\n</svg>\n"
    )


def _legend():
    for number, (name, _) in enumerate(CURVES):
        x = 10 + 110 * number
        yield f'<line x1="{x}" y1="38" x2="{x + 24}" y2="38" class="key {name}"/>'
        yield _text(x + 30, 42, name)


def _panel(left, title, samples, seconds, most):
    height = HEIGHT - TOP - BOTTOM

    def place(second, count):
        return left + PANEL * second / seconds, TOP + height * (1 - count / most)

    yield _text(left, TOP - 8, title)
    for count in range(0, most + 1, _step(most)):
        _, y = place(0, count)
        yield f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{left + PANEL:.1f}" y2="{y:.1f}" class="grid"/>'
        yield _text(left - 6, y + 4, f"{count:,}", "faint", "end")
    for second in range(int(seconds) + 1):
        yield _text(place(second, 0)[0], TOP + height + 15, f"{second} s", "faint", "middle")
    for name, column in CURVES:
        points = " ".join("{:.1f},{:.1f}".format(*place(sample[0], sample[column])) for sample in samples)
        yield f'<polyline points="{points}" class="{name}"/>'


def _step(most):
    """Between the lines of the grid: at most eight of them, at round numbers."""
    return next(step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if most / step <= 8)


def _text(x, y, words, name="", anchor="start"):
    style = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(words)}</text>'
