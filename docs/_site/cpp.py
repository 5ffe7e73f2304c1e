"""Pages of the C++ and C reference, one for each public header, from the XML that Doxygen makes of the headers."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

from markdown import code_span, escape, slug

NOT_PUBLIC = {"private", "package"}
OF_THE_COMPILER = {"UNISONO_API", "UNISONO_C_API", "UNISONO_C_INT"}  # attributes
STARTS_COLUMN = 96  # a declaration that is longer has a line for each parameter


def run_doxygen(root, folder):
    """Returns the folder with the XML. Raises RuntimeError with the complaints of Doxygen."""
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    settings = (Path(root) / "docs/_site/Doxyfile").read_text() + f"OUTPUT_DIRECTORY = {folder}\nINPUT = include/unisono\nSTRIP_FROM_PATH = include\n"
    told = subprocess.run(["doxygen", "-"], input=settings, capture_output=True, text=True, cwd=root, check=False)
    # A header's name in angle brackets stays as it is; Doxygen mentions that it might have been HTML.
    complaints = [line for line in told.stderr.splitlines() if line.strip() and not re.search(r"Unsupported xml/html tag <[a-z_]+> found", line)]
    if told.returncode or complaints:
        raise RuntimeError("doxygen:\n" + "\n".join(complaints or [told.stderr]))
    return folder / "xml"


def text_of(element):
    return "" if element is None else re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def tidy(code):
    """Returns Doxygen's text with the spaces of the sources: `const T& x`, `Future<T>`."""
    code = re.sub(r"\s+([&*]+)(?=\w|\.\.\.)", r"\1 ", code)
    code = re.sub(r"([&*]) \.\.\.", r"\1...", code)
    code = re.sub(r"\s+([&*]+)(?=[,)>\s]|$)", r"\1", code)
    code = re.sub(r"(?<=[\w>])\s*\(\*\s*(?=\w|\))", " (*", code)
    code = re.sub(r"<\s+", "<", code)
    code = re.sub(r"(?<=[\w>&*:.\])])\s+>", ">", code)
    return code.strip()


class Entry:
    """A name of a header: a class, all overloads of a function, or another declaration."""

    def __init__(self, name, kind, line):
        self.name, self.kind, self.line = name, kind, line
        self.forms = []  # (declaration, element)
        self.members = []  # of a class


class Declarations:
    """The declarations in the XML, by header."""

    def __init__(self, root, xml):
        self.root = Path(root)
        self.by_header = defaultdict(list)
        self.classes = {}
        compounds = [ElementTree.parse(path).getroot().find("compounddef") for path in sorted(Path(xml).glob("*.xml")) if path.name not in ("index.xml", "Doxyfile.xml")]
        compounds = [each for each in compounds if each is not None]
        for compound in compounds:
            if compound.get("kind") in ("class", "struct", "union") and compound.get("prot", "public") not in NOT_PUBLIC:
                self._add_class(compound)
        for compound in compounds:
            if compound.get("kind") == "concept":
                self._add(self.by_header[self._header(compound)], self._short(text_of(compound.find("compoundname"))), "concept", compound, concept(compound))
            elif compound.get("kind") == "namespace" and text_of(compound.find("compoundname")).startswith("unisono"):
                self._add_members(compound, None)
            elif compound.get("kind") == "file":
                self._add_members(compound, None)
        for name, entry in self.classes.items():
            if "<" in name and not any(has_text(form[2]) for each in (entry, *entry.members) for form in each.forms):
                continue  # a specialisation that says nothing
            outer = self.classes.get(name.rpartition("::")[0])
            (outer.members if outer else self.by_header[entry.header]).append(entry)
        for header, entries in self.by_header.items():
            taken = {entry.name for entry in entries if entry.kind in ("class", "enum")}
            self.by_header[header] = [entry for entry in entries if entry.kind != "typedef" or entry.name not in taken]  # typedef struct X X
            sort(self.by_header[header])

    @staticmethod
    def _short(name):
        return tidy(name.removeprefix("unisono::"))

    @staticmethod
    def _header(element):
        return element.find("location").get("file").removeprefix("unisono/")

    def _add(self, entries, name, kind, element, declaration):
        line = int(element.find("location").get("line"))
        entry = next((each for each in entries if each.name == name and each.kind == kind), None)
        if entry is None:
            entry = Entry(name, kind, line)
            entries.append(entry)
        entry.line = min(entry.line, line)
        entry.forms.append((line, declaration, element))

    def _mend(self, member):
        """Doxygen takes a name such as `local` for a word of another language and leaves it out: the source has it."""
        if member.get("kind") != "variable" or text_of(member.find("type")):
            return
        place = member.find("location")
        line = (self.root / "include" / place.get("file")).read_text(encoding="utf-8").splitlines()[int(place.get("line")) - 1]
        kind, name = re.match(r"\s*(.+?)\s+(\w+)\s*[=;{]", line).groups()
        member.find("type").text, member.find("name").text = kind, name
        member.find("definition").text = f"{kind} {name}"

    def _add_class(self, compound):
        name = self._short(text_of(compound.find("compoundname")))
        if name.startswith(("detail::", "std::")) or not name:
            return
        entry = Entry(name, "class", int(compound.find("location").get("line")))
        entry.header = self._header(compound)
        entry.forms.append((entry.line, class_head(compound, name), compound))
        self.classes[name] = entry
        self._add_members(compound, entry)

    def _add_members(self, compound, entry):
        for member in compound.findall("sectiondef/memberdef"):
            if member.get("prot") in NOT_PUBLIC or is_left_out(member, entry):
                continue
            scope = text_of(compound.find("compoundname")) if entry or compound.get("kind") == "namespace" else ""
            entries = entry.members if entry else self.by_header[self._header(member)]
            self._mend(member)
            name = text_of(member.find("name"))
            if member.get("kind") == "enum" and (not name or name.startswith("@")):
                name = "Constants"
            if not entry and scope not in ("", "unisono"):
                name = f"{scope.removeprefix('unisono::')}::{name}"
            self._add(entries, name, member.get("kind"), member, declaration_of(member, scope))


