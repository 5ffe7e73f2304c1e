"""What fingers write that know another library: names, keywords and types that are not ours, signatures, and the rows of docs/coming-from/habits.md."""

import ast
import importlib.resources
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

import unisono
from unisono import _habits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from" / "habits.md"
UNISONO = os.environ.get("UNISONO_COMMAND", "unisono")


def ours(text):
    """What a text of the tables names of ours: `unisono.x`, `unisono.x.y`."""
    return [name for name in re.findall(r"\bunisono((?:\.\w+)+)", text) if name.split(".")[1] not in _habits._MODULES]


class Names(unittest.TestCase):
    def test_an_alias_is_the_very_same_object(self):
        for name, meant in _habits.ALIASES.items():
            with self.subTest(name=name):
                value = unisono
                for part in meant.removesuffix("()").split("."):
                    value = getattr(value, part)
                if meant.endswith("()"):
                    self.assertEqual(getattr(unisono, name), value())
                else:
                    self.assertIs(getattr(unisono, name), value)

    def test_a_name_with_advice_is_an_error_that_names_what_there_is(self):
        for name, text in _habits.ADVICE.items():
            with self.subTest(name=name):
                if name in _habits._MODULES and f"unisono.{name}" in sys.modules:
                    continue
                with self.assertRaises(AttributeError) as raised:
                    getattr(unisono, name)
                self.assertEqual(str(raised.exception), f"unisono.{name}: {text}")
                for dotted in ours(text):
                    value = unisono
                    for part in dotted.split(".")[1:]:
                        self.assertTrue(part in dir(value), f"{text}: there is no unisono{dotted}")
                        value = getattr(value, part)

    def test_no_name_of_ours_is_in_the_tables(self):
        self.assertFalse(_habits.ALIASES.keys() & _habits.ADVICE.keys())
        self.assertFalse((_habits.ALIASES.keys() | _habits.ADVICE.keys()) & set(unisono.__all__))
        self.assertFalse(_habits.GROUP_ALIASES.keys() & _habits.GROUP_ADVICE.keys())
        self.assertFalse((_habits.GROUP_ALIASES.keys() | _habits.GROUP_ADVICE.keys()) & set(dir(unisono.ProcessGroup)))

    def test_the_package_lists_its_own_names_alone(self):
        getattr(unisono, "get_rank")
        foreign = _habits.ALIASES.keys() | _habits.ADVICE.keys()
        self.assertFalse(foreign - set(_habits._MODULES) & set(dir(unisono)))
        self.assertFalse(foreign & set(unisono.__all__))
        self.assertFalse(set(_habits.REDUCE_OPS) & set(dir(unisono.ReduceOp)))
        self.assertEqual([each.name for each in unisono.ReduceOp], list(unisono.ReduceOp.__members__))

    def test_an_unknown_name_gets_the_nearest_one_of_ours(self):
        for name, near in (("all_reduces", "all_reduce"), ("Contxt", "Context"), ("PeerFailled", "PeerFailed"), ("all_gather_objects", "all_gather_object")):
            with self.assertRaisesRegex(AttributeError, f"module 'unisono' has no attribute '{name}'. Did you mean: '{near}'\\?$"):
                getattr(unisono, name)
        for name in ("quite_another_thing", "_all_reduce", "__wrapped__"):
            with self.assertRaisesRegex(AttributeError, f"module 'unisono' has no attribute '{name}'$"):
                getattr(unisono, name)

    def test_the_interpreter_adds_no_guess_of_its_own(self):
        done = subprocess.run([sys.executable, "-c", "import unisono\nunisono.al_reduce"], capture_output=True, text=True)
        self.assertEqual(done.stderr.splitlines()[-1], "AttributeError: module 'unisono' has no attribute 'al_reduce'. Did you mean: 'all_reduce'?")

    def test_an_enumerator_has_its_name_elsewhere(self):
        for name, meant in _habits.REDUCE_OPS.items():
            self.assertIs(getattr(unisono.ReduceOp, name), unisono.ReduceOp[meant])
        self.assertFalse(hasattr(unisono.ReduceOp, "SUMM"))

    def test_a_group_has_the_methods_of_a_communicator_or_names_the_function(self):
        group = unisono.world()
        for name, meant in _habits.GROUP_ALIASES.items():
            self.assertEqual(getattr(group, name)(), getattr(group, meant)())
        for name, text in _habits.GROUP_ADVICE.items():
            with self.assertRaisesRegex(AttributeError, re.escape(f"ProcessGroup.{name}: {text}")):
                getattr(group, name)
        for name, text in (("Bcast", "unisono.broadcast(…, group=group)"), ("all_reduce", "unisono.all_reduce(…, group=group)"),
                           ("Allreduce", "unisono.all_reduce(x, out=y)"), ("global_rankz", "has no attribute 'global_rankz'. Did you mean: 'global_rank'?")):
            with self.assertRaisesRegex(AttributeError, re.escape(text)):
                getattr(group, name)
        self.assertFalse(hasattr(group, "__array_interface__"))


