"""Signatures of the extension's functions as `inspect` has them, and the sentence for a call that fits none of them.

The extension asks for both (python/src/signatures.cpp). The sentence is made of the text of nanobind, which lists the signatures and the types of what
was given.
"""

import ast
import difflib
import inspect
import re

from . import _core
from ._habits import KEYWORDS

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class _Code:
    """A default that is known as a piece of code alone."""

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return self._text


def _default(node, defaults):
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_default":
        value = defaults[node.args[0].value]
        return value if node.keywords else _Code(value)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _Code(ast.unparse(node))


def _parsed(text, defaults=()):
    """The inspect.Signature of a line `def f(…) -> …`. nanobind writes \\0 for a default that is an object, and \\=0 for one that is a text of code."""
    line = text.rpartition("\n")[2].removesuffix(":").strip()
    line = re.sub(r"\\(=?)(\d+)", lambda match: f"_default({match[2]}{'' if match[1] else ', value=True'})", line)
    tree = ast.parse(f"{line}: ...").body[0]
    given = tree.args
    by_place = [*given.posonlyargs, *given.args]
    missing = [None] * (len(by_place) - len(given.defaults))
    parameters = []

    def add(argument, kind, default=None):
        parameters.append(inspect.Parameter(
            argument.arg, kind, default=inspect.Parameter.empty if default is None else _default(default, defaults),
            annotation=inspect.Parameter.empty if argument.annotation is None else ast.unparse(argument.annotation)))

    for i, (argument, default) in enumerate(zip(by_place, missing + given.defaults)):
        add(argument, _BY_PLACE[i >= len(given.posonlyargs)], default)
    if given.vararg:
        add(given.vararg, inspect.Parameter.VAR_POSITIONAL)
    for argument, default in zip(given.kwonlyargs, given.kw_defaults):
        add(argument, inspect.Parameter.KEYWORD_ONLY, default)
    if given.kwarg:
        add(given.kwarg, inspect.Parameter.VAR_KEYWORD)
    return inspect.Signature(parameters, return_annotation=inspect.Signature.empty if tree.returns is None else ast.unparse(tree.returns))


def signature_of(function):
    """The result of inspect.signature for a function or method of the extension: of several signatures, the one with most parameters."""
    bound = getattr(function, "__self__", None)
    all_of_it = [_parsed(text, defaults or ()) for text, _, defaults in (function.__func__ if bound is not None else function).__nb_signature__]
    signature = max(all_of_it, key=lambda each: len(each.parameters))
    return signature.replace(parameters=list(signature.parameters.values())[1:]) if bound is not None else signature


class _Call:
    """A call that fits no signature, out of nanobind's text: the function's name, its signatures, the types by place, and those by name."""

    def __init__(self, text):
        self.name, _, rest = text.partition("(): ")
        listed, _, types = rest.partition("\nInvoked with types: ")
        self.lines = re.findall(r"^    \d+\. (.*)$", listed, re.MULTILINE)
        by_place, _, by_name = types.partition("kwargs = { ")
        self.by_place = [each for each in by_place.strip().removesuffix(",").split(", ") if each]
        self.by_name = dict(each.split(": ", 1) for each in by_name.removesuffix(" }").split(", ") if ": " in each)
        self.signatures = [_parsed(f"def {line}") for line in self.lines]
        if all(list(each.parameters)[:1] == ["self"] for each in self.signatures) and self.by_place:
            owner = self.by_place.pop(0).rpartition(".")[2]
            self.name = owner if self.name == "__init__" else f"{owner}.{self.name}"
            self.signatures = [each.replace(parameters=list(each.parameters.values())[1:]) for each in self.signatures]


def refusal_of(text):
    """The sentence in place of nanobind's text."""
    call = _Call(text)
    refusals = [_refusal(call, list(signature.parameters.values())) for signature in call.signatures]
    # Of several signatures the one that the call is nearest to.
    return f"{call.name}() {max(refusals)[1]}"


