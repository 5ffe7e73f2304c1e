"""Turns the XML that Doxygen made of a comment into Markdown."""

import re

from markdown import code_span, escape

LISTS = {"exception": "Throws", "param": "Parameters", "templateparam": "Template parameters", "retval": "Returns"}
SECTIONS = {"return": "Returns", "see": "See also", "note": "Note", "warning": "Warning", "pre": "Before", "post": "Afterwards", "since": "Since"}


class Writer:
    """`link` takes the text of a code span or a word and returns the address of what it names, or None."""

    def __init__(self, link):
        self.link = link

    def description(self, element):
        """Returns the whole comment of a declaration."""
        parts = [self.blocks(element.find(part)) for part in ("briefdescription", "detaileddescription") if element.find(part) is not None]
        return "\n\n".join(part for part in parts if part)

    def blocks(self, element):
        return "\n\n".join(block for child in element for block in self.block(child) if block.strip())

    def block(self, element):
        if element.tag == "para":
            yield from self.paragraph(element)
        elif element.tag in ("sect1", "sect2", "sect3"):
            yield self.blocks(element)
        elif element.tag == "title":
            yield f"**{self.inline(element)}**"
        elif element.tag == "internal":
            return
        else:
            yield from self.nested(element)

    def nested(self, element):
        if element.tag == "programlisting":
            language = element.get("filename", ".cpp").lstrip(".") or "cpp"
            lines = ["".join(self.code(part) for part in line) for line in element.findall("codeline")]
            yield f"```{language}\n" + "\n".join(lines) + "\n```"
        elif element.tag in ("verbatim", "preformatted"):
            yield "```text\n" + "".join(element.itertext()).strip("\n") + "\n```"
        elif element.tag in ("itemizedlist", "orderedlist"):
            mark = "-" if element.tag == "itemizedlist" else "1."
            yield "\n".join(f"{mark} " + self.blocks(item).replace("\n", "\n" + " " * (len(mark) + 1)) for item in element.findall("listitem"))
        elif element.tag == "parameterlist":
            yield self.entries(element)
        elif element.tag == "simplesect":
            yield f"**{SECTIONS[element.get('kind')]}**\n\n{self.blocks(element)}"
        elif element.tag == "table":
            yield self.table(element)
        elif element.tag == "blockquote":
            yield "> " + self.blocks(element).replace("\n", "\n> ")
        else:
            raise ValueError(f"a comment has <{element.tag}>, of which no page is made")

    def code(self, element):
        text = element.text or ""
        for child in element:
            text += (" " if child.tag == "sp" else self.code(child)) + (child.tail or "")
        return text

    def entries(self, element):
        """Returns parameters or exceptions as a list of definitions."""
        items = []
        for item in element.findall("parameteritem"):
            names = ", ".join(self.name_of(name) for name in item.findall("parameternamelist/parametername"))
            said = self.blocks(item.find("parameterdescription")).replace("\n", "\n    ")
            items.append(f"{names}\n:   {said}")
        return f"**{LISTS[element.get('kind')]}**\n\n" + "\n\n".join(items)

    def name_of(self, element):
        return self.code_or_link("".join(element.itertext()).strip())

    def table(self, element):
        rows = [[self.blocks(cell).replace("\n", " ").replace("|", "\\|") for cell in row.findall("entry")] for row in element.findall("row")]
        head, *rest = rows
        return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rest])

    def paragraph(self, element):
        """Doxygen puts lists and code within paragraphs; here they stand between them."""
        text = self.words(element.text)
        for child in element:
            if child.tag in ("programlisting", "verbatim", "preformatted", "itemizedlist", "orderedlist", "parameterlist", "simplesect", "table", "blockquote"):
                yield text.strip()
                yield from self.nested(child)
                text = ""
            else:
                text += self.phrase(child)
            text += self.words(child.tail)
        yield text.strip()

    def inline(self, element):
        return self.words(element.text) + "".join(self.phrase(child) + self.words(child.tail) for child in element)

    def phrase(self, element):
        if element.tag == "computeroutput":
            return self.code_or_link(self.code(element).strip())
        if element.tag in ("bold", "emphasis"):
            mark = "**" if element.tag == "bold" else "*"
            return mark + self.inline(element).strip() + mark
        if element.tag == "ulink":
            return f"[{self.inline(element)}]({element.get('url')})"
        if element.tag in ("ref", "anchor"):
            return self.inline(element)
        if element.tag in SYMBOLS:
            return SYMBOLS[element.tag]
        if element.tag == "linebreak":
            return "  \n"
        raise ValueError(f"a comment has <{element.tag}>, of which no page is made")

    def code_or_link(self, text):
        address = self.link(text)
        return f"[{code_span(text)}]({address})" if address else code_span(text)

    def words(self, text):
        """Returns prose with links for names of errors and the like, and for documents of the tree."""
        text = re.sub(r"\s+", " ", text or "")
        parts = re.split(r"(\bdocs/[\w/-]+\.md\b|\b[A-Z]\w*[a-z]\w*[A-Z]\w*(?:::\w+)*\b|\b[a-z]+(?:_[a-z]+)+\b)", text)
        return "".join(f"[{escape(part)}]({address})" if i % 2 and (address := self.link(part)) else escape(part) for i, part in enumerate(parts))


SYMBOLS = {"ndash": "–", "mdash": "—", "hellip": "…", "nonbreakablespace": " ", "nbsp": " ", "sp": " ", "copy": "©", "times": "×"}
