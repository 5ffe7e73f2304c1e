"""The docstrings of the package: each exported name has numpydoc's sections and the parameters of its signature, and its examples hold.

Examples run on two ranks, whose output is alike; those that begin with "Alone:" run in a process that nobody has launched."""

import ast
import builtins
import doctest
import importlib.resources
import inspect
import io
import os
import re
import sys
import unittest

import numpy
from jobs import JobTest, UNISONO

import unisono

SECTIONS = ["Parameters", "Attributes", "Methods", "Returns", "Raises", "See Also", "Notes", "Examples"]  # in this order
ONLY_VALUES = {"any_source", "any_tag"}  # which have no docstring of their own: AnySource, and an int
# Functions that return nothing, of those whose signature does not say so.
RETURN_NOTHING = {"initialize", "show_config"}
# Functions that raise nothing of their own.
RAISE_NOTHING = {"available_backends", "cmake_prefix", "finalize", "gpu_mem_peak", "gpu_mem_usage", "hostname", "infer_launcher",
                 "is_backend_available", "is_initialized", "is_torchelastic_launched", "launcher_local_rank", "object_limits", "premul_sum",
                 "set_object_limits", "sync", "worker_number"}
# Classes whose objects only the package makes.
NOT_MADE = {"Handle", "Handles"}
# Examples that cannot run here, and what they need.
NOT_RUN = {"EtcdStore": "an etcd"}


