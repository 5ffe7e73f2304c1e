"""Which extension serves which PyTorch: the one that the package carries, one that was compiled once for this user, or a sentence that says what to install."""

import ctypes
import glob
import os
import stat
import sys
import tempfile
import textwrap
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

import jobs
import torch
from unisono.torch import _cache, _compile, _extension

MINOR = ".".join(torch.__version__.split(".")[:2])
# The package as a wheel without an extension for this PyTorch has it.
WITHOUT = """
from unisono.torch import _extension
_extension.EXTENSIONS = os.environ["EXTENSIONS"]
"""


def pytorch(version):
    return types.SimpleNamespace(__version__=version, __file__=torch.__file__, version=torch.version)


class Choice(unittest.TestCase):
    """Which file is loaded; nothing is compiled here."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.loaded = []
        for name in ("torch-2.7.so", "torch-2.13.so", "torch-2.9.so", "torch-2.13.so.old", "notes"):
            (self.folder / name).touch()
        for patch in (mock.patch.object(_extension, "EXTENSIONS", str(self.folder)), mock.patch.object(ctypes, "CDLL", self.load),
                      mock.patch.object(_extension, "_compiled", lambda torch: f"compiled for {torch.__version__}")):
            patch.start()
            self.addCleanup(patch.stop)

    def load(self, path):
        self.loaded.append(os.path.basename(path))
        if os.path.basename(path) == "torch-2.9.so":
            raise OSError("undefined symbol: c10")

    def chosen(self, version):
        self.loaded.clear()
        _extension._load_for(pytorch(version))
        self.assertTrue(self.loaded.pop(0).startswith("libunisono.so"), "the library comes first")
        return self.loaded

    def test_versions_are_numbers(self):
        self.assertEqual(_extension.carried(), ["2.7", "2.9", "2.13"])

    def test_the_extension_is_compiled_where_the_package_has_none(self):
        with mock.patch.object(_extension, "EXTENSIONS", str(self.folder / "nowhere")):
            self.assertEqual(_extension.carried(), [])
            self.assertEqual(self.chosen("2.13.0"), ["compiled for 2.13.0"])

    def test_the_extension_is_chosen_by_the_minor_version(self):
        for version in ("2.13.0", "2.13.1", "2.13.0+cpu", "2.13.2+cu130"):
            self.assertEqual(self.chosen(version), ["torch-2.13.so"], version)
        self.assertEqual(self.chosen("2.7.1"), ["torch-2.7.so"])

    def test_other_versions_are_compiled(self):
        # 2.1 is not 2.13, and a version under development is not what it becomes.
        for version in ("2.1.3", "2.14.0", "3.13.0", "2.13.0a0+git1234", "2.13.0.dev20260101"):
            self.assertEqual(self.chosen(version), [f"compiled for {version}"])

    def test_an_extension_that_does_not_fit_is_compiled(self):
        self.assertEqual(self.chosen("2.9.1"), ["torch-2.9.so", "compiled for 2.9.1"])

    def test_the_error_says_what_is_missing_and_what_to_do(self):
        def fails(torch):
            raise _compile.CompileError("c++ ended with code 1\nextension.cpp:1: error: no such header")

        with mock.patch.object(_extension, "_compiled", fails), self.assertRaises(ImportError) as raised:
            self.chosen("2.9.1")
        self.assertEqual(str(raised.exception),
                         f"unisono-torch {_extension.VERSION} has no extension for PyTorch 2.9.1 (the one for 2.9 does not fit: undefined symbol: c10), only "
                         "for 2.7, 2.9, 2.13, and none could be compiled, since c++ ended with code 1: install one of these versions of PyTorch "
                         "(pip install 'torch==2.13.*'), or a newer unisono-torch, or a C++ compiler (g++ 12 or newer)\nextension.cpp:1: error: no such header")


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patch = mock.patch.dict(os.environ, XDG_CACHE_HOME=folder.name)
        patch.start()
        self.addCleanup(patch.stop)

    def together(self, compile_to, callers=4):
        """What each of some callers gets, all of which have asked before the first one compiles."""
        asked, changed = [], threading.Condition()
        lock = _cache.fcntl.flock
        results = []

        def flock(file, how):
            with changed:
                asked.append(file)
                changed.notify_all()
            lock(file, how)

        def compile_last(path):
            with changed:
                self.assertTrue(changed.wait_for(lambda: len(asked) == callers, 60))
            compile_to(path)

        def call():
            try:
                results.append(_cache.extension("torch-9", compile_last))
            except Exception as error:
                results.append(error)

        threads = [threading.Thread(target=call) for _ in range(callers)]
        with mock.patch.object(_cache.fcntl, "flock", flock):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return results

    def test_several_processes_compile_once(self):
        made = []

        def compile_to(path):
            made.append(path)
            Path(path).write_text("extension")

        expected = os.path.join(os.environ["XDG_CACHE_HOME"], "unisono", "torch-9.so")
        self.assertEqual(self.together(compile_to), [expected] * 4)
        self.assertEqual(made, [expected])
        self.assertEqual(stat.S_IMODE(os.stat(_cache.folder()).st_mode), 0o700)

    def test_a_failure_is_not_repeated_by_those_who_waited(self):
        made = []

        def compile_to(path):
            made.append(path)
            raise _compile.CompileError(f"try {len(made)} failed")

        self.assertEqual([str(each) for each in self.together(compile_to)], ["try 1 failed"] * 4)
        # Who comes later tries again: the compiler may be another one by then.
        self.assertEqual([str(each) for each in self.together(compile_to, 1)], ["try 2 failed"])

    def test_any_umask_gives_a_file_that_is_loaded(self):
        before = os.umask(0o002)  # as many distributions have it: what the compiler makes can be written by the group
        self.addCleanup(os.umask, before)

        def compile_to(path):
            Path(path).write_text("extension")
            self.assertTrue(os.stat(path).st_mode & stat.S_IWGRP)

        path = _cache.extension("torch-9", compile_to)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700)
        self.assertEqual(_cache.extension("torch-9", None), path)

    def test_a_file_that_others_can_write_is_made_anew(self):
        path = _cache.extension("torch-9", lambda path: Path(path).write_text("extension"))
        Path(path).write_text("somebody else's")
        os.chmod(path, 0o775)
        self.assertEqual(_cache.extension("torch-9", lambda path: Path(path).write_text("another one")), path)
        self.assertEqual(Path(path).read_text(), "another one")
        self.assertEqual(_cache.extension("torch-9", None), path)

    def test_nothing_is_loaded_from_a_folder_that_others_can_write(self):
        _cache.extension("torch-9", lambda path: Path(path).write_text("extension"))
        os.chmod(_cache.folder(), 0o770)
        with self.assertRaisesRegex(_cache.Untrusted, "can be written by one") as refused:
            _cache.extension("torch-9", lambda path: self.fail("it was compiled for nothing"))
        with mock.patch.object(_extension, "_compiled", mock.Mock(side_effect=refused.exception)), mock.patch.object(ctypes, "CDLL"):
            with self.assertRaises(ImportError) as raised:
                _extension._load_for(pytorch("99.0.0"))
        self.assertTrue(str(raised.exception).endswith(f": chmod 700 {_cache.folder()} if it is yours, or set XDG_CACHE_HOME to a folder of your own"))
        os.chmod(_cache.folder(), 0o700)
        self.assertIsNotNone(_cache.extension("torch-9", None))


class Jobs(jobs.JobTest):
    longest = 600  # a compiler may be among them

    def setUp(self):
        super().setUp()
        self.settings = {"EXTENSIONS": str(self.folder / "extensions"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        patch = mock.patch.dict(os.environ, self.settings)
        patch.start()
        self.addCleanup(patch.stop)

    def compiler(self, then):
        """A compiler that counts how often it is called."""
        path = self.folder / "counting"
        path.write_text(f'#!/bin/sh\necho called >>"{self.folder}/calls"\n{then}\n')
        path.chmod(0o755)
        os.environ["CXX"] = str(path)

    def calls(self):
        return len((self.folder / "calls").read_text().splitlines())

    def test_a_missing_compiler_is_named(self):
        os.environ["PATH"] = str(self.folder)
        os.environ.pop("CXX", None)
        program = WITHOUT + """
