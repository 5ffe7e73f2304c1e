"""The reference has every exported name: of the headers, the stubs, the Python package and the command.
  reference_test.py SITE SOURCE COMMAND BUILT PYTHON"""

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import html_pages

site, source, tool, built, python = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[5]
if not (site / "index.html").exists():
    print("skipped: the site was not built")
    sys.exit(77)
sys.path[:0] = [str(source / "tests/python"), str(source / "tests/manual")]
import headers  # noqa: E402
from command import Command  # noqa: E402

version = (source / "docs/_site/versions.txt").read_text().split()[0]
pages = html_pages.read_all(site / version / "reference")
wrong, counts = [], Counter()
NOT_SHOWN = {"export.h"}  # has attributes for compilers alone
NOT_FOR_PROGRAMS = {"end_all"}  # of unisono._core: the package calls it when a program ends


def page_of(header):
    name = header.removesuffix(".h")
    if name == "c":
        return pages["c/index.html"]
    return pages[f"{name}.html" if name.startswith("c/") else f"cpp/{name.replace('/', '-')}.html"]


def headings_of(page):
    """Returns a name without arguments of templates."""
    return {re.sub(r"<.*>", "", heading).replace("::", ".") for heading in page.headings}


def refusals(text):
    """Returns the number of overloads of each function that only refuse arguments. The reference does not show them."""
    return Counter(re.findall(r"(\w+)\([^()]*Rest&&\.\.\.\)", text))


def check_header(path):
    name = str(path.relative_to(source / "include/unisono"))
    text, page = path.read_text(), page_of(name)
    shown = headings_of(page)
    terms = " ".join(text for _, text in page.terms)
    for each in headers.names_of(path):
        counts["names of C++"] += 1
        if each == "dtype_of" and name != "tensor.h":
            continue  # a specialisation for another library's number says nothing of its own
        if each not in shown and not re.search(rf"\b{each.rpartition('.')[2]}\b", terms):
            wrong.append(f"{name}: {each} is missing")
    refused = refusals(text)
    for function, number in headers.overloads_of(path).items():
        forms = sum(1 for heading, code in page.signatures if heading == function)
        counts["overloads"] += forms
        if forms != number - refused[function]:
            wrong.append(f"{name}: {function} is declared {number} times, {refused[function]} of them refusals, and shown {forms} times")
    check_comments(name, re.sub(r"^namespace (?:\w+::)?detail \{.*?^\}  // namespace", "", text, flags=re.S | re.M), page)


def check_comments(name, text, page):
    """Checks that all exceptions and examples of a header are on its page."""
    thrown = len(re.findall(r"^ *///.*@throws", text, re.M))
    shown = sum(1 for bold, _ in page.terms if bold == "Throws")
    counts["exceptions"] += shown
    if thrown != shown:
        wrong.append(f"{name}: {thrown} exceptions are declared, and {shown} shown")
    given = len(re.findall(r"^ *///? ```\w+$|^ *///\n *///     (?=\S)", text, re.M))
    counts["examples of C++"] += len(page.examples)
    if given != len(page.examples):
        wrong.append(f"{name}: {given} examples stand in the header, and {len(page.examples)} on the page")


def check_c(path):
    name = str(path.relative_to(source / "include/unisono"))
    text, page = path.read_text(), page_of(name)
    code = re.sub(r"//[^\n]*", "", text)
    names = set(re.findall(r"\b(unisono_\w+)\(", code)) | set(re.findall(r"\b(UNISONO_[A-Z0-9_]+) *=", code)) | set(re.findall(r"^typedef .*?\b(unisono_\w+);", code, re.M))
    shown = "\n".join([*page.headings, *(form for _, form in page.signatures)])
    for each in names:
        counts["names of C"] += 1
        if not re.search(rf"\b{each}\b", shown):
            wrong.append(f"{name}: {each} is missing")
    check_comments(name, text, page)


def stub_names(path):
    """Returns the functions and classes of a stub, and the public functions of its classes."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name
            if isinstance(node, ast.ClassDef):
                yield from (f"{node.name}.{each.name}" for each in node.body
                            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and not each.decorator_list)


def check_python():
    shown = {heading for name, page in pages.items() if name.startswith("python/") for heading in page.headings}
    for stub in (built / "python/unisono/_core.pyi", source / "python/unisono/__init__.pyi"):
        for name in stub_names(stub):
            counts["names of stubs"] += 1
            if name not in NOT_FOR_PROGRAMS and f"unisono.{name}" not in shown and name not in shown:
                wrong.append(f"{stub.name}: {name} is missing")
    program = """
import importlib, json, unisono
names = {}
for module in ("unisono", "unisono.jax", "unisono.torch2018", "unisono.mmengine", "unisono.horovod.torch", "unisono.torch", "unisono.virtex", "unisono.ignite"):
    try:
        found = importlib.import_module(module)
    except ImportError:
        continue
    names[module] = sorted(getattr(found, "__all__", [each for each, value in vars(found).items() if not each.startswith("_") and callable(value)
                                                      and getattr(value, "__module__", "").startswith("unisono")]))
print(json.dumps(names))
"""
    environment = {**os.environ, "PYTHONPATH": str(built / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, env=environment).stdout
    for module, names in json.loads(told).items():
        counts["exported names of Python"] += len(names)
        wrong.extend(f"{module}.{name} is missing" for name in names if f"{module}.{name}" not in shown)


def check_command():
    command = Command(tool)
    for name in command.commands():
        page = pages.get(f"command/{name}.html")
        if page is None and (built / f"share/man/man1/unisono-{name}.1").exists():
            wrong.append(f"unisono {name} has no page")
        if page is None and not any(term.strip() == name for _, term in pages["command/index.html"].terms):
            wrong.append(f"unisono {name} is not explained")
        options = command.options(name) if page else set()
        counts["options"] += len(options)
        terms = " ".join(text for _, text in page.terms) if page else ""
        wrong.extend(f"unisono {name}: {option} is missing" for option in options if not re.search(rf"(^|[\s,]){re.escape(option)}\b", terms))
    text = (source / "src/base/variables.cpp").read_text()
    shown = pages["command/environment.html"].text
    for variable in set(re.findall(r'Variable\{\s*"(UNISONO_[A-Z_0-9]+)",\s*"(?!")', text)):
        counts["variables"] += 1
        if variable not in shown:
            wrong.append(f"the variable {variable} is missing")


for header in sorted((source / "include/unisono").rglob("*.h")):
    where = header.relative_to(source / "include/unisono")
    if "detail" in where.parts or str(where) in NOT_SHOWN:
        continue
    (check_c if where.parts[0] in ("c", "c.h") else check_header)(header)
check_python()
check_command()
LEAST = {"names of C++": 600, "overloads": 200, "exceptions": 60, "examples of C++": 60, "names of C": 80, "names of stubs": 250, "exported names of Python": 300,
         "options": 60, "variables": 10}
wrong += [f"only {counts[what]} {what} were compared" for what, least in LEAST.items() if counts[what] < least]
print("\n".join(wrong) or ", ".join(f"{number} {what}" for what, number in counts.items()))
sys.exit(1 if wrong else 0)
