"""The names of `mmengine.dist.dist`: the collectives."""

from .._collectives import _all_reduce_coalesced, _get_reduce_op, all_gather, all_reduce, all_reduce_dict, all_reduce_params, broadcast, gather
from .._objects import all_gather_object, broadcast_object_list, collect_results, collect_results_cpu, collect_results_gpu, gather_object, sync_random_seed
