"""Looks for the messages that the pages of docs/troubleshooting quote in the sources, so that a reader who searches for a message finds its page.

    messages_test.py SOURCE

A message is what stands between backquotes in the first cell of a table whose first column is called `message`. `…` in it is the part that differs; the
parts around it are looked for in one file. Two messages in a cell are looked for one by one.
"""

import re
import sys
from pathlib import Path

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
QUOTED = re.compile(r"`` (.+?) ``|`([^`]+)`")
LEAST = 8  # letters that a message has at least: less is found anywhere


def literals(path):
    """Returns the texts of a file's literals in their order, as one text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return re.sub(r"\{[^{}]*\}", "\0", re.sub(r'"\s*\n\s*f?"', "", text))
    found = LITERAL.findall(re.sub(r'"\s*\n\s*"', "", text))
    return re.sub(r"\{[^{}]*\}", "\0", "\0".join(found).replace('\\"', '"'))


def messages(path):
    """Yields each quoted message of a page with its line."""
    is_quoting = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.startswith("|"):
            is_quoting = False
            continue
        first = line.split("|")[1].strip()
        if first == "message":
            is_quoting = True
        elif is_quoting and not set(first) <= set("-: "):
            yield from ((number, one or other) for one, other in QUOTED.findall(first))


def is_in(message, texts):
    parts = [part for part in re.split("…", message) if part.strip()]
    if sum(map(len, parts)) < LEAST:
        return False
    return any(all(part in text for part in parts) for text in texts)


def main():
    source = Path(sys.argv[1])
    files = [path for folder in ("src", "tools", "python") for suffix in ("*.cpp", "*.h", "*.py") for path in sorted((source / folder).rglob(suffix))]
    texts = [literals(path) for path in files]
    quoted = [(page, line, message) for page in sorted((source / "docs/troubleshooting").glob("*.md")) for line, message in messages(page)]
    missing = [f"{page.relative_to(source)}:{line}: no source has this message: {message}" for page, line, message in quoted if not is_in(message, texts)]
    print(f"{len(quoted)} messages of {len({page for page, _, _ in quoted})} pages", *missing, sep="\n")
    if len(quoted) < 100:
        sys.exit("too few messages: is the first column of the tables still called \"message\"?")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
