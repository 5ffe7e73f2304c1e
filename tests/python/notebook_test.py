"""The notebook of examples/notebooks is executed, and gives the outputs that it shows."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(os.environ.get("PYTHON_TOOLS_FOLDER", "nowhere"))
NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebooks" / "first.ipynb"

# By the Python of the tools; the kernel is that of the build, which has unisono, with what a kernel takes.
EXECUTE = """
import json, sys
import nbclient, nbformat
from jupyter_client import kernelspec, manager

python, path = sys.argv[1:]

class Kernel(manager.AsyncKernelManager):
    @property
    def kernel_spec(self):
        return kernelspec.KernelSpec(argv=[python, "-m", "ipykernel_launcher", "-f", "{connection_file}"], display_name="here", language="python")

notebook = nbformat.read(path, as_version=4)
nbclient.NotebookClient(notebook, timeout=120, kernel_manager_class=Kernel).execute()
print(json.dumps([cell.outputs for cell in notebook.cells if cell.cell_type == "code"]))
"""


def shown(outputs):
    """Returns the texts that a reader sees of a cell's outputs."""
    texts = [each.get("text", each.get("data", {}).get("text/plain", "")) for each in outputs if each.get("name") != "stderr"]
    return "".join("".join(each) for each in texts)


@unittest.skipUnless((TOOLS / "complete").exists(), "nbclient and ipykernel are not here: scripts/get/python-tools brings them")
class Notebook(unittest.TestCase):
    def test_each_cell_gives_what_it_shows(self):
        site = subprocess.run([TOOLS / "bin" / "python3", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            environment = {"PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], site.strip()]), "JUPYTER_RUNTIME_DIR": folder, "IPYTHONDIR": folder,
                           "HOME": folder}
            done = subprocess.run([TOOLS / "bin" / "python3", "-c", EXECUTE, sys.executable, NOTEBOOK], capture_output=True, text=True, timeout=280,
                                  env=os.environ | environment, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
        executed = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual([shown(each) for each in executed], [shown(cell["outputs"]) for cell in cells])
        self.assertTrue(all(cell["outputs"] for cell in cells))


if __name__ == "__main__":
    unittest.main()
