"""unisono.ignite under the name of the original."""

import importlib
import sys

ORIGINAL = "ignite.distributed"
PARTS = ("", ".auto", ".comp_models", ".comp_models.base", ".comp_models.horovod", ".comp_models.native", ".comp_models.xla", ".launcher", ".utils")


def install():
    """Puts unisono.ignite in the place of ignite.distributed, with its modules, for every import that follows, also those within pytorch-ignite.

        import unisono.ignite
        unisono.ignite.install()             # the first lines of the program
        import ignite.distributed as idist   # is unisono.ignite

    A module that has imported the original before keeps it; the original then finds the group that unisono.ignite forms. ImportError where pytorch-ignite
    is not installed.
    """
    ours = {ORIGINAL + part: importlib.import_module("unisono.ignite" + part) for part in PARTS}
    before = {name: sys.modules.get(name) for name in ours}
    sys.modules.update(ours)
    try:
        ignite = importlib.import_module("ignite")
    except ImportError:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        raise
    ignite.distributed = ours[ORIGINAL]