def _refusal(call, parameters):
    """(how much of the call fits, what does not)."""
    known = [each for each in parameters if each.kind in _NAMED]
    by_place = [each for each in parameters if each.kind in _BY_PLACE]
    for name in call.by_name:
        if name not in [each.name for each in known] and not any(each.kind is each.VAR_KEYWORD for each in parameters):
            return 0, f"got an unexpected keyword argument '{name}'{_other_keyword(name, [each.name for each in known])}"
    if len(call.by_place) > len(by_place) and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        others = [each.name for each in known if each.kind is each.KEYWORD_ONLY]
        return 1, (f"takes at most {len(by_place)} positional argument{'s' if len(by_place) != 1 else ''} but {len(call.by_place)} were given"
                   + (f"; {_listed(others)} {'is' if len(others) == 1 else 'are'} given by name" if others else ""))
    given = dict(zip((each.name for each in by_place), call.by_place))
    for name in call.by_name:
        if name in given:
            return 2, f"got multiple values for argument '{name}'"
    given |= call.by_name
    missing = [each.name for each in parameters if each.default is each.empty and each.kind in (*_NAMED, *_BY_PLACE) and each.name not in given]
    if missing:
        return 3, f"is missing the argument{'s' if len(missing) > 1 else ''} {_listed([repr(name) for name in missing])}"
    wrong = [(each, given[each.name]) for each in parameters if each.name in given and not _fits(given[each.name], each.annotation)]
    for parameter, kind in wrong:
        return 4, f"argument '{parameter.name}' must be {_kinds(parameter.annotation)}, not {_short(kind)}"
    numbers = [each.name for each in parameters if each.name in given and "int" in each.annotation]
    if numbers:
        return 5, f"argument {_listed([repr(name) for name in numbers], 'or')} is too large, or must not be negative"
    return 5, f"takes no such arguments: {_listed([f'{_short(kind)} as {name!r}' for name, kind in given.items()]) or 'none'}"


def _other_keyword(name, known):
    if name == "async_op":
        return ": it returns when it is done, and has no asynchronous form of this name"
    meant = [each for each in KEYWORDS.get(name, ()) if each in known] or difflib.get_close_matches(name, known, 1, 0.5)
    if meant:
        return f". Did you mean '{meant[0]}'?"
    return f"; it takes {_listed(known)}" if known else "; it takes none"


def _listed(words, last="and"):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def _short(kind):
    return "None" if kind == "NoneType" else kind.rpartition(".")[2]


def _alternatives(annotation):
    parts, node = [], ast.parse(annotation, mode="eval").body
    while isinstance(node, ast.BinOp):
        parts.insert(0, node.right)
        node = node.left
    return [ast.unparse(each) for each in (node, *parts)]


def _kinds(annotation):
    return _listed([each.rpartition(".")[2] if "[" not in each else each.replace("collections.abc.", "") for each in _alternatives(annotation)], "or")


_PLAIN = {
    "int": r"int|bool|numpy\.u?int\d+", "float": r"float|int|bool|numpy\.(u?int|float)\d+", "bool": "bool", "str": "str", "bytes": "bytes", "None": "NoneType",
}
_DATA = r"int|bool|float|complex|str|bytes|bytearray|NoneType|list|tuple|dict|set|numpy\.\w+"


def _fits(kind, annotation):
    """Whether an object of this type may be what is annotated so: True wherever that is not known."""
    if annotation is inspect.Parameter.empty:
        return True
    return any(_fits_one(kind, each) for each in _alternatives(annotation))


def _fits_one(kind, wanted):
    if wanted in _PLAIN:
        return re.fullmatch(_PLAIN[wanted], kind) is not None
    name = wanted.partition("[")[0].rpartition(".")[2]
    if name == "Callable":
        return re.fullmatch(_DATA, kind) is None
    if name in ("list", "Sequence", "Iterable", "Collection"):
        return re.fullmatch(r"int|bool|float|complex|NoneType", kind) is None
    known, given = getattr(_core, name, None), getattr(_core, kind.rpartition(".")[2], None)
    if not isinstance(known, type):
        return True
    return issubclass(given, known) if isinstance(given, type) else re.fullmatch(_DATA, kind) is None
