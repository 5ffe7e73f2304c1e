"""The measured rows as a table in Markdown."""


def seconds(value):
    return f"{value:.2f} s" if value is not None else ""


def quoted(lines, most=150):
    if not lines:
        return "says nothing"
    text = " ".join(lines[0].replace("|", "/").replace("`", "'").split())
    return f"“{text[:most]}{'…' if len(text) > most else ''}”"


def codes(result):
    return "rc " + ", ".join("none" if code is None else str(code) for code in result["codes"])


def remains(result):
    parts = []
    if result.get("hangs") and result["codes"] == [None]:
        return parts  # it is still there, and so is what it uses
    if result.get("processes_left"):
        parts.append(f"**{result['processes_left']} processes left**")
    if result.get("shared_memory_left"):
        parts.append(f"**{len(result['shared_memory_left'])} files left in /dev/shm**")
    return parts


def ends(result):
    if result.get("hangs"):
        return "**hangs**" if result.get("seconds_until_known") is None else "not over when it was ended"
    return f"over after {seconds(result['seconds_until_over'])}"


def sizes(result):
    return "; ".join(f"{size.upper()}iB: {'works' if each['works'] else 'fails, ' + codes(each)}{', ' + quoted(each['says'], 70) if each['says'] else ''}"
                     for size, each in result["sizes"].items())


def cell(result):
    if "not_run" in result:
        return f"not run: {result['not_run']}"
    if "sizes" in result:
        return sizes(result)
    if "seconds_until_it_runs_again" in result:
        again = result["seconds_until_it_runs_again"]
        return f"runs again after {seconds(again)}" if again is not None else "**does not run again**"
    parts = []
    if result.get("did_not_begin"):
        return f"did not begin: {quoted(result['says'])}"
    if result.get("silently_wrong"):
        values = ", ".join(result["results"][rank] for rank in sorted(result["results"]))
        return f"**silently wrong**: {values}; {codes(result)}"
    if result.get("one_rank_returned"):
        parts.append(f"**rank {next(iter(result['results']))} got {next(iter(result['results'].values()))}**")
    if result.get("works"):
        return "works"
    if result.get("goes_on"):
        return "goes on"
    if result.get("seconds_until_known") is not None:
        parts.append(f"known after {seconds(result['seconds_until_known'])}")
    parts += [ends(result), codes(result), *remains(result), quoted(result["says"])]
    return "; ".join(parts)


def markdown(report):
    peers = report["peers"]
    lines = ["| # | fault | " + " | ".join(peer["title"] or peer["name"] for peer in peers) + " |", "|---|---|" + "---|" * len(peers)]
    for row in report["rows"]:
        cells = [cell(row["results"][peer["name"]]) for peer in peers]
        lines.append(f"| {row['id']} | {row['fault']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def times_text(times):
    if not times:
        return ""
    lines = ["", "| a killed rank is known to all others | runs | median | maximum |", "|---|---|---|---|"]
    lines += [f"| {each['where']} | {each['runs']} | {each['median'] * 1000:.1f} ms | {each['maximum'] * 1000:.1f} ms |" for each in times]
    return "\n".join(lines) + "\n"