def stub():
    """The functions and classes of the extension as type checkers see them, by name; a function with several signatures has several."""
    nodes = {}
    for node in ast.parse((importlib.resources.files("unisono") / "_core.pyi").read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            nodes.setdefault(node.name, []).append(node)
    return nodes


STUB = stub()


def documented():
    return [name for name in unisono.__all__ if name not in ONLY_VALUES]


def text_of(name):
    """The docstring, without the signatures that nanobind puts before it."""
    found = getattr(unisono, name)
    signatures = getattr(found, "__nb_signature__", None)
    return inspect.cleandoc(signatures[0][1]) if signatures else inspect.getdoc(found)


def is_function(name):
    return not isinstance(getattr(unisono, name), type)


def nodes_of(name):
    """The functions of the stub whose parameters the name has: for a class its constructors. None for what is written in Python."""
    if getattr(getattr(unisono, name), "__module__", "") != "unisono._core":
        return None
    nodes = STUB[name]
    if isinstance(nodes[0], ast.ClassDef):
        return [node for node in nodes[0].body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return nodes


def parameters_of(name):
    """The names of the parameters as they are written, *args with its star."""
    nodes = nodes_of(name)
    names = {}
    if nodes is None:
        found = getattr(unisono, name)
        if name in NOT_MADE or (not is_function(name) and "__init__" not in vars(found) and not issubclass(found, tuple)):
            return []
        for each in inspect.signature(found).parameters.values():
            names["*" * ((each.kind == each.VAR_POSITIONAL) + 2 * (each.kind == each.VAR_KEYWORD)) + each.name] = None
        return list(names)
    for node in nodes:
        own = node.args
        rest = ([f"*{own.vararg.arg}"] if own.vararg else []) + [each.arg for each in own.kwonlyargs] + ([f"**{own.kwarg.arg}"] if own.kwarg else [])
        for each in [*(each.arg for each in (*own.posonlyargs, *own.args)), *rest]:
            names[each] = None
    return [each for each in names if each != "self"]


def returns_something(name):
    nodes = nodes_of(name)
    if nodes is None:
        return name not in RETURN_NOTHING
    return any(ast.unparse(node.returns) != "None" for node in nodes)


def sections_of(text):
    """The summary under "", and each section under its name."""
    parts = re.split(r"(?:^|\n)([A-Z][A-Za-z ]+)\n(-+)(?:\n|$)", text)
    sections = {"": parts[0]}
    for name, line, content in zip(parts[1::3], parts[2::3], parts[3::3]):
        assert len(line) == len(name) and name not in sections, name
        sections[name] = content
    return sections


def entries_of(section):
    """(head, what is said of it) of each entry."""
    heads = re.split(r"(?:^|\n)(?=\S)", section.strip("\n"))
    return [each.partition("\n")[::2] for each in heads if each]


def names_of(section):
    """The names of the entries, of which several may stand before one type."""
    return [name for head, _ in entries_of(section) for name in head.split(" : ")[0].split(", ")]


def is_alone(name):
    return sections_of(text_of(name))["Examples"].lstrip("\n").startswith("Alone")


def failure_of(name):
    """What does not hold of the examples; an empty text if they hold."""
    test = doctest.DocTestParser().get_doctest(text_of(name), {"numpy": numpy, "unisono": unisono}, name, None, 0)
    told = io.StringIO()
    doctest.DocTestRunner(verbose=False).run(test, out=told.write)
    return told.getvalue()


class Form(unittest.TestCase):
    def each(self, check):
        """Fails with what the check says of each name, if it says anything."""
        said = {name: check(name) for name in documented()}
        self.assertEqual({name: text for name, text in said.items() if text}, {})

    def test_every_name_begins_with_one_sentence_on_a_line(self):
        def check(name):
            first, _, rest = text_of(name).partition("\n")
            return not re.fullmatch(r"[`A-Z].{10,98}\.", first) and first or (rest and not rest.startswith("\n") and "no empty line behind the first")

        self.each(check)

    def test_sections_are_those_of_numpydoc_in_their_order(self):
        def check(name):
            own = list(sections_of(text_of(name)))[1:]
            return [each for each in own if each not in SECTIONS] or (own != sorted(own, key=SECTIONS.index) and own)

        self.each(check)

    def test_every_name_has_the_sections_that_it_needs(self):
        def check(name):
            has = sections_of(text_of(name))
            needed = {"Examples": True, "Parameters": bool(parameters_of(name))}
            if is_function(name):
                needed |= {"Returns": returns_something(name), "Raises": name not in RAISE_NOTHING}
            return [section for section, is_needed in needed.items() if is_needed != (section in has)]

        self.each(check)

    def test_parameters_are_those_of_the_signature_in_its_order(self):
        # A class whose constructor programs do not call documents none, and says so by having no such section.
        self.each(lambda name: (own := names_of(sections_of(text_of(name)).get("Parameters", ""))) != parameters_of(name) and own)

    def test_every_entry_has_a_type_and_sentences(self):
        def check(name):
            wrong = []
            for section, content in sections_of(text_of(name)).items():
                if section not in ("Parameters", "Attributes", "Returns", "Raises", "Methods"):
                    continue
                for head, said in entries_of(content):
                    has_type = section != "Parameters" or re.fullmatch(r"\S.* : \S.*", head) or head.startswith("*")
                    if not has_type or not re.fullmatch(r"(    \S.*\n)*    \S.*[.:)]", said.rstrip("\n")):
                        wrong.append(f"{section}: {head}")
            return wrong

        self.each(check)

    def test_errors_are_exceptions_that_there_are(self):
        def check(name):
            heads = [head for head, _ in entries_of(sections_of(text_of(name)).get("Raises", ""))]
            return [each for each in heads if not issubclass(getattr(unisono, each, getattr(builtins, each, type)), BaseException)]

        self.each(check)

    def test_lines_are_short_and_no_shared_text_is_missing(self):
        self.each(lambda name: [line for line in text_of(name).splitlines() if len(line) > 110 or re.fullmatch(r"\{[a-z_ ]+\}", line)])

    def test_help_shows_all_of_it(self):
        shown = inspect.getdoc(unisono.all_reduce_async)
        for part in ("all_reduce_async(x", "deterministic : bool", "ProcessGroup, optional", "PeerFailed\n", "work.wait()"):
            self.assertIn(part, shown)


class Examples(JobTest):
    def test_every_name_has_an_example_that_runs(self):
        for name in documented():
            examples = doctest.DocTestParser().get_examples(text_of(name))
            skips = [doctest.SKIP in each.options for each in examples]
            self.assertEqual(all(skips), name in NOT_RUN, name)
            self.assertEqual(any(skips), name in NOT_RUN, name)

    def test_examples_hold_on_two_ranks(self):
        command = [UNISONO, "run", "-n", "2", "--grace", "3", "--", sys.executable, os.path.abspath(__file__), "--ranks"]
        names = [name for name in documented() if not is_alone(name)]
        self.assertGreater(len(names), 100)
        output = self.run_command(command, timeout=300)
        for rank in range(2):
            self.assertIn(f"rank {rank}: the examples of {len(names)} names hold", output)

    def test_examples_of_programs_that_nobody_launched_hold(self):
        names = [name for name in documented() if is_alone(name)]
        self.assertGreater(len(names), 10)
        # Of a program without a file the new processes import nothing but the package.
        program = "import sys; sys.path.append(sys.argv[1]); import docstrings_test; docstrings_test.run_alone()"
        output = self.run_command([sys.executable, "-c", program, os.path.dirname(os.path.abspath(__file__))], timeout=300)
        self.assertIn(f"the examples of {len(names)} names hold", output)


def run_examples(names, who):
    failures = [failure for name in names if (failure := failure_of(name))]
    sys.stderr.write("\n".join(failures))
    if failures:
        # The other rank may wait for this one: it goes without a goodbye.
        sys.stderr.flush()
        os._exit(1)
    print(f"{who}the examples of {len(names)} names hold", flush=True)


def run_as_rank():
    unisono.initialize(timeout=60)
    run_examples([name for name in documented() if not is_alone(name)], f"rank {unisono.rank()}: ")
    unisono.finalize()


def run_alone():
    run_examples([name for name in documented() if is_alone(name)], "")


if __name__ == "__main__":
    if sys.argv[1:] == ["--ranks"]:
        run_as_rank()
    else:
        unittest.main()
