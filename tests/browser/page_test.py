#!/usr/bin/env python3
"""Opens the page of `unisono trace` in a browser: with 10 ranks, with 1,000, with ranges of a profiler, in light and in dark.
  page_test.py UNISONO MAKE_TRACES FOLDER    The screenshots stay in FOLDER. Ends with 77, and says what is missing, where there is no Chromium."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

command, maker, screenshots = sys.argv[1:4]
browser = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
if browser is None:
    print("skipped: there is no browser (Debian: chromium)")
    sys.exit(77)
os.makedirs(screenshots, exist_ok=True)
wrong = []


def expect(holds, text):
    if not holds:
        wrong.append(text)
        print("wrong:", text)


def browse(url, *options):
    """What the browser prints. A profile is for one run alone: what an earlier one has not ended yet would be asked to open the page instead."""
    own = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,900", "--no-first-run", "--disable-background-networking"]
    with tempfile.TemporaryDirectory(prefix="unisono_profile_", ignore_cleanup_errors=True) as profile:
        return subprocess.run([browser, *own, "--user-data-dir=" + profile, *options, url], capture_output=True, text=True, timeout=120, check=True).stdout


def look(folder, picture, part="", dark=False):
    """Returns what the page says of itself when it is drawn, and keeps a picture of it."""
    url = "file://" + folder + "/trace.html" + part
    options = ["--blink-settings=preferredColorScheme=0"] if dark else []
    text = browse(url, "--dump-dom", "--virtual-time-budget=3000", *options)
    browse(url, "--screenshot=" + os.path.join(screenshots, picture), *options)
    root = re.search(r"<html[^>]*>", text).group()
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', root))
    expect("error" not in said, f"{picture}: the script failed: {said.get('error')}")
    expect(said.get("ready") == "yes", f"{picture}: nothing was drawn")
    return said, text


def made(ranks, steps, *words):
    folder = tempfile.mkdtemp(prefix="unisono_page_")
    subprocess.run([maker, folder, str(ranks), str(steps)], check=True)
    told = subprocess.run([command, "trace", folder, *words], check=True, capture_output=True, text=True).stdout
    return folder, told


def small_job():
    folder, told = made(10, 40)
    try:
        expect("rank 3 is the slowest" in " ".join(told.split()), "10 ranks: " + told)
        said, text = look(folder, "trace-10.png")
        expect(said.get("rows") == "10", f"10 ranks have {said.get('rows')} rows")
        expect(said.get("names", "").split("|") == [f"rank {rank}" for rank in range(10)], f"10 ranks lie by their numbers: {said.get('names')}")
        expect(int(said.get("arrows", 0)) > 10, f"10 ranks: {said.get('arrows')} arrows")
        expect("Rank 3 is the slowest" in text, "the page names the slowest rank")
        expect(text.count("<tr>") == 1 + 10 + 1 + 2, f"{text.count('<tr>')} rows of tables")
        look(folder, "trace-10-dark.png", dark=True)
        closer, _ = look(folder, "trace-part.png", "#20,30,0,4")
        expect(closer.get("rows") == "4", "four ranks alone")
        began = json.load(open(folder + "/trace.json", encoding="utf-8"))["otherData"]["began_ns"]
        event = {"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 1, "tid": 1, "ts": 20000, "dur": 5000}
        inner = {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 21000, "dur": 2000}
        profile = folder + "/profile.json"
        with open(profile, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [event, inner], "baseTimeNanoseconds": int(began)}, file)
        subprocess.run([command, "trace", folder, "--with", "0=" + profile], check=True, capture_output=True)
        _, text = look(folder, "trace-profiler.png", "#15,30,0,4")
        expect('id="has_ranges" hidden' not in text, "the page has the profiler's ranges")
    finally:
        shutil.rmtree(folder)


def large_job():
    folder, told = made(1000, 100)
    try:
        expect("1000 of 1000 ranks" in told, told[:200])
        said, text = look(folder, "trace-1000.png")
        # The slow rank, which waits least, has the first row to itself; the others are folded, and none is left out.
        first, *folded = said.get("names", "").split("|")
        expect(first == "rank 3", f"the first row of 1,000 ranks is {first}")
        expect(1 <= len(folded) < 100, f"1,000 ranks have {said.get('rows')} rows")
        numbers = [re.fullmatch(r"([\d,]+) ranks|rank \d+|(\d+) – (\d+)", name) for name in folded]
        expect(all(numbers), f"the names of rows are {folded}")
        sizes = [int(name[1].replace(",", "")) if name[1] else int(name[3]) - int(name[2]) + 1 if name[2] else 1 for name in numbers if name]
        expect(sum(sizes) == 999, f"the other rows have {sum(sizes)} ranks")
        expect(all(f">{word}<" in text for word in ("Zoom in", "Zoom out", "Sort by rank")), "the page has buttons for zooming and sorting")
        expect("show all 1,000" in text, "the table shows a part of 1,000 ranks")
        part, _ = look(folder, "trace-1000-part.png", "#20,30,0,14")
        expect(part.get("rows") == "14", "14 ranks alone")
    finally:
        shutil.rmtree(folder)


small_job()
large_job()
print(f"screenshots are in {screenshots}")
sys.exit(1 if wrong else 0)
