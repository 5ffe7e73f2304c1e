"""The names of `mmengine.dist.utils`."""

from ..utils import *
