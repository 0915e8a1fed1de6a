# SPDX-License-Identifier: Apache-2.0
"""pictures.py: draws the pictures of docs/guides/payments.md again, into docs/pictures.

A sequence is a list of steps between lanes; time runs downward. Colours follow the reader's light
or dark setting, and whatever a colour says stands there in words too. The bars are drawn from the
numbers that the guide shows. tests/e2e/test_demo.py checks that the files are what this script
draws.
"""
import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "payments.md"
FOLDER = ROOT / "docs" / "pictures"

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #59636e; }
.title { font-size: 16px; font-weight: 600; fill: #1f2328; }
.name { font-weight: 600; fill: #1f2328; }
.say { fill: #1f2328; }
.halo { stroke: #ffffff; stroke-width: 5; stroke-linejoin: round; paint-order: stroke; }
.paper { fill: #ffffff; }
.box { fill: #f6f8fa; stroke: #d1d9e0; }
.life { stroke: #d1d9e0; stroke-width: 1.5; }
.pause { stroke: #bf8700; stroke-width: 5; stroke-dasharray: 3 6; }
.arrow { stroke: #59636e; stroke-width: 1.5; fill: none; }
.head { fill: #59636e; }
.good { stroke: #1a7f37; } .goodfill { fill: #1a7f37; }
.bad { stroke: #cf222e; stroke-width: 2; } .badfill { fill: #cf222e; }
.warn { stroke: #9a6700; } .warnfill { fill: #9a6700; }
.goodbar { fill: #1a7f37; } .badbar { fill: #cf222e; } .lostbar { fill: #9a6700; }
.onbar { fill: #ffffff; font-weight: 600; }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1; }
.title, .name, .say { fill: #f0f6fc; }
.halo { stroke: #0d1117; }
.paper { fill: #0d1117; }
.box { fill: #151b23; stroke: #3d444d; }
.life { stroke: #3d444d; }
.pause { stroke: #d29922; }
.arrow { stroke: #9198a1; }
.head { fill: #9198a1; }
.good { stroke: #3fb950; } .goodfill { fill: #3fb950; }
.bad { stroke: #f85149; } .badfill { fill: #f85149; }
.warn { stroke: #d29922; } .warnfill { fill: #d29922; }
.goodbar { fill: #238636; } .badbar { fill: #da3633; } .lostbar { fill: #9e6a03; }
.onbar { fill: #ffffff; }
}
"""
ROW, TOP = 38, 92


class Picture:
    def __init__(self, width, height, title, description):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                      f'width="{width}" height="{height}" role="img" aria-labelledby="t d">',
                      f'<title id="t">{escape(title)}</title>',
                      f'<desc id="d">{escape(description)}</desc>', f"<style>{STYLE}</style>",
                      f'<rect class="paper" width="{width}" height="{height}"/>']
        self.text(24, 32, title, "title", "start")

    def text(self, x, y, text, kind="", anchor="middle"):
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">'
                          f"{escape(text)}</text>")

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{kind}"/>')

    def box(self, x, y, width, height, name, below=""):
        self.parts.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" '
                          'rx="6"/>')
        middle = x + width / 2
        self.text(middle, y + (height / 2 + 5 if not below else height / 2 - 4), name, "name")
        if below:
            self.text(middle, y + height / 2 + 14, below)

    def arrow(self, x1, y1, x2, y2, kind=""):
        """With a head at its end."""
        self.line(x1, y1, x2, y2, f"arrow {kind}")
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        points = " ".join(f"{x2 - 9 * ux + side * 4.5 * uy:.1f},{y2 - 9 * uy - side * 4.5 * ux:.1f}"
                          for side in (1, -1))
        fill = kind and kind + "fill"
        self.parts.append(f'<polygon class="head {fill}" points="{x2},{y2} {points}"/>')

    def cross(self, x, y, kind="bad"):
        self.line(x - 6, y - 6, x + 6, y + 6, kind)
        self.line(x - 6, y + 6, x + 6, y - 6, kind)

    def write(self, name):
        return name, "\n".join([*self.parts, "</svg>", ""])


class Sequence(Picture):
    """Lanes: {name: x}. Steps are drawn one below the other."""

    def __init__(self, width, rows, title, description, lanes):
        super().__init__(width, TOP + ROW * rows + 16, title, description)
        self.lanes, self.y = lanes, TOP
        end = TOP + ROW * rows
        for name, x in lanes.items():
            self.line(x, 78, x, end, "life")
            self.box(x - 58, 48, 116, 30, name)

    def next(self):
        self.y += ROW
        return self.y - 8

    def say(self, a, b, text, kind="", lost=False):
        """A message from lane a to lane b; a lost one ends half way, in a cross."""
        y, x1, x2 = self.next(), self.lanes[a], self.lanes[b]
        if lost:
            x2 = x1 + (x2 - x1) * 0.55
            self.line(x1, y, x2, y, "arrow bad")
            self.cross(x2, y)
        else:
            self.arrow(x1, y, x2, y, kind)
        x = (x1 + self.lanes[b]) / 2
        self.text(x, y - 7, text, f"say halo {'badfill' if lost else kind and kind + 'fill'}")

    def note(self, lane, text, kind="", anchor="start"):
        y, x = self.next(), self.lanes[lane]
        self.text(x + {"start": 12, "middle": 0, "end": -12}[anchor], y, text,
                  f"halo {kind and kind + 'fill'}", anchor)

    def dead(self, lane, text, anchor="start"):
        y, x = self.next(), self.lanes[lane]
        self.cross(x, y - 4)
        self.text(x + (14 if anchor == "start" else -14), y, text, "halo badfill", anchor)

    def pause(self, lane, rows):
        """The lane sleeps from here for so many rows."""
        x = self.lanes[lane]
        self.line(x, self.y + 4, x, self.y + rows * ROW - 6, "pause")


def parts():
    p = Picture(880, 330, "What takes part",
                "Customers send requests through a lossy network to three instances of the "
                "payment service. Each instance asks Once and writes to the ledger. The "
                "reconciler reads the doubts at Once and looks into the ledger.")
    p.box(24, 116, 130, 64, "customers", "retry, same key")
    p.box(204, 116, 180, 64, "lossy network", "loses, doubles, delays")
    for i in range(3):
        p.box(444, 60 + 64 * i, 150, 48, f"service {i + 1}", "killed, paused")
    p.box(700, 60, 156, 64, "Once", "once serve")
    p.box(700, 186, 156, 64, "ledger", "append only, fsync")
    p.box(444, 266, 150, 44, "reconciler", "ends doubts")
    p.arrow(154, 148, 202, 148)
    for i in range(3):
        p.arrow(384, 148, 442, 84 + 64 * i)
        p.arrow(594, 76 + 64 * i, 698, 76 + 16 * i)
        p.arrow(594, 92 + 64 * i, 698, 204 + 12 * i)
    p.arrow(594, 280, 728, 126)
    p.arrow(594, 294, 698, 242)
    return p.write("payments-parts.svg")


def replay():
    s = Sequence(900, 10, "With Once: a retry gets the first answer",
                 "The service asks Once, is told EXECUTE with fence 1, writes to the ledger and "
                 "completes. The answer is lost. The retry carries the same key, Once says "
                 "REPLAY, the customer gets the first answer, and the ledger has one entry.",
                 {"customer": 90, "service": 370, "Once": 610, "ledger": 810})
    s.say("customer", "service", "charge 85.52, key order-1")
    s.say("service", "Once", "begin order-1")
    s.say("Once", "service", "EXECUTE, fence 1", "good")
    s.say("service", "ledger", "write 85.52 under fence 1: ch_1")
    s.say("service", "Once", "complete, fence 1, \"ch_1\"")
    s.say("service", "customer", "201 ch_1: the network loses it", lost=True)
    s.say("customer", "service", "again: charge 85.52, key order-1")
    s.say("service", "Once", "begin order-1")
    s.say("Once", "service", "REPLAY \"ch_1\"", "good")
    s.say("service", "customer", "201 ch_1: the first answer", "good")
    return s.write("payments-replay.svg")


def without():
    s = Sequence(900, 6, "Without Once: a retry is a second charge",
                 "The service writes the charge to the ledger, its answer is lost, the customer "
                 "tries again, and the ledger has two entries.",
                 {"customer": 90, "service": 450, "ledger": 810})
    s.say("customer", "service", "charge 85.52")
    s.say("service", "ledger", "write 85.52: ch_1")
    s.say("service", "customer", "201 ch_1: the network loses it", lost=True)
    s.say("customer", "service", "again: charge 85.52")
    s.say("service", "ledger", "write 85.52: ch_5, the second charge", "bad")
    s.say("service", "customer", "201 ch_5")
    return s.write("payments-without.svg")


def doubt():
    s = Sequence(900, 12, "The service is killed: a doubt, a look, an answer",
                 "A service begins, writes to the ledger, and is killed before it can say so. "
                 "When its lease is over the operation is in doubt, and a retry is told so. The "
                 "reconciler closes the ledger's door to the old fence, finds the entry, and "
                 "resolves the operation as done. The next retry gets the answer.",
                 {"service": 90, "Once": 330, "ledger": 580, "reconciler": 810})
    s.say("service", "Once", "begin order-22")
    s.say("Once", "service", "EXECUTE, fence 7", "good")
    s.say("service", "ledger", "write under fence 7: ch_31")
    s.dead("service", "kill -9, before it could say \"complete\"")
    s.note("Once", "the lease is over: in doubt. Nobody runs it again.", "warn")
    s.say("reconciler", "Once", "which are in doubt?")
    s.say("Once", "reconciler", "order-22, fence 7", "warn")
    s.say("reconciler", "ledger", "keep out fences up to 7; look")
    s.say("ledger", "reconciler", "ch_31 is there", "good")
    s.say("reconciler", "Once", "resolve: done, \"ch_31\", fence 7")
    s.note("service", "started again; the customer tries again:")
    s.say("Once", "service", "REPLAY \"ch_31\"", "good")
    return s.write("payments-doubt.svg")


def paused():
    s = Sequence(900, 13, "A writer is paused, and wakes up too late",
                 "Writer A begins with fence 8 and is paused before it writes. Its lease ends, "
                 "the reconciler closes the ledger's door to fence 8, finds nothing, and resolves "
                 "the operation as not done. Writer B gets fence 10, writes and completes. A "
                 "wakes up and writes with fence 8: the ledger refuses. A tells Once: STALE.",
                 {"writer A": 90, "writer B": 260, "Once": 480, "ledger": 640, "reconciler": 820})
    s.say("writer A", "Once", "begin order-13")
    s.say("Once", "writer A", "EXECUTE, fence 8", "good")
    s.pause("writer A", 7)
    s.note("writer A", "paused (SIGSTOP), before it writes", "warn")
    s.note("Once", "lease over: in doubt", "warn", "middle")
    s.say("reconciler", "ledger", "keep out up to 8; look: none")
    s.say("reconciler", "Once", "resolve: not done, fence 8")
    s.say("writer B", "Once", "begin: EXECUTE, fence 10", "good")
    s.say("writer B", "ledger", "write under fence 10: ch_40", "good")
    s.say("writer B", "Once", "complete, fence 10")
    s.note("writer A", "wakes up, and goes on as if nothing had happened", "warn")
    s.say("writer A", "ledger", "write under fence 8", "bad")
    s.say("ledger", "writer A", "refused: 8 is too low", "bad")
    s.say("writer A", "Once", "fail, fence 8: STALE", "bad")
    return s.write("payments-paused.svg")


def bars():
    """The three ledgers of the run that the guide shows."""
    def numbers(name):
        found = re.search(rf"^  {name} +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+)$", GUIDE.read_text(),
                          re.MULTILINE)
        return [int(number.replace(",", "")) for number in found.groups()]
    exactly, more, never = map(numbers, ("charged exactly once", "charged twice or more often",
                                         "never charged"))
    count = exactly[0]
    names = ("without Once, one try", "without Once, retries", "with Once, retries")
    told = "; ".join(f"{name}: {exactly[i]} exactly once, {more[i]} more often, {never[i]} never"
                     for i, name in enumerate(names, 1))
    p = Picture(880, 256, f"{count} orders, three ledgers", told + ".")
    left, width = 190, 640
    for i, name in enumerate(names, 1):
        y, x = 28 + 52 * i, left
        p.text(left - 12, y + 22, name, "name", "end")
        for value, kind in ((exactly[i], "goodbar"), (more[i], "badbar"), (never[i], "lostbar")):
            size = width * value / count
            if value:
                p.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{size:.1f}" '
                               'height="34"/>')
            if size > 26:
                p.text(f"{x + size / 2:.1f}", y + 22, str(value), "onbar")
            x += size
    for x, kind, name in ((left, "goodbar", "charged exactly once"),
                          (left + 190, "badbar", "twice or more often"),
                          (left + 370, "lostbar", "never charged")):
        p.parts.append(f'<rect class="{kind}" x="{x}" y="230" width="12" height="12"/>')
        p.text(x + 18, 241, name, "", "start")
    return p.write("payments-ledgers.svg")


def pictures():
    """{file name: its text}"""
    return dict([parts(), without(), replay(), doubt(), paused(), bars()])


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
