"""The original ignite.distributed beside a group of unisono.

It knows a group by the name of its backend, and treats a program with a group of another name as one that trains alone. Each process then silently
has a model of its own. Here it is told that a group of unisono is one of gloo, which unisono stands for everywhere else.
"""

import functools
import importlib.util
import sys

MODULE = "ignite.distributed.comp_models.native"


def teach():
    """Has the original take groups of unisono for gloo's: now, or when it is imported. Called when a group is formed."""
    module = sys.modules.get(MODULE)
    if module is not None:
        _teach(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _teach(module):
    if module.__name__ != MODULE:  # unisono.ignite.install was called
        return
    model = getattr(module, "_NativeDistModel", None)
    original = getattr(model, "backend", None)
    if original is None:
        raise RuntimeError("this version of pytorch-ignite would not see the group of unisono: call unisono.ignite.install() before it is imported")
    if getattr(original, "knows_unisono", False):
        return

    @functools.wraps(original)
    def backend(self):
        from . import is_unisono

        return module.GLOO if is_unisono() else original(self)

    backend.knows_unisono = True
    model.backend = backend


class _Finder:
    """Finds the module once, as all others would, and teaches it when it has been loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _teach(module)

            spec.loader.exec_module = exec_module
        return spec
