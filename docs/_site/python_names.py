"""Prints what the Python package exports, as JSON: for each public module its names, with kind, signatures and docstring.
  python_names.py STUBS    Runs in the Python for which the package is built. STUBS: _core.pyi, which has the forms of overloaded functions."""

import ast
import enum
import importlib
import inspect
import json
import pkgutil
import sys
import types

MISSING = {"torch": "PyTorch", "jax": "JAX", "torch_xla": "torch_xla"}


class Stubs:
    """Returns signatures by name: "all_reduce", "Work.wait"."""

    def __init__(self, paths):
        self.known = {}
        for path in paths:
            with open(path, encoding="utf-8") as file:
                self._read(ast.parse(file.read()).body, "")

    def _read(self, body, prefix):
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._read(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                text = f"{node.name}({arguments_of(node.args)}){returns}"
                self.known.setdefault(prefix + node.name, []).append(text)


def arguments_of(arguments):
    """Returns the signatures without self."""
    by_place = arguments.posonlyargs or arguments.args
    if by_place and by_place[0].arg in ("self", "cls"):
        del by_place[0]
    return ast.unparse(arguments).replace("\n", " ")


def signatures(stubs, key, value):
    if key in stubs.known:
        return stubs.known[key]
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    parameters = [each for each in found.parameters.values() if each.name not in ("self", "cls")]
    return [key.rpartition(".")[2] + str(found.replace(parameters=parameters))]


def own_docstring(value):
    text = getattr(value, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def kind_of(value):
    if inspect.isclass(value):
        return "class"
    if isinstance(value, property) or inspect.isdatadescriptor(value):
        return "property"
    return "function" if callable(value) else "value"


def members(stubs, cls, name):
    """Returns the public members that classes of the package define, in alphabetical order."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "unisono":
            found.update({each: value for each, value in vars(base).items() if not each.startswith("_") and not isinstance(value, cls)})
    for each, value in sorted(found.items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = getattr(cls, each)
        yield described(stubs, f"{name}.{each}", value)


def described(stubs, key, value):
    kind = kind_of(value)
    entry = {"name": key, "kind": kind, "doc": own_docstring(value) if kind != "value" else ""}
    if kind == "function":
        entry["signatures"] = signatures(stubs, key, value)
    elif kind == "class":
        entry["bases"] = [each.__name__ for each in value.__bases__ if each is not object]
        entry["signatures"] = constructors(stubs, key, value)
        entry["members"] = list(members(stubs, value, key))
    elif kind == "value":
        entry["value"] = repr(value)
    return entry


def constructors(stubs, key, cls):
    """Returns the signatures that make objects of the class; of an enumeration, its values."""
    name = key.rpartition(".")[2]
    if issubclass(cls, enum.Enum):
        return [f"{name}.{value}" for value in cls.__members__]
    found = stubs.known.get(f"{key}.__init__") or [text for text in signatures(stubs, key, cls) if not text.endswith("()")]
    return [text.replace("__init__", name, 1).removesuffix(" -> None") for text in found]


def exported(module):
    """Returns the names of a module that programs may use."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    is_package = hasattr(module, "__path__")

    def is_own(value):
        home = getattr(value, "__module__", None)
        if isinstance(value, types.ModuleType) or not isinstance(home, str):
            return not isinstance(value, types.ModuleType) and type(value).__module__ == "builtins"
        return home.startswith("unisono") if is_package else home == module.__name__

    return sorted(name for name, value in vars(module).items() if not name.startswith("_") and is_own(value))


def modules():
    import unisono

    yield unisono
    for each in pkgutil.walk_packages(unisono.__path__, "unisono."):
        if any(part.startswith("_") for part in each.name.split(".")):
            continue
        try:
            yield importlib.import_module(each.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in MISSING:
                raise
            print(f"NOT DOCUMENTED: {each.name}, since {MISSING[error.name.partition('.')[0]]} is missing", file=sys.stderr)


def main():
    core = Stubs(sys.argv[1:])
    nothing = Stubs([])
    found = []
    for module in modules():
        stubs = core if module.__name__ == "unisono" else nothing
        names = [{**described(stubs, name, getattr(module, name)), "home": getattr(getattr(module, name), "__module__", None)} for name in exported(module)]
        found.append({"module": module.__name__, "doc": own_docstring(module), "names": names})
    json.dump(found, sys.stdout, indent=1)


main()
