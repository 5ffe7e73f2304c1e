"""A package of another platform or of another Python says so when it is imported, and pip does not install its wheel."""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import unittest

import jobs

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]  # of this Python on this machine
MACHINE = slice(18, 20)  # where an ELF file says which machine it is for


class Platform(jobs.JobTest):
    def setUp(self):
        super().setUp()
        # The modules without the extension, and the extension apart.
        import unisono._core

        self.extension = pathlib.Path(unisono._core.__file__)
        package = pathlib.Path(unisono.__file__).parent
        self.package = self.folder / "unisono"
        self.package.mkdir()
        for module in package.glob("*.py"):
            shutil.copy(module, self.package)

    def imported(self, expect):
        return self.run_command([sys.executable, "-c", "import unisono; unisono.rank"], expect, PYTHONPATH=str(self.folder))

    def test_a_missing_extension_is_named(self):
        self.assertIn("this build has no extension", self.imported(1))

    def test_an_extension_of_another_python_is_named(self):
        shutil.copy(self.extension, self.package / "_core.cpython-39-x86_64-linux-gnu.so")
        output = self.imported(1)
        self.assertRegex(output, r"ImportError: unisono: _core\.cpython-39-x86_64-linux-gnu\.so cannot be loaded by CPython 3\.")
        self.assertIn("pip install --force-reinstall unisono", output)

    def test_an_extension_of_another_machine_is_named(self):
        contents = bytearray(self.extension.read_bytes())
        contents[MACHINE] = (8).to_bytes(2, "little")  # MIPS
        (self.package / f"_core{SUFFIX}").write_bytes(contents)
        output = self.imported(1)
        self.assertRegex(output, rf"ImportError: unisono: _core{SUFFIX} cannot be loaded by CPython .* on linux")

    def test_a_library_is_missing(self):
        # Its run path is relative where it is installed: what it needs is not beside this copy.
        broken = self.extension.read_bytes().replace(b"libunisono.so", b"libunisonx.so")
        (self.package / f"_core{SUFFIX}").write_bytes(broken)
        self.assertRegex(self.imported(1), "cannot be loaded by CPython .*libunisonx")

    @unittest.skipIf(importlib.util.find_spec("pip") is None, "pip is missing")
    def test_pip_refuses_the_wheel(self):
        wheel = self.folder / "unisono-0.1.0-cp312-abi3-macosx_11_0_arm64.whl"
        wheel.write_bytes(b"")  # its name is looked at first
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", str(wheel)], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not a supported wheel on this platform", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
