"""The texts that scripts/check/language reads, as blocks: paragraphs, table cells and headings of documents, docstrings, doc comments and messages.

A piece of code within a text becomes one word, `Qq…`, so that neither its dots nor its words count; `Block.shown` brings it back."""

import ast
import re
from dataclasses import dataclass, field

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_DIRECTIVES = {"{note}", "{tip}", "{warning}", "{important}", "{caution}", "{admonition}"}
_GENERATED = (re.compile(r"<!-- by \S+"), re.compile(r"<!-- end of "))
_DIGITS = str.maketrans("0123456789", "abcdefghij")

_PROGRAM = re.compile(r"\$[({]|</|; (?:do|then)\b|^#|\) -> ")  # a literal of a shell's, a page's or another program's lines

LEAST_WORDS_OF_MESSAGE = 4  # a shorter literal is a name, a format or a part of a line


@dataclass
class Block:
    kind: str  # paragraph, cell or heading
    pieces: list = field(default_factory=list)  # (line, text)
    codes: list = field(default_factory=list)

    def add(self, line, text):
        self.pieces.append((line, text))

    def add_code(self, line, text):
        self.add(line, f"Qq{str(len(self.codes)).translate(_DIGITS)}")
        self.codes.append(text)

    @property
    def text(self):
        return "".join(text for _, text in self.pieces)

    def line_at(self, place):
        """Returns the line of the character at this place of the text."""
        for line, text in self.pieces:
            if place < len(text):
                return line
            place -= len(text)
        return self.pieces[-1][0]

    def shown(self, text):
        """Returns a part of the text with its code."""
        back = str.maketrans("abcdefghij", "0123456789")
        return re.sub(r"Qq([a-j]+)", lambda found: f"`{self.codes[int(found.group(1).translate(back))]}`", text)


def _inline(block, tokens, line):
    for token in tokens:
        if token.type == "text":
            block.add(line, token.content)
        elif token.type == "code_inline":
            block.add_code(line, token.content)
        elif token.type in ("softbreak", "hardbreak"):
            block.add(line, " ")
            line += 1
    return block


def markdown(text, first_line=1):
    """Yields the blocks of a document, without those that a script has written between comments."""
    generated, opened = False, "paragraph"
    for token in _MARKDOWN.parse(text):
        if token.type == "html_block":
            generated = not _GENERATED[1].search(token.content) and (generated or bool(_GENERATED[0].search(token.content)))
        if generated:
            continue
        if token.type in ("paragraph_open", "heading_open", "td_open", "th_open"):
            opened = {"p": "paragraph", "h": "heading", "t": "cell"}[token.type[0]]
        elif token.type == "inline" and token.children:
            yield _inline(Block(opened), token.children, first_line + token.map[0])
        elif token.type == "fence" and token.info.split(" ")[0] in _DIRECTIVES:
            yield from markdown(token.content, first_line + token.map[0] + 1)


def lines_of_page(text):
    """Returns the number of lines, without those that a script has written."""
    count, generated = 0, False
    for line in text.splitlines():
        generated = not _GENERATED[1].search(line) and (generated or bool(_GENERATED[0].search(line)))
        count += not generated
    return count


def doc_comments(text):
    """Yields the blocks of the comments that begin with `///`. What follows a tag such as @param is a text of its own."""
    begun, lines = 0, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        comment = re.match(r"\s*///<? ?(.*)", line)
        tag = comment and re.match(r"@(?:t?param(?:\[\w+\])?\s+\S+|\w+)\s*(.*)", comment.group(1))
        if lines and (tag or not comment):
            yield from markdown("\n".join(lines), begun)
            lines = []
        if comment:
            begun = begun if lines else number
            lines.append(tag.group(1) if tag else comment.group(1))


def docstring(text, first_line):
    """Yields the paragraphs of a docstring in numpydoc's form. Titles, the names of parameters and examples are left out."""
    lines = text.splitlines()
    kept, example = [], False
    for at, line in enumerate(lines):
        word = line.strip()
        example = bool(word) and (example or word.startswith(">>>"))
        following = lines[at + 1] if at + 1 < len(lines) else ""
        title = re.fullmatch(r"\s*-{3,}\s*", following) or re.fullmatch(r"-{3,}|\{[\w ]+\}", word)
        indented = len(following) - len(following.lstrip()) > len(line) - len(line.lstrip()) and following.strip()
        name = word and indented and at > 0 and not re.search(r"[.:,;]$", word)
        kept.append("" if example or title or name else line)
    block, indentation = None, 0
    for number, line in enumerate(kept, first_line):
        word = line.strip()
        inner = len(line) - len(line.lstrip())
        if block and (not word or (number > first_line + 1 and inner != indentation) or re.match(r"[-*] ", word)):
            yield block
            block = None
        if word:
            block = block or Block("paragraph")
            _prose(block, number, (" " if block.pieces else "") + re.sub(r"^[-*] ", "", word))
            indentation = inner
    if block:
        yield block


def _prose(block, line, text):
    """Adds a text in which backquotes hold code, and braces a value."""
    for part in re.split(r"(``?[^`]+``?|\{[^{}]*\})", text):
        if re.fullmatch(r"(``?[^`]+``?|\{[^{}]*\})", part):
            block.add_code(line, part.strip("`"))
        elif part:
            block.add(line, part)


def docstrings_of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            yield from docstring(node.body[0].value.value, node.body[0].lineno)


def docstrings_of_cpp(text):
    """Yields the docstrings of the Python package's extension, which are raw literals."""
    for found in re.finditer(r'R"(\w*)\((.*?)\)\1"', text, re.DOTALL):
        yield from docstring(found.group(2), text.count("\n", 0, found.start()) + 1)


_CPP = re.compile(r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)|R"(?P<mark>\w*)\(.*?\)(?P=mark)"|'(?:\\.|[^'\\\n])+'|\b[0-9][0-9A-Za-z_.']*"""
                  r"""|"(?P<literal>(?:\\.|[^"\\\n])*)"|(?P<blank>\s+)|\w+|[^\w\s"'/]+|.""", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": " ", '\\"': '"', "\\\\": "\\", "\\r": "\n"}


def messages_of_cpp(text):
    """Yields the literals that a person reads; those that stand side by side are one."""
    literals, line = [], 1
    for found in _CPP.finditer(text):
        if found.group("literal") is not None:
            literals.append((line, re.sub(r"\\.", lambda each: _ESCAPES.get(each.group(), " "), found.group("literal"))))
        elif literals and not found.group("blank") and not found.group("comment"):
            yield from _message(literals)
            literals = []
        line += found.group().count("\n")
    yield from _message(literals)


def messages_of_python(text):
    tree = ast.parse(text)
    skipped = {id(node.body[0].value) for node in ast.walk(tree) if hasattr(node, "body") and isinstance(node.body, list) and node.body
               and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(each) for each in node.values)
            yield from _message([(node.lineno, "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values))])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield from _message([(node.lineno, node.value)])


def _message(literals):
    """Yields the blocks of a literal whose parts are on several lines. A line of the text is a block of its own."""
    whole = "".join(text for _, text in literals)
    if len(re.findall(r"(?<!\S)[\"'(]*[A-Za-z][a-z']*[\"'),.:;?]*(?!\S)", whole)) < LEAST_WORDS_OF_MESSAGE:
        return
    if _PROGRAM.search(whole):
        return
    block = Block("paragraph")
    for line, text in literals:
        for number, part in enumerate(text.split("\n")):
            if number > 0 and block.pieces:
                yield block
                block = Block("paragraph")
            _prose(block, line, part)
    if block.pieces:
        yield block
