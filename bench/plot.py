# SPDX-License-Identifier: Apache-2.0
"""Draws the CSV of bench_longrun as SVG: throughput, latency, and what the store did meanwhile.

    plot.py longrun.csv docs/longrun.svg

Plain SVG by hand, nothing to install; it follows the reader's light or dark mode.
"""
import argparse
import csv
import math
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 960, 96, 24
PLOT = WIDTH - LEFT - RIGHT
TITLE_Y = 28
THROUGHPUT_TOP, THROUGHPUT_HEIGHT = 76, 170
LATENCY_TOP, LATENCY_HEIGHT = 312, 190
STRIPS_TOP, STRIP_HEIGHT, STRIP_STEP = 536, 12, 22
AXIS_Y = STRIPS_TOP + 2 * STRIP_STEP + 4
HEIGHT = AXIS_Y + 48

# Plain rules, no CSS variables: not every reader of SVG knows them.
LIGHT = {"ink": "#1f2328", "soft": "#59636e", "line": "#d1d9e0", "paper": "#ffffff",
         "ops": "#0969da", "p50": "#1a7f37", "p99": "#bc4c00", "max": "#8250df", "event": "#bf8700"}
DARK = {"ink": "#f0f6fc", "soft": "#9198a1", "line": "#3d444d", "paper": "#0d1117",
        "ops": "#4493f8", "p50": "#3fb950", "p99": "#f0883e", "max": "#ab7df8", "event": "#d29922"}
SHAPES = """text { font: 12px system-ui, sans-serif; }
.title { font-size: 16px; font-weight: 600; }
.name { font-weight: 600; }
.curve { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.area { opacity: 0.12; }
.strip { opacity: 0.4; }
"""


def colors(of):
    rules = [f".paper {{ fill: {of['paper']}; }}", f"text {{ fill: {of['soft']}; }}",
             f".title, .name {{ fill: {of['ink']}; }}", f".grid {{ stroke: {of['line']}; }}",
             f".strip {{ fill: {of['line']}; }}", f".area {{ fill: {of['ops']}; }}",
             f".event {{ fill: {of['event']}; }}"]
    rules += [f".{kind} {{ stroke: {of[kind]}; }}" for kind in ("ops", "p50", "p99", "max")]
    return "\n".join(rules) + "\n"


STYLE = (SHAPES + colors(LIGHT)
         + "@media (prefers-color-scheme: dark) {\n" + colors(DARK) + "}\n")


def read(path):
    with open(path, newline="") as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    if len(rows) < 2:
        raise SystemExit(f"plot: {path} has fewer than two windows")
    return rows


def short(value):
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def duration(us):
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"


def nice_step(span, count):
    """The smallest of 1, 2, 5 times a power of ten that cuts span into at most count pieces."""
    rough = span / count
    power = 10 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough)