class Calls(unittest.TestCase):
    def refused(self, text, function, *args, **kwargs):
        with self.assertRaises(TypeError) as raised:
            function(*args, **kwargs)
        self.assertEqual(str(raised.exception), text)

    def test_a_wrong_keyword_gets_the_nearest_one_or_the_list(self):
        x = np.ones(2)
        self.refused("all_reduce() got an unexpected keyword argument 'time_out'. Did you mean 'timeout'?", unisono.all_reduce, x, time_out=3)
        self.refused("barrier() got an unexpected keyword argument 'zzzz'; it takes group, timeout, tag and async_op", unisono.barrier, zzzz=3)
        self.refused("rank() got an unexpected keyword argument 'group'; it takes none", unisono.rank, group=unisono.world())
        self.refused("Grid() got an unexpected keyword argument 'dims'. Did you mean 'extents'?", unisono.Grid, dims=(1,))
        self.refused("Grid.rank_at() got an unexpected keyword argument 'coordinate'. Did you mean 'coordinates'?", unisono.Grid((1,)).rank_at, coordinate=(0,))
        self.refused("Grid.choose_extents() got an unexpected keyword argument 'rank'. Did you mean 'ranks'?"[5:], unisono.Grid.choose_extents, rank=1, extents=(1,))
        self.refused("TcpStore() got an unexpected keyword argument 'is_master'. Did you mean 'is_server'?", unisono.TcpStore, "localhost", 1, is_master=True)
        self.refused("InitOptions() got an unexpected keyword argument 'world'. Did you mean 'world_size'?", unisono.InitOptions, world=3)

    def test_each_keyword_of_another_library_means_one_of_ours(self):
        parameters = {each for value in map(unisono.__dict__.get, unisono.__all__) if callable(value) for each in inspect.signature(value).parameters}
        for keyword, meant in _habits.KEYWORDS.items():
            self.assertTrue(set(meant) <= parameters, keyword)
        for keyword, meant in (("tensor", "x"), ("sendbuf", "x"), ("comm", "group"), ("root", "dst"), ("average", "op")):
            with self.assertRaisesRegex(TypeError, f"reduce\\(\\) got an unexpected keyword argument '{keyword}'. Did you mean '{meant}'\\?$"):
                unisono.reduce(np.ones(1), **{keyword: 0})

    def test_a_wrong_number_of_arguments_is_counted(self):
        x = np.ones(2)
        self.refused("all_reduce() takes at most 3 positional arguments but 4 were given; out, timeout, tag, deterministic and async_op are given by name",
                     unisono.all_reduce, x, "sum", None, x)
        self.refused("rank() takes at most 0 positional arguments but 1 were given", unisono.rank, 1)
        self.refused("all_reduce() got multiple values for argument 'x'", unisono.all_reduce, x, x=x)
        self.refused("send() is missing the arguments 'x' and 'dst'", unisono.send)
        self.refused("GlobalRank() is missing the argument 'value'", unisono.GlobalRank)

    def test_a_wrong_type_is_named_with_the_one_that_is_meant(self):
        x = np.ones(2)
        self.refused("all_reduce() argument 'tag' must be int, not str", unisono.all_reduce, x, tag="7")
        self.refused("all_reduce() argument 'deterministic' must be bool, not int", unisono.all_reduce, x, deterministic=1)
        self.refused("GlobalRank() argument 'value' must be int, not str", unisono.GlobalRank, "1")
        self.refused("shrink_group() argument 'group' must be ProcessGroup, not list", unisono.shrink_group, [0, 1])
        self.refused("is_backend_available() argument 'name' must be str, not None", unisono.is_backend_available, None)
        self.refused("PrefixStore() argument 'store' must be Store, not str", unisono.PrefixStore, "a", "b")
        self.refused("all_reduce() argument 'tag' is too large, or must not be negative", unisono.all_reduce, x, tag=1 << 40)

    def test_a_call_goes_well_after_one_that_was_refused(self):
        for _ in range(3):
            self.assertRaises(TypeError, unisono.all_reduce, 1, tagg=2)
            self.assertEqual(unisono.all_reduce(2, tag=3), 2)

    def test_an_operator_without_a_meaning_is_still_left_to_the_other_side(self):
        self.assertFalse(unisono.world() == 3)
        self.assertTrue(unisono.Device is not None and unisono.device() != "cpu")

    def test_the_asynchronous_form_is_had_by_async_op(self):
        one = [np.full(1, 2.0)]
        calls = [
            (unisono.all_reduce, (np.full(2, 3.0),), {}), (unisono.reduce, (np.full(2, 3.0), 0), {}), (unisono.broadcast, (np.full(2, 3.0),), {}),
            (unisono.scan, (np.full(2, 3.0),), {}), (unisono.exscan, (np.full(2, 3.0),), {}), (unisono.all_gather, (np.ones(2), np.empty((1, 2))), {}),
            (unisono.gather, (np.ones(2), np.empty((1, 2))), {}), (unisono.scatter, (np.ones(2), np.empty(2)), {}),
            (unisono.reduce_scatter, (np.ones(2), np.empty(2)), {}), (unisono.all_to_all, (np.ones(2), np.empty(2)), {}),
            (unisono.all_gather_v, (np.ones(2), np.empty(2), [2]), {}), (unisono.gather_v, (np.ones(2), np.empty(2), [2]), {}),
            (unisono.scatter_v, (np.ones(2), [2], np.empty(2)), {}), (unisono.reduce_scatter_v, (np.ones(2), [2], np.empty(2)), {"op": "max"}),
            (unisono.all_to_all_v, (np.ones(2), [2], np.empty(2), [2]), {}), (unisono.barrier, (), {}),
            (unisono.broadcast_multigpu, (one, 0), {}), (unisono.all_reduce_multigpu, (one,), {}), (unisono.reduce_multigpu, (one, 0), {}),
            (unisono.all_gather_multigpu, ([np.empty(1)], one), {}), (unisono.reduce_scatter_multigpu, ([np.empty(1)], one), {}),
        ]
        # Every function that has a form of its own for it.
        self.assertEqual({function.__name__ for function, *_ in calls},
                         {name.removesuffix("_async") for name in unisono.__all__ if name.endswith("_async")})
        for function, args, kwargs in calls:
            with self.subTest(function=function.__name__):
                work = function(*args, async_op=True, **kwargs)
                self.assertIsInstance(work, unisono.Work)
                work.wait()
                self.assertNotIsInstance(function(*args, async_op=False, **kwargs), unisono.Work)


