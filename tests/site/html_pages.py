"""The pages of a built site, as far as the tests look at them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class Page:
    path: Path
    links: list = field(default_factory=list)  # addresses of <a>
    resources: list = field(default_factory=list)  # (tag, address) of what a browser loads by itself
    anchors: set = field(default_factory=set)
    headings: list = field(default_factory=list)
    terms: list = field(default_factory=list)  # of lists of definitions: (the bold line before the list, text)
    signatures: list = field(default_factory=list)  # (heading, text)
    examples: list = field(default_factory=list)  # (heading, text)
    text: str = ""


class _Reader(HTMLParser):
    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.page, self.open, self.kept = page, [], []
        self.bold = ""

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        classes = (attributes.get("class") or "").split()
        if "id" in attributes:
            self.page.anchors.add(attributes["id"])
        if tag == "a" and "href" in attributes:
            self.page.links.append(attributes["href"])
        for name in ("src", "data", "poster", "srcset"):
            if attributes.get(name) and tag != "a":
                self.page.resources.append((tag, attributes[name]))
        if tag == "link" and not {"index", "search", "next", "prev", "author", "canonical", "up"} & set((attributes.get("rel") or "").split()):
            self.page.resources.append((tag, attributes.get("href", "")))
        if attributes.get("style") and "url(" in attributes["style"]:
            self.page.resources.append((tag, attributes["style"]))
        if tag not in EMPTY:
            self.open.append((tag, classes))
        if tag in ("h1", "h2", "h3", "h4", "h5", "dt", "pre", "strong"):
            self.kept.append((tag, []))

    def handle_endtag(self, tag):
        while self.open and self.open[-1][0] != tag:
            self.open.pop()
        if self.kept and self.kept[-1][0] == tag:
            self.keep(tag, "".join(self.kept.pop()[1]))
        if self.open:
            self.open.pop()

    def keep(self, tag, text):
        heading = self.page.headings[-1] if self.page.headings else ""
        if tag == "strong":
            self.bold = text
        elif tag == "dt":
            self.page.terms.append((self.bold, text))
        elif tag == "pre":
            is_signature = any("signature" in classes for _, classes in self.open)
            (self.page.signatures if is_signature else self.page.examples).append((heading, text))
        else:
            self.page.headings.append(text.removesuffix("¶").removesuffix("#").strip())
            self.bold = ""

    def handle_data(self, data):
        for _, parts in self.kept:
            parts.append(data)
        if self.open and self.open[-1][0] not in ("script", "style"):
            self.page.text += data


def read(path):
    page = Page(Path(path))
    reader = _Reader(page)
    reader.feed(Path(path).read_text(encoding="utf-8"))
    reader.close()
    return page


def read_all(folder):
    """Returns all pages, by their paths within the folder."""
    return {str(path.relative_to(folder)): read(path) for path in sorted(Path(folder).rglob("*.html"))}
