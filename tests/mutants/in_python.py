"""Mutations of the Python package: one change of the syntax tree at a time, in a copy of the module beside links to all others."""

import ast
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

FIRST_NUMBER = 1_000_000  # behind all of C++
NUMBERS_OF_A_FILE = 1000
MODULES = "python/unisono/**/*.py"
# Who looks for mutations of a file: the tests of ctest whose names begin so, of the first row that fits.
TESTS = {
    "python/unisono/ignite/auto": ["python_core_ignite_adaptors", "python_core_ignite_test", "python_core_ignite_jobs"],
    "python/unisono/ignite": ["python_core_ignite_test", "python_core_ignite_adaptors", "python_core_ignite_jobs"],
    "python/unisono/mmengine": ["python_core_mmengine"],
    "python/unisono/virtex": ["python_core_virtex"],
    "python/unisono/horovod": ["python_core_horovod"],
    "python/unisono/jax": ["python_core_jax"],
    "python/unisono/torch2018": ["python_core_torch2018"],
    "python/unisono/torch": ["python_core_ignite_adaptors", "python_core_ignite_jobs", "python_collectives", "python_jobs", "python_extensions",
                             "python_stand_in"],
    "python/unisono/_job_store": ["python_core_ignite_jobs", "python_core_horovod_jobs"],
    "python/unisono/_slurm": ["python_core_ignite_test"],
    "python/unisono/_ending": ["python_core_errors", "python_endings", "python_core_launch"],
    "python/unisono/_elastic": ["python_core_elastic"],
    "python/unisono": ["python_core_parameters", "python_core_collectives", "python_core_surface", "python_core_launch", "python_core_errors"],
}
SWAPPED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in",
           ast.NotIn: "in"}
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "//"}


class Finder(ast.NodeVisitor):
    """What can be changed in a module: (node, text in its place, words)."""

    def __init__(self, text):
        self.text, self.found, self.functions = text, [], []
        self.visit(ast.parse(text))

    def shown(self, node):
        return " ".join(ast.get_source_segment(self.text, node).split())[:160]

    def add(self, node, text, what):
        self.found.append((node, text, what, ".".join(self.functions)))

    def visit_FunctionDef(self, node):
        self.functions.append(node.name)
        body = node.body[1:] if ast.get_docstring(node) else node.body
        if body and not isinstance(body[0], (ast.Pass, ast.Raise)):
            self.add((body[0], body[-1]), "pass", "does nothing")
        self.generic_visit(node)
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()

    def visit_If(self, node):
        for value in ("True", "False"):
            self.add(node.test, value, f"`{self.shown(node.test)}` always {value.lower()}")
        self.generic_visit(node)

    visit_IfExp = visit_While = visit_If

    def visit_Return(self, node):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.add(node.value, "None", f"None for `{self.shown(node.value)}`")
        self.generic_visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.add(node, "pass", f"without `{self.shown(node)}`")
        self.generic_visit(node)

    def visit_Compare(self, node):
        other = SWAPPED[type(node.ops[0])]
        left, right = self.shown(node.left), self.shown(node.comparators[0])
        if len(node.ops) == 1:
            self.add(node, f"({ast.get_source_segment(self.text, node.left)} {other} {ast.get_source_segment(self.text, node.comparators[0])})",
                     f"`{left} {other} {right}` for `{self.shown(node)}`")
        self.generic_visit(node)

    def visit_BinOp(self, node):
        other = COMPUTED.get(type(node.op))
        if other and not isinstance(node.left, (ast.JoinedStr, ast.List)) and not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
            self.add(node, f"({ast.get_source_segment(self.text, node.left)} {other} {ast.get_source_segment(self.text, node.right)})",
                     f"`{other}` in `{self.shown(node)}`")
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.add(node, str(not node.value), f"`{not node.value}` for `{node.value}`")

    def visit_Call(self, node):
        for keyword in node.keywords:
            if keyword.arg is None:
                self.add(keyword.value, "{}", f"without `**{self.shown(keyword.value)}`")
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.add(argument.value, "()", f"without `*{self.shown(argument.value)}`")
        self.generic_visit(node)

    def visit_JoinedStr(self, node):
        pass  # what messages say


def offsets(text):
    """Where each line begins, in bytes."""
    begins = [0]
    for line in text.encode().splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    return begins