def sort(entries):
    entries.sort(key=lambda entry: entry.line)
    for entry in entries:
        entry.forms.sort(key=lambda form: form[0])
        sort(entry.members)


def has_text(element):
    return any(text_of(element.find(part)) for part in ("briefdescription", "detaileddescription"))


def is_left_out(member, entry):
    """Tells whether a member is left out: every class has it, or it is a friend for the library alone."""
    name, arguments = text_of(member.find("name")), text_of(member.find("argsstring"))
    if member.get("kind") == "define" and name in OF_THE_COMPILER:
        return True
    if entry is None and re.search(r"Rest\s*&&", arguments):
        return True  # refuses arguments of other types, with a sentence
    if has_text(member):
        return False
    if member.get("kind") == "friend" or name.startswith("~") or arguments.endswith(("=default", "=delete")):
        return True
    if member.get("kind") == "define" and name.startswith("UNISONO_DETAIL"):
        return True
    return False


def class_head(compound, name):
    bases = [f"{base.get('prot')} {tidy(text_of(base).removeprefix('unisono::'))}" for base in compound.findall("basecompoundref")
             if base.get("prot") == "public" and "detail::" not in text_of(base)]
    head = f"{template(compound)}{compound.get('kind')} {name}"
    return head + (" : " + ", ".join(bases) if bases else "") + ";"


def concept(compound):
    code = "".join(compound.find("initializer").itertext()).replace("unisono::", "").strip()
    return re.sub(r"\s*&&\s*", " && ", tidy(re.sub(r"\s+", " ", code))).replace("> concept", ">\nconcept", 1) + ";"


def parameter(element):
    kind, name = tidy(text_of(element.find("type"))), text_of(element.find("declname"))
    array, default = text_of(element.find("array")), text_of(element.find("defval"))
    if "(*" in kind or "(&" in kind:  # an array or a function: its name stands within
        text = kind.replace(")", f"{name})", 1) if array.startswith(")") is False else kind + name
    else:
        text = f"{kind} {name}" if name and kind else kind or name
    return text + array + (f" = {tidy(default)}" if default else "")


def template(element):
    parameters = element.find("templateparamlist")
    if parameters is None:
        return ""
    clause = re.sub(r"\s*&&\s*", " && ", text_of(element.find("requiresclause")))
    if len(clause) > STARTS_COLUMN:
        clause = clause.replace(" && ", " &&\n    ")
    return f"template <{', '.join(parameter(each) for each in parameters)}>\n" + (f"requires {re.sub(r'(?<=[^ ])&&', ' &&', tidy(clause))}\n" if clause else "")


def declaration_of(member, scope):
    """Returns the declaration as a program would write it."""
    kind, name = member.get("kind"), text_of(member.find("name"))
    if kind == "enum":
        values = [text_of(value.find("name")) + (" " + text_of(value.find("initializer")) if value.find("initializer") is not None else "") for value in member.findall("enumvalue")]
        based = text_of(member.find("type"))
        head = f"enum {'class ' if member.get('strong') == 'yes' else ''}{name if not name.startswith('@') else ''}".rstrip() + (f" : {based}" if based else "")
        one = f"{head} {{ {', '.join(values)} }};"
        return one if len(one) <= STARTS_COLUMN else f"{head} {{\n" + "".join(f"  {value},\n" for value in values) + "};"
    if kind == "define":
        parameters = [text_of(each.find("defname")) for each in member.findall("param")]
        return f"#define {name}" + (f"({', '.join(parameters)})" if parameters else f" {text_of(member.find('initializer'))}")
    if kind == "typedef":
        definition = re.sub(r"^using .*? = (typedef )?", f"using {name} = ", text_of(member.find("definition")).replace(f"{scope}::{name}", name))
        return f"{template(member)}{tidy(definition + text_of(member.find('argsstring')))};"
    definition = text_of(member.find("definition"))
    own = re.escape(tidy(scope)) + r"(?:<[^()]*?>)?::$" if scope else r"$"
    before = re.sub(own, "", tidy(definition)[: tidy(definition).rfind(tidy(name))])
    before = before.replace("unisono::", "").replace(f"enum {scope.rpartition('::')[2]}::", "")
    explicit = "explicit " if member.get("explicit") == "yes" and "explicit" not in before else ""
    if kind != "function":
        value = text_of(member.find("initializer"))
        return f"{template(member)}{before}{name}{text_of(member.find('argsstring'))}{' ' + value if value and len(value) < 60 else ''};"
    parameters = [parameter(each) for each in member.findall("param")]
    arguments = text_of(member.find("argsstring"))
    tail = after_parameters(arguments)
    head = f"{explicit}{before}{name}"
    parameters = [each.replace("&& ...", "&&...") for each in parameters]
    one = f"{head}({', '.join(parameters)}){tail};"
    if len(one) > STARTS_COLUMN and len(parameters) > 1:
        one = f"{head}(\n    " + ",\n    ".join(parameters) + f"){tail};"
    return template(member) + one


def after_parameters(arguments):
    """Returns the words after the list of parameters: ` const noexcept`."""
    depth = 0
    for i, letter in enumerate(arguments):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and i > 0:
            tail = re.sub(r"=\s*0$", " = 0", arguments[i + 1 :])
            tail = re.sub(r"=\s*(default|delete)$", r" = \1", tail)
            return re.sub(r"\s+", " ", tail)
    return ""