class Signatures(unittest.TestCase):
    def test_every_exported_function_and_class_has_one(self):
        without = []
        for name in unisono.__all__:
            if callable(getattr(unisono, name)):
                try:
                    inspect.signature(getattr(unisono, name))
                except (TypeError, ValueError) as error:
                    without.append(f"{name}: {error}")
        self.assertEqual(without, [])

    def test_it_is_one_of_those_of_the_stubs(self):
        body = ast.parse((importlib.resources.files("unisono") / "_core.pyi").read_text()).body
        known = {}
        for node in body:
            if isinstance(node, ast.FunctionDef) and getattr(vars(unisono).get(node.name), "__module__", None) == "unisono._core":
                defaults = len(node.args.defaults) + len([each for each in node.args.kw_defaults if each])
                names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                known.setdefault(node.name, []).append((names, defaults))
        self.assertGreater(len(known), 100)
        for name, signatures in known.items():
            with self.subTest(name=name):
                parameters = inspect.signature(getattr(unisono, name)).parameters.values()
                self.assertIn(([each.name for each in parameters], len([each for each in parameters if each.default is not each.empty])), signatures)

    def test_that_of_what_is_written_in_python_is_in_the_stubs_of_the_package(self):
        body = ast.parse((importlib.resources.files("unisono") / "__init__.pyi").read_text()).body
        own = {name for name in unisono.__all__ if inspect.isfunction(getattr(unisono, name))}
        self.assertEqual(own - {node.name for node in body if isinstance(node, ast.FunctionDef)}, set())
        last = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}  # of overloads the one with all parameters
        for node in last.values():
            owner = getattr(unisono, node.name, None) if isinstance(node, ast.ClassDef) else unisono
            methods = [each for each in (node.body if isinstance(node, ast.ClassDef) else [node]) if isinstance(each, ast.FunctionDef)]
            for each in methods if owner is not None else ():
                function = inspect.getattr_static(owner, each.name)
                function = getattr(function, "fget", None) or getattr(owner, each.name)
                with self.subTest(name=f"{node.name}.{each.name}"):
                    actual = inspect.signature(function).parameters.values()
                    names = [a.name for a in actual if a.kind is not a.VAR_KEYWORD or each.args.kwarg]
                    told = [a.arg for a in (*each.args.posonlyargs, *each.args.args, *filter(None, [each.args.vararg]), *each.args.kwonlyargs,
                                            *filter(None, [each.args.kwarg]))]
                    # What takes **options hands them on.
                    self.assertEqual(told[: len(names)] if len(names) < len(actual) else told, names)

    def test_it_has_kinds_defaults_and_annotations(self):
        signature = inspect.signature(unisono.all_reduce)
        self.assertEqual(str(signature), "(x: 'X', op: 'Op' = 'sum', group: 'ProcessGroup | None' = None, *, out: 'Buffer | None' = None, "
                         "timeout: 'Seconds' = None, tag: 'int' = 0, deterministic: 'bool' = False, async_op: 'typing.Literal[False]' = False) -> 'X'")
        signature.bind(1, group=None, tag=3)
        self.assertRaises(TypeError, signature.bind, 1, "sum", None, 3)

    def test_methods_and_classes_have_theirs(self):
        grid = unisono.Grid((1,))
        self.assertEqual(list(inspect.signature(unisono.Grid).parameters), ["extents", "periodic", "group"])
        self.assertEqual(list(inspect.signature(unisono.Grid.rank_at).parameters), ["self", "coordinates"])
        self.assertEqual(list(inspect.signature(grid.rank_at).parameters), ["coordinates"])
        self.assertEqual(list(inspect.signature(unisono.Timeout).parameters), ["args"])
        self.assertEqual(list(inspect.signature(unisono.Work).parameters), [])

        class Mine(unisono.Error):
            def __init__(self, first, *, second=2):
                super().__init__(first)

        self.assertEqual(list(inspect.signature(Mine).parameters), ["first", "second"])

    def test_no_other_attribute_appears(self):
        self.assertFalse(hasattr(unisono.all_reduce, "__wrapped__") or hasattr(unisono.all_reduce, "quite_another"))
        self.assertFalse(hasattr(unisono.world(), "__signature__"))


