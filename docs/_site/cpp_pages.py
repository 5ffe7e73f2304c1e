"""Writes the C++ and C reference: a page for each public header, and a list of all names."""

import os
import re
from pathlib import Path

from cpp import Declarations, run_doxygen
from cpp_text import Writer
from markdown import code_span, escape, signature, slug
from pages import write_page

# Where the names of a header stand: the title of a part, and which headers it has. The first that fits counts.
PARTS = (
    ("C", re.compile(r"c\.h|c/.*")),
    ("LibTorch", re.compile(r"torch\.h|torch/.*")),
    ("Types of other libraries", re.compile(r"(mpi|eigen|mdspan|kokkos|thrust|cuda)\.h")),
    ("For authors of engines and bindings", re.compile(r"(engine|device_runtime|operation|counts|call|failure|interruption|launcher|record|export)\.h")),
    ("The library", re.compile(r".*")),
)
SPECIAL = {"export.h"}  # has nothing that a program names


def page_of(header):
    """ "work.h" → "reference/cpp/work", "c/work.h" → "reference/c/work"."""
    name = header.removesuffix(".h")
    if name == "c":
        return "reference/c/index"
    if name.startswith("c/"):
        return f"reference/{name}"
    return f"reference/cpp/{name.replace('/', '-')}"


def headers(root):
    folder = Path(root) / "include/unisono"
    found = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.h"))]
    return [name for name in found if "detail" not in Path(name).parts and name not in SPECIAL]


def pages_of_sources(root):
    """Returns the pages by the folders and headers that they are made of. A link to one of these leads to its page."""
    folders = {"include/unisono": "reference/cpp/index", "python/unisono": "reference/python/index", "tools": "reference/command/index"}
    return {**folders, **{f"include/unisono/{name}": page_of(name) for name in headers(root)}}


def prologue(path):
    """Returns the prose of a header outside of declarations as Markdown: whole lines of `//` at its beginning."""
    blocks, block = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"//(?!/)(?: (.*)|)", line)
        if match:
            block.append(match[1] or "")
            continue
        if block:
            blocks.append("\n".join(block))
        block = []
        if line.startswith(("namespace ", "/// ", "extern", "struct ", "typedef ")):
            break
    if block:
        blocks.append("\n".join(block))
    return "\n\n".join(each for each in blocks if "NOLINT" not in each and not each.startswith("#"))


