"""The code blocks of a document, and what is to happen with each.

A block is run as it stands there, in the order of the document: shell commands in one shell, a file (first line `// first/main.cpp`, `# train.py`) where
that shell stands, other C++ as a fragment in what tests/documents/NAME.h and NAME.cpp put around it. What cannot be said that way stands in comments
right before the block, which no reader of the rendered document sees:

    <!-- test: not run: REASON -->                the whole block
    <!-- test: compiled only: REASON -->          C++ that cannot be run everywhere
    <!-- test: line not run: BEGINNING: REASON -->  the shell lines that begin so
    <!-- test: put OLD -> NEW -->                 what only the reader knows: a host, a name of their own
    <!-- test: file NAME = PATH -->               a file that the reader has: a link to one of the source or build tree
    <!-- test: needs WORD... -->                  torch, python (the backend of torch.distributed), extension (unisono._core), jax, gloo, ucx, openmpi, mpich: elsewhere the block is left out, and counted
    <!-- test: at once -->                        the lines run side by side, as on several hosts
    <!-- test: prints TEXT -->                    and the block's output has this in it

Diagrams are marked as `text` behind the fence.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

SHELL = {"", "sh", "bash"}
FENCE = re.compile(r"^( *)(```+|~~~+) *([^`]*?) *$")
DIRECTIVE = re.compile(r"<!-- *test: *(.*?) *-->", re.S)
FILE = re.compile(r"^(?://|#) ((?:[\w-]+/)*[\w-]+\.(?:cpp|h|py|txt))$")
RULES = ("not run", "compiled only", "line not run", "put", "file", "needs", "at once", "prints")


class Wrong(Exception):
    """A document that cannot be tested as it is."""


@dataclass
class Block:
    document: str
    line: int  # of its first line of code
    language: str
    text: str
    not_run: str = ""
    compiled_only: str = ""
    lines_not_run: list = field(default_factory=list)  # (beginning, reason)
    put: list = field(default_factory=list)  # (old, new)
    files: list = field(default_factory=list)  # (name, path)
    needs: list = field(default_factory=list)
    at_once: bool = False
    prints: list = field(default_factory=list)

    def place(self):
        return f"{self.document}:{self.line}"

    @property
    def file(self):
        """The name of the file that it is, or None."""
        match = FILE.match(self.text.split("\n", 1)[0])
        if match and self.language in ("cpp", "cmake", "python"):
            return match.group(1)
        return None

    @property
    def kind(self):
        if self.language in SHELL:
            return "shell"
        if self.file:
            return "file"
        return {"cpp": "fragment", "text": "text"}.get(self.language, "other")

    def add_rule(self, rule, where):
        word = next((word for word in RULES if rule == word or rule.startswith((word + ":", word + " "))), None)
        if word is None:
            raise Wrong(f"{where}: no such rule: {rule}")
        value = rule[len(word):].lstrip(":").strip()
        if word == "at once":
            self.at_once = True
            return
        if not value:
            raise Wrong(f"{where}: \"{word}\" says nothing")
        if word == "not run":
            self.not_run = value
        elif word == "compiled only":
            self.compiled_only = value
        elif word == "needs":
            self.needs += value.split()
        elif word == "prints":
            self.prints.append(value)
        else:
            separator = {"line not run": ": ", "put": " -> ", "file": " = "}[word]
            first, found, second = value.partition(separator)
            if not found or not second:
                raise Wrong(f"{where}: \"{word}\" needs two words with \"{separator.strip()}\" between: {value}")
            {"line not run": self.lines_not_run, "put": self.put, "file": self.files}[word].append((first, second))

    def check(self):
        """Raises Wrong where nobody has said what is to happen with it."""
        if self.not_run:
            return
        if self.kind == "other":
            raise Wrong(f"{self.place()}: a block of {self.language} that is neither run nor excused: begin it with the name of its file, "
                        "or say why not in a comment before it: <!-- test: not run: REASON -->")
        if self.compiled_only and self.kind != "fragment":
            raise Wrong(f"{self.place()}: only fragments of C++ can be compiled only")


def read(path, name=None):
    """All blocks of the document, with their rules."""
    name = name or str(path)
    blocks, rules, block, fence, text, last_blank, in_list = [], [], None, None, [], True, False
    content = Path(path).read_text(encoding="utf-8")
    # A comment may have several lines: one line of it, so that what follows keeps its number.
    content = DIRECTIVE.sub(lambda m: f"<!-- test: {' '.join(m.group(1).split())} -->" + "\n" * m.group(0).count("\n"), content)
    for number, line in enumerate(content.split("\n"), 1):
        match = FENCE.match(line)
        if block is None and match:
            block, fence, text = Block(name, number + 1, match.group(3), ""), match, []
            for rule, where in rules:
                block.add_rule(rule, f"{name}:{where}")
            rules = []
        elif block is not None and match and match.group(2).startswith(fence.group(2)) and not match.group(3):
            block.text = "".join(part[len(fence.group(1)):] + "\n" for part in text)
            block.check()
            blocks.append(block)
            block = None
        elif block is not None:
            text.append(line)
        elif found := DIRECTIVE.findall(line):
            rules += [(rule, number) for rule in found]
        elif line.strip():
            if rules:
                raise Wrong(f"{name}:{rules[0][1]}: a rule for a block, and no block follows: {rules[0][0]}")
            if line.startswith("    ") and last_blank and not in_list:
                raise Wrong(f"{name}:{number}: a block by indentation: put it between fences, so that it is tested")
            in_list = bool(re.match(r"\s*([-*+]|\d+\.) ", line)) or (in_list and line.startswith(" "))
        last_blank = not line.strip()
    if block is not None:
        raise Wrong(f"{block.place()}: the block does not end")
    if rules:
        raise Wrong(f"{name}:{rules[0][1]}: a rule for a block, and no block follows: {rules[0][0]}")
    return blocks


def fragments(blocks, stem):
    """A source file of those fragments of C++ that no reader would put into a file, each at its line of the document; None where there are none."""
    groups = {"run": [], "compiled": []}
    for block in blocks:
        if block.kind == "fragment" and not block.not_run:
            groups["compiled" if block.compiled_only else "run"].append(block)
    if not any(groups.values()):
        return None
    parts = [f'#include "{stem}.h"\n']
    for group, members in groups.items():
        if not members:
            continue
        parts.append(f"\nFRAGMENTS_BEGIN({group}_fragments)\n")
        parts += [f'FRAGMENT_BEGIN\n#line {block.line} "{block.document}"\n{block.text}FRAGMENT_END\n' for block in members]
        parts.append("FRAGMENTS_END\n")
    return "".join(parts)
