"""The names of `mmengine.dist.utils`: ranks, groups, devices and joining a job."""

from ._devices import cast_data_device, get_comm_device, get_data_device
from ._launch import infer_launcher, init_dist
from ._ranks import barrier, get_backend, get_default_group, get_dist_info, get_local_group, get_local_rank, get_local_size, get_rank, get_world_size
from ._ranks import init_local_group, is_distributed, is_main_process, master_only

__all__ = sorted(name for name, value in globals().items() if callable(value))
