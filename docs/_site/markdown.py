"""Small things that all makers of pages need."""

import re


def escape(text):
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>{}|~$#])", r"\\\1", text)


def code_span(text):
    """A code span, whatever the text has in it."""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def slug(heading):
    """The anchor that MyST gives a heading of this text."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def signature(language, code):
    """A block of code that declares what the text behind it is about."""
    return f"```{{code-block}} {language}\n:class: signature\n\n{code}\n```"