class Page(unittest.TestCase):
    """The rows of the page's table for Python: what is written, and `is X`, an error with its text, or what is printed."""

    def evaluated(self, code):
        names = {"unisono": unisono, "group": unisono.world(), "x": np.full(3, 2.0), "y": np.empty(3), "z": np.ones(3), "inspect": inspect}
        return eval(code, names)

    def run_line(self, line):
        command = shlex.split(line)
        command[0] = {"python3": sys.executable, "unisono": UNISONO}[command[0]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout

    def check(self, written, happens):
        code = re.fullmatch(r"`(.*)`", written).group(1)
        same, printed, error = (re.match(pattern, happens) for pattern in (r"is `([^`]*)`", r"prints `([^`]*)`", r"`(\w+): (.*)`$"))
        if code.startswith("python3 "):
            if printed and importlib.util.find_spec("cloudpickle") is None:
                self.skipTest("cloudpickle is not installed: scripts/get/python brings it")
            self.assertEqual(self.run_line(code), self.run_line(same.group(1)) if same else (0, f"{printed.group(1)}\n"))
        elif error:
            with self.assertRaises(Exception) as raised:
                self.evaluated(code)
            self.assertEqual(f"{type(raised.exception).__name__}: {raised.exception}", f"{error.group(1)}: {error.group(2)}")
        elif code.endswith(".init()"):  # what joins the job can be called once
            self.assertIs(self.evaluated(code.removesuffix("()")), self.evaluated(same.group(1).removesuffix("()")))
        else:
            np.testing.assert_equal(self.evaluated(code), self.evaluated(same.group(1)))

    def test_each_row_is_so(self):
        table = PAGE.read_text().split("## In Python\n", 1)[1].split("\n## ", 1)[0]
        rows = re.findall(r"^\| (`.*`) \| (.*) \|$", table, re.MULTILINE)
        self.assertEqual(len(rows), 25)
        for written, happens in rows:
            with self.subTest(written=written):
                self.check(written, happens)


if __name__ == "__main__":
    unittest.main()
