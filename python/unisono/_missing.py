"""Why the extension unisono._core is not loaded."""

import os
import platform
import sysconfig

_here = os.path.dirname(os.path.abspath(__file__))


def explain(error):
    """Raises ImportError where this package has an extension, which this Python cannot load. Returns where it has none."""
    extensions = sorted(name for name in os.listdir(_here) if name.startswith("_core.") and name.endswith(".so"))
    if not extensions and isinstance(error, ModuleNotFoundError) and error.name == "unisono._core":
        return
    python = f"{platform.python_implementation()} {platform.python_version()} on {sysconfig.get_platform()}"
    raise ImportError(
        f"unisono: {', '.join(extensions) or 'the extension'} cannot be loaded by {python}: {error}. Install the package for this Python and this "
        "machine: python -m pip install --force-reinstall unisono",
        name="unisono",
    ) from error
