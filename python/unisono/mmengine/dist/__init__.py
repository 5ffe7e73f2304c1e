"""`from unisono.mmengine import dist`, as `from mmengine import dist`: the same names as `unisono.mmengine`, and the modules dist and utils."""

from .. import *
from .. import ReduceOp, __all__
from . import dist, utils
