"""The list of what survives, with a word on each."""

import hashlib
import json

CAUGHT = {"red", "time", "memory"}
HEAD = """# Mutations that no test tells

`scripts/test/mutants` changes one thing at a time in the sources named here and runs the tests; what stays green is written below: its mark, by which
`scripts/test/mutants --list` shows the change, its function, and behind the dash why that is no gap of the tests. A line without such a word is one that
nobody has looked at; the script ends with 1 then.
"""
NONE = "?"


def results(file):
    """The last verdict on each mutation."""
    found = {}
    if file.exists():
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            found[entry["key"]] = entry
    return found


def mark(mutant):
    """The name of a mutation in the list: a hash, which stays the same where its file moves, and the function."""
    text = mutant["key"].removeprefix(mutant["path"] + " ")
    return f"{hashlib.sha256(text.encode()).hexdigest()[:8]} {mutant['where']}".rstrip()


def words(file):
    """By file and mark."""
    found, path = {}, ""
    for line in file.read_text().splitlines() if file.exists() else []:
        if line.startswith("## "):
            path = line[3:]
        elif line.startswith("- "):
            name, _, word = line[2:].partition(" — ")
            found[path, name] = word
    return found


def sections(file):
    """By path, the text of its survivors."""
    return {text.partition("\n")[0]: f"\n## {text.rstrip()}\n" for text in (file.read_text().split("\n## ")[1:] if file.exists() else [])}


def write(file, mutants, verdicts):
    """Writes the list anew and returns how many survivors it has, and how many of these have no word. Sources that were not read this time keep theirs."""
    known, root = words(file), file.resolve().parents[2]
    unread = sections(file).keys() - {mutant["path"] for mutant in mutants.values()}
    lines, path, count, bare = [HEAD], "", 0, 0
    lines += [text for path, text in sections(file).items() if path in unread and (root / path).exists()]
    for mutant in mutants.values():
        verdict = verdicts.get(mutant["key"])
        # A mutation that was not asked again keeps its line.
        name = mark(mutant)
        if verdict is None and (mutant["path"], name) not in known or verdict is not None and verdict["verdict"] in CAUGHT:
            continue
        if mutant["path"] != path:
            path = mutant["path"]
            lines.append(f"\n## {path}\n\n")
        word = known.get((path, name), NONE)
        lines.append(f"- {name} — {word}\n")
        count += 1
        bare += word == NONE
    file.write_text("".join(lines))
    return count, bare
