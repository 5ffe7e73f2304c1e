"""Functions for Markdown that all makers of pages share."""

import re


def escape(text):
    """Returns text that Markdown shows unchanged."""
    return re.sub(r"([\\`*_\[\]<>{}|~$#])", r"\\\1", text)


def code_span(text):
    """Returns a code span of any text."""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def slug(heading):
    """Returns the anchor that MyST gives a heading of this text."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def signature(language, code):
    """Returns a block of code with a declaration, which the text after it describes."""
    return f"```{{code-block}} {language}\n:class: signature\n\n{code}\n```"
