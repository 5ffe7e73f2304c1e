"""Writes the reference of the command: its manual pages, which `unisono help` shows as well, by pandoc."""

import re
import subprocess
from pathlib import Path

from markdown import code_span
from pages import write_page


def page_of(name):
    return "reference/command/" + {"unisono": "index"}.get(name, name.removeprefix("unisono-"))


def markdown_of(path):
    """Returns the purpose of a manual page, and its text as Markdown without NAME."""
    text = subprocess.run(["pandoc", "--from=man", "--to=commonmark_x-smart", "--wrap=none", str(path)], check=True, capture_output=True, text=True).stdout
    name, _, rest = text.partition("\n# SYNOPSIS\n") if "\n# SYNOPSIS\n" in text else text.partition("\n# DESCRIPTION\n")
    purpose = re.sub(r"\s+", " ", name.partition("# NAME")[2]).strip().replace("\\", "").partition(" - ")[2]
    head = "SYNOPSIS" if "\n# SYNOPSIS\n" in text else "DESCRIPTION"
    rest = re.sub(r"^(#+) (.*)$", lambda m: f"{m[1]}# {m[2].capitalize()}", f"# {head}\n{rest}", flags=re.M)
    return purpose, rest


def linked(text, names, own):
    """Returns the text with links to other manual pages."""
    def link(match):
        name = match[1]
        return f"[{code_span(name)}]({page_of(name).removeprefix('reference/command/')}.md)" if name in names and name != own else code_span(name)

    return re.sub(r"\*\*(unisono(?:-[a-z]+)?)\*\*\(\d\)", link, text)


def write(manual, folder):
    """Writes the pages from `manual`, whose folders man1 and man7 the build has made."""
    found = sorted(Path(manual).glob("man[17]/*"))
    names = {path.stem for path in found}
    if "unisono" not in names:
        raise RuntimeError(f"{manual} has no page of the command: it is built without its sub-commands")
    pages = {}
    for path in found:
        purpose, text = markdown_of(path)
        pages[path.stem] = purpose
        title = {"unisono": "The command", "unisono-environment": "Environment variables"}.get(path.stem, path.stem.replace("-", " ", 1))
        body = f"# {title}\n\n{purpose[:1].upper()}{purpose[1:]}.\n\n{linked(text, names, path.stem)}\n"
        children = [page_of(name) for name in sorted(names - {"unisono", "unisono-environment"})] + [page_of("unisono-environment")]
        if path.stem == "unisono":
            write_page(Path(folder), "reference/command/index", body, children)
        else:
            write_page(Path(folder), page_of(path.stem), body)