def mutants(root):
    """By number, each with the text of its module."""
    found = {}
    for i, path in enumerate(sorted(os.path.relpath(p, root) for p in glob.glob(str(root / MODULES), recursive=True))):
        text = (root / path).read_text()
        begins, data, count = offsets(text), text.encode(), {}
        for n, (node, replacement, what, where) in enumerate(Finder(text).found[:NUMBERS_OF_A_FILE]):
            first, last = node if isinstance(node, tuple) else (node, node)
            first = (getattr(first, "decorator_list", None) or [first])[0]
            start, end = begins[first.lineno - 1] + first.col_offset, begins[last.end_lineno - 1] + last.end_col_offset
            start -= data[start - 1 : start] == b"@"
            name = f"{path} {where}: {what}"
            count[name] = count.get(name, 0) + 1
            number = FIRST_NUMBER + NUMBERS_OF_A_FILE * i + n
            found[number] = {"number": number, "key": name if count[name] == 1 else f"{name} ({count[name]})", "path": path, "line": first.lineno,
                             "where": where, "what": what, "text": (data[:start] + replacement.encode() + data[end:]).decode()}
    return found


def programs(build):
    """By name, the short tests of ctest: command and environment."""
    listed = json.loads(subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, check=True, text=True).stdout)
    found = {}
    for test in listed["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        if test["name"].startswith("python_") and "long" not in properties.get("LABELS", []) and "command" in test:
            found[test["name"]] = test["command"], dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
    return found


class Hunt:
    """Asks the tests of a file whether they see a change of it."""

    def __init__(self, root, folder, known):
        self.folder, self.mutants, self.build = folder / "python", known, root / "build" / "release"
        self.package = self.build / "python" / "unisono"
        self.programs = programs(self.build)

    def look(self, paths):
        """Leaves out the tests that are red without a mutation."""
        some = next(iter(self.mutants.values()))["path"]
        place = self.overlay(some, (self.package / pathlib.Path(some).relative_to("python/unisono")).read_text())
        for name in {name: None for path in paths for name in self.tests_of(path)}:
            if (ended := self.run(name, place, 600)) != "green":
                print(f"{name}: left out, it is {ended} without a mutation", flush=True)
                del self.programs[name]
        shutil.rmtree(place)

    def overlay(self, path, text):
        """A folder for PYTHONPATH: links to the package as it was built, but for one module."""
        place = self.folder / str(os.getpid())
        shutil.rmtree(place, ignore_errors=True)
        changed = pathlib.Path(path).relative_to("python/unisono")
        at, source = place / "unisono", self.package
        for part in changed.parts:
            at.mkdir(parents=True)
            for entry in source.iterdir():
                if entry.name not in (part, "__pycache__"):
                    (at / entry.name).symlink_to(entry)
            at, source = at / part, source / part
        at.write_text(text)
        for folder in ("lib", "bin"):  # where an installed package has them
            (place / "unisono" / folder).symlink_to(self.build / folder)
        return place

    def tests_of(self, path):
        begins = next(names for prefix, names in TESTS.items() if path.startswith(prefix))
        return [name for begin in begins for name in self.programs if name.startswith(begin)]

    def run(self, name, place, limit):
        command, environment = self.programs[name]
        kept = [entry for entry in environment.get("PYTHONPATH", "").split(":") if entry != str(self.build / "python")]
        environment = {**os.environ, **environment, "PYTHONPATH": ":".join([str(place), *kept]), "COVERAGE_FOLDER": "", "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            try:
                return "green" if process.wait(limit) == 0 else "red"
            except subprocess.TimeoutExpired:
                return "time"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def ask(self, number):
        """The verdict on one mutation."""
        mutant, started = self.mutants[number], time.monotonic()
        names = self.tests_of(mutant["path"])
        if not names:
            return {"verdict": "not reached", "tests": 0, "seconds": 0}
        place = self.overlay(mutant["path"], mutant["text"])
        try:
            for i, name in enumerate(names):
                ended = self.run(name, place, 180)
                if ended != "green":
                    return {"verdict": ended, "by": name, "tests": i + 1, "seconds": round(time.monotonic() - started, 2)}
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return {"verdict": "survived", "tests": len(names), "seconds": round(time.monotonic() - started, 2)}


hunt = None  # of this process and its workers, which have it from before they were forked


def ask(number):
    return hunt.ask(number)