error = error_of(lambda: begin(init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"])))
assert isinstance(error, ImportError), repr(error)
print("said", error)
"""
        for output in self.ranks(program):
            self.assertIn(f"said unisono-torch {_extension.VERSION} has no extension for PyTorch {torch.__version__}, and none could be compiled, "
                          "since there is no C++ compiler: install a newer unisono-torch, or a C++ compiler (g++ 12 or newer)\n", output)
            self.assertNotIn("compiling", output)
        Path(self.settings["EXTENSIONS"]).mkdir()
        for name in ("torch-2.7.so", "torch-2.10.so"):
            (Path(self.settings["EXTENSIONS"]) / name).touch()
        for output in self.ranks(program):
            self.assertRegex(output, r"only for 2.7, 2.10, .*: install one of these versions of PyTorch \(pip install 'torch==2\.10\.\*'\), or ")

    @unittest.skipUnless(_compile.compiler(), "needs a C++ compiler")
    def test_four_ranks_compile_once(self):
        self.compiler(f'exec {" ".join(_compile.compiler())} "$@"')
        program = WITHOUT + self.BY_FILE + jobs.WORKS
        outputs = self.ranks(program, 4)
        self.fine("".join(outputs), 4)
        self.assertEqual("".join(outputs).count("compiling the backend"), 1, outputs)
        self.assertEqual(self.calls(), 1)
        made = glob.glob(f"{self.folder}/cache/unisono/*.so")
        self.assertEqual(len(made), 1)
        self.assertIn(f"/torch-{torch.__version__}-", made[0])
        # The next job finds it.
        outputs = self.ranks(program.replace('os.environ["MEETING"]', 'os.environ["MEETING"] + "2"'), 2)
        self.fine("".join(outputs), 2)
        self.assertEqual((self.calls(), "".join(outputs).count("compiling")), (1, 0))

    def test_the_error_of_a_compiler_that_fails_is_told(self):
        self.compiler('echo "extension.cpp:1: error: it is too old"; exit 3')
        path = self.program(WITHOUT + 'begin(init_method=os.environ["MEETING"], rank=0, world_size=1)\n')
        output = self.run_command([sys.executable, path], expect=1, MEETING=f"file://{self.folder}/meeting")
        self.assertRegex(output, r"ImportError: unisono-torch .*since \S+/counting ended with code 3: install .*\nextension.cpp:1: error: it is too old\n")
        self.assertEqual(glob.glob(f"{self.folder}/cache/unisono/*.so"), [])

    def test_a_store_that_is_written_in_python(self):
        # Its methods need the interpreter, which the call that forms the group must not hold.
        outputs = self.ranks("""
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        class Store(dist.Store):
            def __init__(self):
                super().__init__()
                self.file = dist.FileStore(os.environ["MEETING"].removeprefix("file://"), size)
                self.calls = 0
        def method(name):
            def call(self, *arguments):
                self.calls += 1
                return getattr(self.file, name)(*arguments)
            return call
        for name in ("set", "get", "add", "check", "wait", "compare_set", "append", "multi_get", "multi_set"):
            setattr(Store, name, method(name))
        Store.deleteKey, Store.getNumKeys, Store.hasExtendedApi = method("delete_key"), method("num_keys"), method("has_extended_api")
        Store.compareSet, Store.multiGet, Store.multiSet = Store.compare_set, Store.multi_get, Store.multi_set
        store = Store()
        dist.init_process_group("unisono", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
        assert store.calls > 0
""" + textwrap.indent(jobs.WORKS, " " * 8))
        self.fine("".join(outputs), 2)

    def test_an_extension_knows_no_python(self):
        self.assertIn(MINOR, _extension.carried())
        content = (Path(_extension.EXTENSIONS) / f"torch-{MINOR}.so").read_bytes()
        self.assertTrue(b"libtorch_cpu.so" in content)
        for name in (b"libtorch_python", b"PyGILState_Ensure", b"Py_IncRef", b"pybind11"):
            self.assertFalse(name in content, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