class Drawing:
    def __init__(self, seconds):
        self.parts = []
        self.seconds = seconds

    def x(self, seconds):
        return LEFT + PLOT * seconds / self.seconds

    def add(self, markup):
        self.parts.append(markup)

    def text(self, x, y, words, kind="", anchor="start"):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
                 f"{escape(words)}</text>")

    def line(self, x1, y1, x2, y2):
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="grid"/>')

    def curve(self, points, kind):
        self.add(f'<polyline class="curve {kind}" points="'
                 + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')

    def key(self, x, y, kind, words):
        """An entry of a legend; returns where the next one begins."""
        self.add(f'<line x1="{x}" y1="{y - 4}" x2="{x + 18}" y2="{y - 4}" class="curve {kind}"/>')
        self.text(x + 24, y, words)
        return x + 44 + 7 * len(words)


def throughput(drawing, rows):
    top, bottom = THROUGHPUT_TOP, THROUGHPUT_TOP + THROUGHPUT_HEIGHT
    step = nice_step(max(row["ops"] for row in rows), 5)
    high = step * math.ceil(max(row["ops"] for row in rows) / step)

    def y(ops):
        return bottom - THROUGHPUT_HEIGHT * ops / high

    drawing.text(LEFT, top - 12, "Operations a second (begin and complete, both durable)", "name")
    for i in range(round(high / step) + 1):
        drawing.line(LEFT, y(i * step), LEFT + PLOT, y(i * step))
        drawing.text(LEFT - 8, y(i * step) + 4, short(i * step), anchor="end")
    points = [(drawing.x(row["seconds"]), y(row["ops"])) for row in rows]
    outline = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
    drawing.add('<polygon class="area" points="'
                + " ".join(f"{px:.1f},{py:.1f}" for px, py in outline) + '"/>')
    drawing.curve(points, "ops")


def latency(drawing, rows):
    top, bottom = LATENCY_TOP, LATENCY_TOP + LATENCY_HEIGHT
    low = math.floor(math.log10(max(1, min(row["p50_us"] for row in rows))))
    high = max(low + 1, math.ceil(math.log10(max(1, max(row["max_us"] for row in rows)))))

    def y(us):
        place = (math.log10(max(us, 10 ** low)) - low) / (high - low)
        return bottom - LATENCY_HEIGHT * place

    drawing.text(LEFT, top - 12, "Latency of a call, logarithmic", "name")
    x = LEFT + 240
    for kind, words in (("p50", "median"), ("p99", "99 %"), ("max", "longest")):
        x = drawing.key(x, top - 12, kind, words)
    for power in range(low, high + 1):
        drawing.line(LEFT, y(10 ** power), LEFT + PLOT, y(10 ** power))
        drawing.text(LEFT - 8, y(10 ** power) + 4, duration(10 ** power), anchor="end")
    for kind in ("max", "p99", "p50"):
        drawing.curve([(drawing.x(row["seconds"]), y(row[kind + "_us"])) for row in rows], kind)


def events(drawing, rows):
    for number, (column, words) in enumerate((("index_bytes", "index grows"),
                                              ("retired", "expiry"))):
        top = STRIPS_TOP + number * STRIP_STEP
        drawing.add(f'<rect class="strip" x="{LEFT}" y="{top}" width="{PLOT}" '
                    f'height="{STRIP_HEIGHT}"/>')
        drawing.text(LEFT - 8, top + 10, words, anchor="end")
        before = {"seconds": 0.0, column: 0.0 if column == "retired" else rows[0][column]}
        for row in rows:
            if row[column] > before[column]:
                x, width = drawing.x(before["seconds"]), row["seconds"] - before["seconds"]
                drawing.add(f'<rect class="event" x="{x:.1f}" y="{top}" '
                            f'width="{max(1, PLOT * width / drawing.seconds):.1f}" '
                            f'height="{STRIP_HEIGHT}"/>')
            before = row


def time_axis(drawing):
    step = nice_step(drawing.seconds, 12)
    for i in range(int(drawing.seconds / step + 1e-9) + 1):
        x = drawing.x(i * step)
        drawing.line(x, THROUGHPUT_TOP, x, THROUGHPUT_TOP + THROUGHPUT_HEIGHT)
        drawing.line(x, LATENCY_TOP, x, LATENCY_TOP + LATENCY_HEIGHT)
        drawing.text(x, AXIS_Y + 14, f"{i * step:.3g}", anchor="middle")
    drawing.text(LEFT + PLOT / 2, AXIS_Y + 34, "seconds", anchor="middle")


def draw(rows, title):
    drawing = Drawing(rows[-1]["seconds"])
    last = rows[-1]
    time_axis(drawing)
    throughput(drawing, rows)
    latency(drawing, rows)
    events(drawing, rows)
    drawing.text(LEFT, TITLE_Y, title, "title")
    drawing.text(LEFT + PLOT, TITLE_Y,
                 f"at the end: {short(last['keys'])} keys, index {short(last['index_bytes'])}B, "
                 f"disk {short(last['disk_bytes'])}B", anchor="end")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">\n'
            f"<style>{STYLE}</style>\n"
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>\n'
            + "\n".join(drawing.parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--title", default="A store at full load")
    options = parser.parse_args()
    options.svg.write_text(draw(read(options.csv), options.title))


if __name__ == "__main__":
    main()
