#!/usr/bin/env python3
"""The picture that scripts/bench/peers and `unisono bench --plot-ratios` draw: well-formed, axes with names, all text inside, a curve for each peer that differs without colours.
  ratio_plot_test.py PEERS BUILD"""
import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

script, build = sys.argv[1:3]
SVG = "{http://www.w3.org/2000/svg}"
PEERS = {"openmpi": "Open MPI v4.1.4", "openmpi-5": "Open MPI v5.0.11", "mpich": "MPICH Version: 4.0.2", "gloo": "Gloo 0.5.0",
         "impi-2021": "Intel(R) MPI Library 2021.18.1 for Linux* OS"}
SIZES = [8, 256, 4096, 16384, 65536, 1 << 20, 1 << 24]


def row(op, impl, size, ratio=None):
    common = {"op": op, "impl": impl, "backend": impl, "ranks": 2, "hosts": 1, "bytes": size, "dtype": "f32", "buffers": "private", "data": "static", "set": "openmpi",
              "median_us": 1, "median_low_us": 1, "median_high_us": 1, "p99_us": 1, "min_us": 1, "iqr_us": 0, "switches": {"voluntary": 0, "involuntary": 0},
              "processor_us": 1}
    return common | ({"version": PEERS[impl], "ratio": {"median": ratio, "low": ratio, "high": ratio}} if ratio else {})


def results():
    rows = []
    for op in ("all_reduce", "reduce_scatter"):
        for at, size in enumerate(SIZES):
            rows.append(row(op, "unisono", size))
            rows += [row(op, peer, size, 0.5 + number + at / 4) for number, peer in enumerate(PEERS) if peer != "gloo"]
            rows += [row(op, "gloo", size, 1500 / (at + 1))] if op == "all_reduce" else []
    return rows


def box_of(text):
    """Returns where a text lies from left to right: a letter of 13 pixels is 7.2 wide, a bold one 8.2."""
    width = len(text.text) * (8.2 if text.get("font-weight") == "bold" else 7.2)
    begin = float(text.get("x")) - width * {"middle": 0.5, "end": 1}.get(text.get("text-anchor"), 0)
    return begin, begin + width


def check(path):
    root = ElementTree.parse(path).getroot()
    _, _, width, height = map(float, root.get("viewBox").split())
    assert 13 / width * 80 > 2.1, f"at a width of 80 mm letters are of less than 6 points: {width} pixels"
    texts = root.findall(f"{SVG}text")
    words = [text.text for text in texts]
    for text in texts:
        begin, end = box_of(text)
        assert 0 <= begin and end <= width and 10 <= float(text.get("y")) <= height - 4, f"'{text.text}' is cut off: {begin} to {end} of {width}"
    for one in texts:
        for other in texts:
            if one is not other and abs(float(one.get("y")) - float(other.get("y"))) < 11:
                assert box_of(one)[1] <= box_of(other)[0] or box_of(other)[1] <= box_of(one)[0], f"'{one.text}' lies over '{other.text}'"
    for word in ("size of a rank's larger buffer", "time by unisono's: above 1, unisono is faster"):
        assert words.count(word) == 2, f"the axes have their names, one in each panel: {word}"
    for word in ("all_reduce", "reduce_scatter", "2 ranks, f32, private buffers, static data", "the fastest of these", "impi-2021",
                 "Open MPI v4.1.4", "Gloo 0.5.0"):
        assert words.count(word) == 1, f"{word}: {words.count(word)}"
    assert {"1", "4", "≥ 16", "8 B", "16 MiB"} <= set(words), words
    curves = [line for line in root.findall(f"{SVG}polyline") if line.get("stroke-width") == "2"]
    assert len(curves) == 5 + 4, f"{len(curves)} curves: Gloo has no reduce_scatter"
    assert {len(curve.get("points").split()) for curve in curves} == {len(SIZES)}
    assert len({curve.get("stroke-dasharray") for curve in curves[:5]}) == 5, "every peer has dashes of its own"
    tops = [min(float(point.split(",")[1]) for point in curve.get("points").split()) for curve in root.findall(f"{SVG}polyline")]
    assert min(tops) > 0, "every curve is inside"


with tempfile.TemporaryDirectory() as folder:
    kept, picture = f"{folder}/kept.json", f"{folder}/ratios.svg"
    with open(kept, "w", encoding="utf-8") as file:
        json.dump(results(), file)
    subprocess.run([script, "--build", build, "--from", kept, "--plot", picture], check=True, stdout=subprocess.DEVNULL)
    check(picture)
    with open(kept, "w", encoding="utf-8") as file:
        json.dump([row("all_reduce", "unisono", 8)], file)
    alone = subprocess.run([f"{build}/bin/unisono", "bench", "--from", kept, "--plot-ratios", picture], capture_output=True, text=True, check=False)
    assert alone.returncode == 2 and re.search("no result of another library", alone.stderr), alone