class Pages:
    def __init__(self, root, xml, documents):
        self.root, self.documents = Path(root), documents
        self.headers = headers(root)
        self.declared = Declarations(root, xml)
        self.anchors = {}  # (page, id of the entry) -> anchor
        self.addresses = {"c": {}, "cpp": {}}  # name -> (page, anchor): the first header that has it counts
        for header in self.headers:
            self._number(header)

    def _number(self, header):
        """Gives every heading of the page the anchor that MyST will give it."""
        taken, page = {}, page_of(header)
        language = page.split("/")[1]

        def add(entry, outer):
            anchor = slug(title_of(entry, outer))
            taken[anchor] = taken.get(anchor, -1) + 1
            anchor += f"-{taken[anchor]}" if taken[anchor] else ""
            self.anchors[id(entry)] = anchor
            self.addresses[language].setdefault(full_name(entry, outer), (page, anchor))
            for member in entry.members:
                if member.kind == "variable":  # stands below its class, without a heading
                    self.addresses[language].setdefault(f"{full_name(entry, outer)}::{member.name}", (page, anchor))
                else:
                    add(member, full_name(entry, outer))

        taken[slug(header)] = 0
        for entry in self.declared.by_header.get(header, ()):
            add(entry, "")

    def _link_from(self, page, outer):
        language = page.split("/")[1]

        def link(text):
            if text.startswith("docs/"):
                to = self.documents.get(text)
                return os.path.relpath(to + ".md", os.path.dirname(page)) if to else None
            name = re.match(r"(?:unisono::)?([\w:]+)(\(.*\))?$", text)
            if not name or not re.search(r"[A-Z_]|\(", text):
                return None
            for wanted in (f"{outer}::{name[1]}", name[1], name[1].rpartition("::")[0]):
                to, anchor = self.addresses[language].get(wanted, (None, None))
                if to:
                    return f"#{anchor}" if to == page else f"{os.path.relpath(to + '.md', os.path.dirname(page))}#{anchor}"
            return None

        return link

    def _entry(self, entry, page, outer, level):
        own = full_name(entry, outer) if entry.kind == "class" else outer
        writer = Writer(self._link_from(page, own))
        lines = [f"{'#' * level} {escape(title_of(entry, outer))}"]
        for _, declaration, element in entry.forms:
            lines += [signature("c" if page.startswith("reference/c/") else "cpp", declaration), writer.description(element)]
            for value in element.findall("enumvalue"):
                said = writer.description(value)
                if said:
                    lines.append(f"{code_span(value.findtext('name'))}\n:   {said}")
        fields = [member for member in entry.members if member.kind == "variable"]
        for field in fields:
            _, declaration, element = field.forms[0]
            lines.append(f"{code_span(declaration.removesuffix(';'))}\n:   " + (writer.description(element) or "With the one before.").replace("\n", "\n    "))
        for member in entry.members:
            if member not in fields:
                lines += self._entry(member, page, own, level + 1)
        return [line for line in lines if line]

    def page(self, header):
        page = page_of(header)
        lines = [f"# {header}", linked_prose(prologue(self.root / "include/unisono" / header), self._link_from(page, ""))]
        for entry in self.declared.by_header.get(header, ()):
            lines += self._entry(entry, page, "", 2)
        return "\n\n".join(line for line in lines if line) + "\n"

    def names(self, page, chosen):
        """Returns the lists of an index: for each header its names, with links."""
        for header in chosen:
            to = page_of(header)
            if to == page:
                continue
            address = os.path.relpath(to + ".md", os.path.dirname(page))
            names = ", ".join(f"[{code_span(title_of(entry, ''))}]({address}#{self.anchors[id(entry)]})" for entry in self.declared.by_header.get(header, ()))
            yield f"[{code_span('unisono/' + header)}]({address})\n:   {names or 'includes other headers.'}"

    def write(self, folder):
        for header in self.headers:
            if page_of(header) != "reference/c/index":
                write_page(folder, page_of(header), self.page(header))
        by_part = {title: [] for title, _ in PARTS}
        for header in self.headers:
            by_part[next(title for title, pattern in PARTS if pattern.fullmatch(header))].append(header)
        c = by_part.pop("C")
        text = self.page("c.h").replace("# c.h", "# C", 1) + "\n## Headers and names\n\n" + "\n\n".join(self.names("reference/c/index", c)) + "\n"
        write_page(folder, "reference/c/index", text, [page_of(each) for each in c if each != "c.h"])
        lines = ["# C++", "Each public header has a page, and each name of a header stands here. All names are in the namespace `unisono`. "
                 "A program includes `unisono/unisono.h`, or only the headers that it needs."]
        order = [each for each in by_part if each == "The library"] + [each for each in by_part if each != "The library"]
        for title in order:
            lines += [f"## {title}", *self.names("reference/cpp/index", by_part[title])]
        write_page(folder, "reference/cpp/index", "\n\n".join(lines) + "\n", [page_of(each) for title in order for each in by_part[title]])


def title_of(entry, outer):
    return f"{outer}::{entry.name}" if outer and not entry.name.startswith(outer + "::") else entry.name


def full_name(entry, outer):
    return title_of(entry, outer)


def linked_prose(text, link):
    """Returns Markdown of a header with links to documents and headers of the tree."""
    out = []
    for i, part in enumerate(re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)):
        if i % 2 == 0:
            part = re.sub(r"\bdocs/[\w/-]+\.md\b", lambda m: f"[{m[0]}]({link(m[0])})" if link(m[0]) else m[0], part)
            part = re.sub(r"<(\w+)>", r"`<\1>`", part)
        out.append(part)
    return "".join(out)


def write(root, xml, folder, documents):
    Pages(root, xml, documents).write(Path(folder))
