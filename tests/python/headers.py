"""The names that the public headers of C++ declare: functions and types of the namespace unisono, and the public members of its classes."""

import re
from collections import Counter
from pathlib import Path

_SKIPPED = re.compile(r"/\*.*?\*/|//[^\n]*|\[\[[a-z_]+\]\]|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|::|->|&&|[^\s\w]')
_NO_FUNCTIONS = {"requires", "alignas", "decltype", "noexcept", "sizeof", "static_assert"}
_ATTRIBUTES = {"UNISONO_API", "inline", "constexpr", "static", "virtual", "explicit", "const", "mutable", "extern", "typename"}


def _end(tokens, begin, opens, closes):
    """The index of what closes the bracket at `begin`."""
    depth = 0
    for i in range(begin, len(tokens)):
        depth += (tokens[i] == opens) - (tokens[i] == closes)
        if depth == 0:
            return i
    raise ValueError(f"nothing closes the {opens} of {' '.join(tokens[begin : begin + 20])}")


def _declarations(tokens):
    """(head, body) of each declaration: the head without the contents of brackets, the body None where it has none."""
    head, i = [], 0
    while i < len(tokens):
        token = tokens[i]
        if token in ("public", "private", "protected") and tokens[i + 1] == ":" and not head:
            yield [token], None
            i += 2
        elif token == ";":
            yield head, None
            head, i = [], i + 1
        elif token == "(":
            end = _end(tokens, i, "(", ")")
            head, i = [*head, "()"], end + 1
        elif token == "{":
            end = _end(tokens, i, "{", "}")
            body = tokens[i + 1 : end]
            i = end + 1
            if tokens[i : i + 1] in ([";"], [","]) and not {"class", "struct", "enum", "union"} & set(head):
                head.append("=")  # int x{1}, y{2};
                continue
            yield head, body
            head = []
            if i < len(tokens) and tokens[i] == ";":
                i += 1
        else:
            head, i = [*head, token], i + 1


def _without_templates(head):
    """The head behind template<…> and requires …, so far as names of functions and classes need it."""
    while "template" in head[:1]:
        depth, i = 0, 1
        while True:
            depth += (head[i] == "<") - (head[i] == ">")
            i += 1
            if depth == 0:
                break
        head = head[i:]
    return [token for token in head if token not in _ATTRIBUTES]


def _function(head):
    """The name of the function that is declared, or None."""
    if "operator" in head or "()" not in head or "~" in head:
        return None
    depth, at = 0, []
    for i, token in enumerate(head):
        depth += (token == "<") - (token == ">")
        if token == "()" and depth == 0 and i > 0 and re.fullmatch(r"[A-Za-z_]\w*", head[i - 1]) and head[i - 1] not in _NO_FUNCTIONS:
            at.append(i)
    before = [i for i in at if "=" not in head[:i] or "requires" in head[:i]]
    return head[before[0] - 1] if before else None


def _class(head):
    """The name of the class or enumeration that is defined, or None."""
    for i, token in enumerate(head):
        if token in ("class", "struct", "enum"):
            names = [t for t in head[i + 1 :] if t not in ("class", "struct", "final")]
            return names[0] if names and re.fullmatch(r"\w+", names[0]) else None
        if token == "()":
            return None
    return None


def _fields(head):
    """The names of `int x = 1, y = 2` and of `Store store`."""
    names = [head[i - 1] for i, token in enumerate(head) if token == "=" and i > 0 and re.fullmatch(r"[A-Za-z_]\w*", head[i - 1])]
    return names or [token for token in head[-1:] if re.fullmatch(r"[a-z]\w*", token)]


def _members(name, body, is_struct):
    """What of a class a program may call or read."""
    is_public, found = is_struct, set()
    for head, inner in _declarations(body):
        if head and head[0] in ("public", "private", "protected"):
            is_public = head[0] == "public"
            continue
        head = _without_templates(head)
        if not is_public or not head or head[0] in ("friend", "using"):
            continue
        inner_class = _class(head)
        function = _function(head)
        if inner_class and inner is not None:
            found |= {f"{name}.{inner_class}"}
        elif function and function != name:
            found |= {f"{name}.{function}"}
        elif not function and not inner_class and not {"operator", "~"} & set(head):
            found |= {f"{name}.{field}" for field in _fields(head)}
    return found


def _names(tokens, path):
    found = set()
    for head, body in _declarations(tokens):
        if head[:1] == ["namespace"] or head[:2] == ["inline", "namespace"]:
            inner = [*path, *(t for t in head[1:] if t != "::")]
            if inner == ["unisono"]:
                found |= _names(body, inner)
            continue
        if path != ["unisono"]:
            continue
        head = _without_templates(head)
        name = _class(head)
        if name:
            found |= {name} if body is not None else set()
            if body is not None and "enum" not in head:
                found |= _members(name, body, "struct" in head)
        elif head[:1] in (["using"], ["concept"]) and len(head) > 2 and head[2] == "=":
            found.add(head[1])
        elif _function(head):
            found.add(_function(head))
        elif "=" in head or body is not None:
            found.add(head[head.index("=") - 1] if "=" in head else head[-1])
    return {each for each in found if not each.startswith("_")}


def names_of(header):
    """What one header declares."""
    return _names(_TOKEN.findall(_SKIPPED.sub(" ", Path(header).read_text())), [])


def _functions(tokens, path):
    found = Counter()
    for head, body in _declarations(tokens):
        if head[:1] == ["namespace"] or head[:2] == ["inline", "namespace"]:
            inner = [*path, *(t for t in head[1:] if t != "::")]
            found += _functions(body, inner) if inner == ["unisono"] else Counter()
            continue
        head = _without_templates(head)
        is_deduction_guide = "->" in head and "auto" not in head
        if path == ["unisono"] and head[:1] not in (["using"], ["concept"]) and not _class(head) and _function(head) and not is_deduction_guide:
            found[_function(head)] += 1
    return found


def overloads_of(header):
    """The functions that one header declares, without members of classes, and how often it declares each."""
    return _functions(_TOKEN.findall(_SKIPPED.sub(" ", Path(header).read_text())), [])


def functions_of(header):
    """The functions that one header declares, without members of classes."""
    return set(overloads_of(header))


def public_names(folder):
    """{name: header} of all headers of a folder, and of those below it that are not the library's own side."""
    found = {}
    for header in sorted(Path(folder).rglob("*.h")):
        where = header.relative_to(folder)
        if "detail" in where.parts or "torch" in where.parts or where.name == "torch.h":
            continue
        for name in names_of(header):
            found.setdefault(name, str(where))
    return found
