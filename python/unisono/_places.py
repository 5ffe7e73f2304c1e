"""Which code is not the program's: errors, records and traces name the line of the program that has called."""

import os
import sys

from ._core import _leave_out

_INSTALLED = ("site-packages", "dist-packages")

_leave_out(os.path.dirname(os.path.abspath(__file__)) + os.sep, is_ours=True)
for _folder in {os.path.dirname(os.__file__), os.path.dirname(sys.executable), *(path for path in sys.path if os.path.basename(path) in _INSTALLED)}:
    if _folder:
        _leave_out(_folder + os.sep, is_ours=False)
