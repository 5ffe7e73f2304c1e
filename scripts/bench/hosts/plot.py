"""The plot of cells: a panel for each operation and shape, sizes from left to right, ratios upwards on a logarithmic scale; the black line is 1."""

import math
from xml.sax.saxutils import escape

from hosts.cells import PEERS, operations_of, peers_of, shapes_of, short, sizes_of

COLOURS = {"openmpi": "#d95f02", "mpich": "#1b9e77", "gloo": "#7570b3"}
WIDTH, HEIGHT, LEFT, TOP = 190, 130, 90, 50
LEAST, MOST = 0.25, 256.0
MARKS = (0.5, 1, 4, 16, 64)


def height_of(ratio):
    part = (math.log2(min(max(ratio, LEAST), MOST)) - math.log2(LEAST)) / (math.log2(MOST) - math.log2(LEAST))
    return HEIGHT - 18 - part * (HEIGHT - 30)


def heading(shapes, operations, peers):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH * len(shapes) + 10}" height="{TOP + HEIGHT * len(operations) + 30}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>']
    for i, peer in enumerate(peers):
        out.append(f'<text x="{LEFT + 220 * i}" y="18" fill="{COLOURS[peer]}">{escape(PEERS[peer])}: its time by unisono\'s</text>')
    for column, shape in enumerate(shapes):
        out.append(f'<text x="{LEFT + WIDTH * column + WIDTH / 2}" y="40" text-anchor="middle">{escape(shape.replace("x", " hosts × "))}</text>')
    return out


def scale(with_numbers):
    out = [f'<rect x="4" y="6" width="{WIDTH - 12}" height="{HEIGHT - 18}" fill="none" stroke="#ccc"/>']
    for mark in MARKS:
        y = height_of(mark)
        out.append(f'<line x1="4" x2="{WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="{"#000" if mark == 1 else "#eee"}"/>')
        if with_numbers:
            out.append(f'<text x="0" y="{y + 3:.1f}" text-anchor="end" font-size="9">{mark:g}</text>')
    return out


def curve(ratios, colour, step):
    """The line of one peer; `ratios` has None for a size that was not measured."""
    points = [(14 + step * i, height_of(ratio)) for i, ratio in enumerate(ratios) if ratio is not None]
    out = [f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    return out + [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}"/>' for x, y in points]


def draw(cells, path):
    shapes, operations, sizes, peers = shapes_of(cells), operations_of(cells), sizes_of(cells), peers_of(cells)
    found = {(cell["shape"], cell["op"], cell["size"], cell["peer"]): cell["ratio"] for cell in cells}
    step = (WIDTH - 30) / max(len(sizes) - 1, 1)
    out = heading(shapes, operations, peers)
    for row, op in enumerate(operations):
        out.append(f'<text x="{LEFT - 34}" y="{TOP + HEIGHT * row + HEIGHT / 2}" text-anchor="end">{escape(op)}</text>')
        for column, shape in enumerate(shapes):
            out.append(f'<g transform="translate({LEFT + WIDTH * column},{TOP + HEIGHT * row})">')
            out += scale(with_numbers=column == 0)
            for peer in peers:
                out += curve([found.get((shape, op, size, peer)) for size in sizes], COLOURS[peer], step)
            if row == len(operations) - 1:
                out += [f'<text x="{14 + step * i:.1f}" y="{HEIGHT + 2}" text-anchor="middle" font-size="8">{escape(short(size))}</text>'
                        for i, size in enumerate(sizes)]
            out.append("</g>")
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
