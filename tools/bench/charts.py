"""Pictures of ./dev bench: ratio bars, compile times on a log axis, calls a second over instances."""

import math

STYLE = (
    "text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.note{fill:#777;font-size:11px}"
    ".ours{fill:#c4501b}.peer{fill:#b9b4ab}.grid{stroke:#e4dfd6}.line{fill:none;stroke-width:2.5}"
    ".line.ours{stroke:#c4501b}.line.peer{stroke:#8d877c;stroke-dasharray:5 4}"
)


def document(body, width, height):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fffdf9"/>{"".join(body)}</svg>\n'
    )


def kind(label):
    return "ours" if label == "kiln" else "peer"


def bars(title, groups, width_of, text_of, grid=()):
    """Groups of (title, {label: value}) as horizontal bars. `grid`: (x, text) of lines behind them."""
    body, y = [f'<text x="16" y="26" class="title">{title}</text>'], 58
    top = y - 8
    for name, values in groups:
        body.append(f'<text x="16" y="{y + 12}" class="title">{name}</text>')
        y += 22
        for label, value in values.items():
            width = max(2.0, width_of(value))
            body.append(
                f'<text x="150" y="{y + 14}" text-anchor="end">{label}</text>'
                f'<rect x="160" y="{y}" width="{width:.0f}" height="18" rx="3" class="{kind(label)}"/>'
                f'<text x="{168 + width:.0f}" y="{y + 14}">{text_of(label, value, name)}</text>'
            )
            y += 23
        y += 14
    lines = [
        f'<line x1="{160 + x:.0f}" x2="{160 + x:.0f}" y1="{top}" y2="{y - 14}" class="grid"/>'
        f'<text x="{160 + x:.0f}" y="{top - 4}" text-anchor="middle" class="note">{text}</text>'
        for x, text in grid
    ]
    return document(lines + body, 720, y)


def ratio_bars(rows):
    times = {row["what"]: row["ms"] for row in rows}
    most = max(ratio for row in rows for ratio in row["ratio"].values())
    scale = 400 / most
    text = lambda label, ratio, name: f"{ratio:.2f}x, {times[name][label]:.3f} ms"
    groups = [(row["what"], row["ratio"]) for row in rows]
    title = "How many times as long as Kiln a call takes"
    return bars(title, groups, lambda ratio: ratio * scale, text, [(scale, "1x")])


def compile_bars(rows):
    """On a log axis: what takes ten times as long is 110 pixels longer."""
    groups = [(row["what"], row["compile_s"]) for row in rows]
    least = min(seconds for _, values in groups for seconds in values.values())
    first = math.floor(math.log10(least))
    place = lambda seconds: 110 * (math.log10(seconds) - first)
    last = math.ceil(math.log10(max(seconds for _, values in groups for seconds in values.values())))
    grid = [(place(10.0**power), f"{10.0**power:g} s") for power in range(first, last + 1)]
    return bars("Compiling, seconds on a log axis", groups, place, lambda label, s, name: f"{s:.2f} s", grid)


def scaling_curves(rows):
    """One panel a model: calls a second over instances, each axis from nothing."""
    rows = [row for row in rows if row.get("served")]
    body = ['<text x="16" y="26" class="title">Calls a second over instances, in the same runner</text>']
    width, height, columns = 230, 190, 3
    for number, row in enumerate(rows):
        left, top = 30 + number % columns * width, 50 + number // columns * height
        curves = {label: served["throughput"] for label, served in row["served"].items()}
        most = max(rate for rates in curves.values() for rate in rates.values())
        counts = sorted({int(count) for rates in curves.values() for count in rates})
        x = lambda count: left + 10 + (width - 60) * (counts.index(count) / max(1, len(counts) - 1))
        y = lambda rate: top + 130 - 110 * rate / most
        body.append(f'<text x="{left}" y="{top + 8}" class="title">{row["name"]}</text>')
        body.append(f'<line x1="{left}" x2="{left + width - 40}" y1="{top + 130}" y2="{top + 130}" class="grid"/>')
        body += [f'<text x="{x(n):.0f}" y="{top + 146}" text-anchor="middle" class="note">{n}</text>' for n in counts]
        for label, rates in curves.items():
            points = [(x(int(count)), y(rate)) for count, rate in rates.items()]
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            body.append(f'<polyline points="{path}" class="line {kind(label)}"/>')
            body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" class="{kind(label)}"/>' for a, b in points]
        body.append(f'<text x="{left + width - 42}" y="{top + 8}" text-anchor="end" class="note">{most:.0f}/s</text>')
    bottom = 50 + math.ceil(len(rows) / columns) * height
    body.append(f'<text x="30" y="{bottom}" class="note">solid: Kiln; dashed: AOTInductor</text>')
    return document(body, 30 + columns * width, bottom + 16)
