"""The pages of the site: which documents of the tree become pages, where their links lead, and in which order the navigation shows them."""

import os
import re
import shutil
from functools import cache
from pathlib import Path

from markdown import slug

AT_TOP = {"README.md": "project/readme", "CHANGELOG.md": "project/changelog", "CONTRIBUTING.md": "project/contributing", "SECURITY.md": "project/security"}
TITLES = {"project/readme": "README <{}>"}  # in the navigation, where a page's own would not do
FENCE = re.compile(r"^ *(```+|~~~+)")
# Code spans come first, so that what looks like a link within one is left alone.
LINK = re.compile(r"(?P<code>(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))|(?P<image>!)?(?P<text>\[(?:[^\[\]`]|`[^`]*`|!\[[^\]]*\]\([^)]*\))*\])\((?P<to>[^()\s]+)\)", re.S)
DEFINITION = re.compile(r"^(?P<label> {0,3}\[[^\]\n]+\]: +)(?P<to>\S+)", re.M)  # of a link that the text names by its label
COMMENT = re.compile(r"<!--.*?-->", re.S)


class Problems(Exception):
    """The mistakes of the documents, one on each line."""


def split_code(text):
    """Yields (is code, lines) of each part of a document. Fenced blocks are code, with their fences."""
    part, fence = [], None
    for line in text.splitlines(keepends=True):
        match = FENCE.match(line)
        if fence is None and match:
            yield False, "".join(part)
            part, fence = [line], match[1]
        elif fence is not None and match and match[1].startswith(fence) and line.strip() == match[1]:
            part.append(line)
            yield True, "".join(part)
            part, fence = [], None
        else:
            part.append(line)
    yield fence is not None, "".join(part)


@cache
def anchors(path):
    """Returns the anchors of a document's headings."""
    found = set()
    for is_code, part in split_code(path.read_text(encoding="utf-8")):
        for heading in () if is_code else re.findall(r"^#+ +(.*?)#* *$", COMMENT.sub("", part), re.M):
            anchor = slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", ""))
            while anchor in found:
                base, _, number = anchor.rpartition("-")
                anchor = f"{base}-{int(number) + 1}" if base and number.isdigit() else f"{anchor}-1"
            found.add(anchor)
    return found


class Site:
    """`generated` maps paths of the tree to pages that are made of them: "include/unisono/work.h" to "reference/cpp/work"."""

    def __init__(self, root, repository, branch, generated):
        self.root, self.repository, self.branch = Path(root), repository, branch
        self.pages = {str(path.relative_to(self.root)): name for path, name in self._documents()}
        folders = {os.path.dirname(path): page for path, page in self.pages.items() if path.endswith("/README.md")}
        self.targets = {**generated, **folders, **self.pages}
        self.problems = []
        self.children = {}  # page -> the pages that its list names, in order
        self.images = {}  # path in the tree -> path in the site's sources

    def _documents(self):
        for path in sorted((self.root / "docs").rglob("*.md")):
            yield path, str(path.relative_to(self.root / "docs").with_suffix(""))
        for name, page in AT_TOP.items():
            yield self.root / name, page
        for path in sorted((self.root / "examples").rglob("README.md")):
            yield path, str(path.relative_to(self.root).parent / "index")

    def _source_address(self, path):
        kind = "tree" if (self.root / path).is_dir() else "blob"
        return f"{self.repository}/{kind}/{self.branch}/{path}"

    def _address(self, target, path, line, is_image):
        """Returns the address to which a link of the document leads on the site."""
        if re.match(r"[a-z]+:|//", target):
            return target
        file, hash_sign, anchor = target.partition("#")
        wanted = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if anchor and wanted.endswith(".md") and (self.root / wanted).is_file() and anchor not in anchors(self.root / wanted):
            self.problems.append(f"{path}:{line}: the link {target} leads to no heading")
        if not file:
            return target
        page = self.pages.get(path, "")
        if wanted in self.targets:
            to = self.targets[wanted]
            self.children.setdefault(page, []).append(to)
            return os.path.relpath(to + ".md", os.path.dirname(page)) + hash_sign + anchor
        if wanted.startswith("..") or not (self.root / wanted).exists():
            self.problems.append(f"{path}:{line}: the link {target} leads to nothing")
            return target
        if is_image:
            self.images[wanted] = wanted.removeprefix("docs/")
            return os.path.relpath(self.images[wanted], os.path.dirname(page))
        return self._source_address(wanted) + hash_sign + anchor

    def converted(self, path):
        """Returns the text of a document without comments and with the links of the site. Its lines stay the same."""
        out, line = [], 1
        for is_code, part in split_code((self.root / path).read_text(encoding="utf-8")):
            if not is_code:
                begin, whole = line, part

                def link(match):
                    if match["code"]:
                        return match[0]
                    at = begin + whole.count("\n", 0, match.start())
                    text = LINK.sub(link, match["text"]) if "](" in match["text"] else match["text"]
                    return f"{match['image'] or ''}{text}({self._address(match['to'], path, at, bool(match['image']))})"

                def definition(match):
                    return match["label"] + self._address(match["to"], path, begin + whole.count("\n", 0, match.start()), False)

                whole = COMMENT.sub(lambda m: "\n" * m[0].count("\n"), part)
                whole = DEFINITION.sub(definition, whole)
                part_out = LINK.sub(link, whole)
            else:
                part_out = part
            out.append(part_out)
            line += part.count("\n")
        return "".join(out)

    def home(self, page):
        """Returns the page whose list names this one; "" for the first page."""
        folder, name = os.path.split(page)
        if page == "index":
            return ""
        if name == "index":
            folder = os.path.dirname(folder)
        if folder.startswith("examples/"):
            folder = "examples"
        return "index" if folder in ("", "project") else f"{folder}/index"

    def _lists(self):
        """Returns the pages that each list names. The list of a folder names all of its pages."""
        lists = {page: list(dict.fromkeys(each for each in named if self.home(each) == page))
                 for page, named in self.children.items() if page.endswith("index")}
        made_of_sources = set(self.targets.values()) - set(self.pages.values())
        paths = {page: path for path, page in self.pages.items()}
        for path, page in self.targets.items():
            home = self.home(page)
            if home and home not in made_of_sources and page not in lists.get(home, []):
                self.problems.append(f"{path}: the page is in no list: link it in {paths.get(home, 'docs/' + home + '.md')}")
        return lists

    def write(self, folder):
        """Puts the pages into the folder. Raises Problems with all that is wrong."""
        texts = {page: self.converted(path) for path, page in self.pages.items()}
        lists = self._lists()
        if self.problems:
            raise Problems("\n".join(self.problems))
        for page, text in texts.items():
            write_page(Path(folder), page, text, lists.get(page, []))
        for path, to in self.images.items():
            (Path(folder) / to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / path, Path(folder) / to)


def write_page(folder, page, text, children=()):
    """Writes a page, and behind its text the list of its children, which the navigation shows."""
    if children:
        names = "\n".join(TITLES.get(child, "{}").format(os.path.relpath(child, os.path.dirname(page) or ".")) for child in children)
        text = f"{text.rstrip()}\n\n```{{toctree}}\n:hidden:\n:titlesonly:\n\n{names}\n```\n"
    path = folder / f"{page}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
