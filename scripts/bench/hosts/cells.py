"""Cells: the time of one peer by unisono's, for a shape, an operation and a size; their table and their summary."""

import json
import math
import statistics
import subprocess
import tempfile

PEERS = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}


def bytes_of(text):
    """Returns the bytes of a size as the bench takes it: 8, 64KiB, 1MiB."""
    for unit, factor in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


def short(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def asked_size(sizes, measured):
    """Returns the size that was asked for. The bench rounds to whole blocks, at least one of each rank, so it measures a few bytes more or less."""
    return min(sizes, key=lambda size: abs(math.log(size / measured)))


def in_order(values):
    return list(dict.fromkeys(values))


def shapes_of(cells):
    return in_order(cell["shape"] for cell in cells)


def operations_of(cells):
    return in_order(cell["op"] for cell in cells)


def sizes_of(cells):
    return sorted({cell["size"] for cell in cells})


def peers_of(cells):
    return [peer for peer in PEERS if any(cell["peer"] == peer for cell in cells)]


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def print_table(cells):
    """A row for each shape and operation. A field has the ratios of the peers in their order, and a dash for a peer that was not measured there."""
    sizes, peers = sizes_of(cells), peers_of(cells)
    found = {(cell["shape"], cell["op"], cell["size"], cell["peer"]): cell["ratio"] for cell in cells}
    print("| hosts × ranks | operation | " + " | ".join(map(short, sizes)) + " |")
    print("|---" * (2 + len(sizes)) + "|")
    for shape in shapes_of(cells):
        for op in operations_of(cells):
            fields = [[found.get((shape, op, size, peer)) for peer in peers] for size in sizes]
            if any(ratio is not None for field in fields for ratio in field):
                texts = [", ".join("–" if ratio is None else f"{ratio:.3g}" for ratio in field) for field in fields]
                print(f"| {shape.replace('x', ' × ')} | {op} | " + " | ".join(texts) + " |")


def best_of(cells):
    """Returns the cell of the fastest peer for each shape, operation and size."""
    best = {}
    for cell in cells:
        key = (cell["shape"], cell["op"], cell["size"])
        if key not in best or cell["ratio"] < best[key]["ratio"]:
            best[key] = cell
    return list(best.values())


def print_summary(cells, worst=20):
    """The geometric mean and the cells that are behind, for each peer and beside the fastest of them; then the worst cells."""
    def line(name, some):
        ratios = [cell["ratio"] for cell in some]
        print(f"{name}: geometric mean {geometric_mean(ratios):.2f} of {len(ratios)} cells, {sum(ratio < 1 for ratio in ratios)} behind it")

    print()
    for peer in peers_of(cells):
        line(PEERS[peer], [cell for cell in cells if cell["peer"] == peer])
    best = best_of(cells)
    line("the fastest peer of each cell", best)
    behind = sorted((cell for cell in best if cell["ratio"] < 1), key=lambda cell: cell["ratio"])
    if behind:
        print(f"the worst {min(worst, len(behind))} of the {len(behind)} cells that are behind:")
    for cell in behind[:worst]:
        print(f"  {cell['ratio']:.2f}  {cell['shape']} {cell['op']} {short(cell['size'])} ({PEERS[cell['peer']]})")


def row_of(cell):
    """Returns a cell as a row of `unisono bench --json`. The bench draws its ratio; a cell keeps no times, so each of them is 1."""
    hosts, each = map(int, cell["shape"].split("x"))
    times = dict.fromkeys(("median_us", "median_low_us", "median_high_us", "p99_us", "min_us", "iqr_us", "processor_us"), 1)
    conditions = {"ranks": hosts * each, "hosts": hosts, "dtype": "f32", "buffers": "private", "data": "static", "set": ""}
    ratio = dict.fromkeys(("median", "low", "high"), cell["ratio"])
    return times | conditions | {"op": cell["op"], "impl": cell["peer"], "backend": cell["peer"], "bytes": cell["size"], "version": PEERS[cell["peer"]],
                                 "ratio": ratio, "switches": {"voluntary": 0, "involuntary": 0}}


def draw(command, cells, path):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(list(map(row_of, cells)), file)
        file.flush()
        subprocess.run([command, "bench", "--from", file.name, "--plot-ratios", path], check=True, stdout=subprocess.DEVNULL)
