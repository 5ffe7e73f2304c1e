"""Names that other libraries have for what is here: one table.

A name that means exactly one thing of ours, called as it is there, is accepted as that. Every other one is an AttributeError that says what to write.
They are in neither __all__ nor dir(): docs/coming-from/habits.md shows some of them.
"""

import operator

#: name -> ours. torch.distributed, ignite and mmengine; then Horovod; then mpi4py.
ALIASES = {
    "get_rank": "rank", "get_world_size": "world_size", "get_local_rank": "local_rank", "get_nproc_per_node": "nproc_per_node", "get_nnodes": "nnodes",
    "get_node_rank": "node_rank", "get_local_size": "nproc_per_node", "get_dist_info": "dist_info", "get_backend": "backend",
    "get_comm_device": "device", "is_distributed": "is_initialized", "init_process_group": "initialize", "destroy_process_group": "finalize",
    "get_default_group": "world", "get_local_group": "local_group", "one_rank_first": "OneRankFirst", "master_only": "one_rank_only",
    "TCPStore": "TcpStore", "HashStore": "MemoryStore", "reduce_op": "ReduceOp",
    "init": "initialize", "shutdown": "finalize", "size": "world_size", "local_size": "nproc_per_node", "cross_rank": "node_rank", "cross_size": "nnodes",
    "allgather_object": "all_gather_object", "Average": "ReduceOp.avg", "Sum": "ReduceOp.sum", "Min": "ReduceOp.min", "Max": "ReduceOp.max",
    "Product": "ReduceOp.product",
    "Get_rank": "rank", "Get_size": "world_size", "Get_processor_name": "hostname", "Init": "initialize", "Finalize": "finalize",
    "Is_initialized": "is_initialized", "COMM_WORLD": "world()", "ANY_SOURCE": "any_source", "ANY_TAG": "any_tag", "Barrier": "barrier",
    "Ibarrier": "barrier_async", "Bcast": "broadcast", "Ibcast": "broadcast_async", "bcast": "broadcast_object", "Allgather": "all_gather",
    "Iallgather": "all_gather_async", "Gather": "gather", "Igather": "gather_async", "Scatter": "scatter", "Iscatter": "scatter_async",
    "Alltoall": "all_to_all", "Ialltoall": "all_to_all_async", "Reduce_scatter_block": "reduce_scatter", "Send": "send", "Recv": "recv",
    "Isend": "isend", "Irecv": "irecv", "Probe": "probe", "Waitall": "wait_all", "Waitany": "wait_any",
    "SUM": "ReduceOp.sum", "PROD": "ReduceOp.product", "MIN": "ReduceOp.min", "MAX": "ReduceOp.max", "LAND": "ReduceOp.land", "LOR": "ReduceOp.lor",
    "BAND": "ReduceOp.band", "BOR": "ReduceOp.bor", "BXOR": "ReduceOp.bxor",
}

#: name -> what to write, where no name of ours means exactly that.
ADVICE = {
    # torch.distributed, ignite and mmengine
    "is_available": "it always is; use unisono.available_backends()",
    "is_nccl_available": 'use unisono.is_backend_available("nccl")', "is_gloo_available": 'use unisono.is_backend_available("gloo")',
    "is_mpi_available": 'use unisono.is_backend_available("mpi")', "is_ucc_available": "use unisono.available_backends()",
    "get_node_local_rank": "use unisono.local_rank(), or before initialize unisono.launcher_local_rank()",
    "all_gather_into_tensor": "the input comes first; use unisono.all_gather(x, out)", "gather_into_tensor": "use unisono.gather(x, out)",
    "reduce_scatter_tensor": "the input comes first; use unisono.reduce_scatter(x, out)",
    "all_to_all_single": "the input comes first; use unisono.all_to_all(x, out), or with counts unisono.all_to_all_v(x, send_counts)",
    "all_reduce_coalesced": "use unisono.all_reduce_params(tensors)", "all_gather_coalesced": "use unisono.all_gather(x) for each",
    "batch_isend_irecv": "use unisono.batch([unisono.P2POp.send(x, dst), unisono.P2POp.recv(y, src)])",
    "scatter_object_list": "the part is returned; use unisono.scatter_object(list, src)", "send_object_list": "use unisono.send_object(list, dst)",
    "recv_object_list": "the list is returned; use unisono.recv_object(src)",
    "new_subgroups": "use unisono.split_group(unisono.world(), color)", "new_subgroups_by_enumeration": "use unisono.split_group(unisono.world(), color)",
    "group": "the group of all ranks is unisono.world(); unisono.new_group(ranks) makes others",
    "get_group_rank": "use group.rank_of(unisono.GlobalRank(rank))", "get_global_rank": "use group.global_rank(rank) of a unisono.ProcessGroup",
    "get_process_group_ranks": "use group.global_ranks() of a unisono.ProcessGroup", "Backend": 'backends are texts, as in unisono.initialize("native")',
    "init_device_mesh": "use unisono.Grid(extents)", "DeviceMesh": "use unisono.Grid(extents)",
    "DistributedDataParallel": 'PyTorch\'s own works on the backend "unisono": import unisono.torch', "init_dist": "use unisono.initialize()",
    "init_local_group": "there is nothing to set up; use unisono.local_group()", "collect_results_cpu": "use unisono.collect_results(part, size)",
    "collect_results_gpu": "use unisono.collect_results(part, size)", "auto_model": "it is in unisono.ignite: import unisono.ignite as idist",
    "auto_optim": "it is in unisono.ignite: import unisono.ignite as idist", "auto_dataloader": "it is in unisono.ignite: import unisono.ignite as idist",
    "start_processes": "use unisono.spawn(function, nproc_per_node=4)", "elastic_launch": "use unisono.run_elastic, under `unisono run -n MIN:MAX`",
    # Horovod
    "hvd": "use import unisono.horovod.torch as hvd", "run": "use unisono.spawn(function, nproc_per_node=4)",
    "allreduce": "MPI's is a sum and Horovod's an average; use unisono.all_reduce(x) or unisono.all_reduce(x, \"avg\")",
    "allreduce_": "use unisono.all_reduce(x, \"avg\"), which works in place", "grouped_allreduce": "use unisono.all_reduce_params(tensors)",
    "allgather": "use unisono.all_gather(x), for arrays of different length unisono.all_gather_v(x), for objects unisono.all_gather_object(x)",
    "broadcast_": "use unisono.broadcast(x, src), which works in place",
    "alltoall": "use unisono.all_to_all(x), or with counts unisono.all_to_all_v(x, send_counts)",
    "reducescatter": "Horovod's is an average; use unisono.reduce_scatter(x) or unisono.reduce_scatter(x, op=\"avg\")",
    "broadcast_parameters": "use unisono.broadcast(x, src) for each, or import unisono.horovod.torch as hvd",
    "broadcast_optimizer_state": "it is in unisono.horovod.torch: import unisono.horovod.torch as hvd",
    "DistributedOptimizer": "it is in unisono.horovod.torch: import unisono.horovod.torch as hvd", "Adasum": "there is none; use unisono.ReduceOp.avg",
    # mpi4py
    "MPI": "its names are functions here, as unisono.rank(), unisono.send(x, dst) and unisono.all_reduce(x)",
    "COMM_SELF": "use unisono.new_group([unisono.rank()])", "Comm": "use unisono.ProcessGroup", "Status": "recv returns the sender; see unisono.MessageInfo",
    "Request": "use unisono.Work", "IN_PLACE": "a buffer is worked on in place unless another one is given: unisono.all_reduce(x)",
    "MAXLOC": 'use unisono.all_reduce(unisono.WithPlace(x, place), "max")', "MINLOC": 'use unisono.all_reduce(unisono.WithPlace(x, place), "min")',
    "LXOR": "there is none; use unisono.ReduceOp.bxor of booleans",
    "Allreduce": "the second argument is the operation here; use unisono.all_reduce(x, out=y)",
    "Iallreduce": "the second argument is the operation here; use unisono.all_reduce_async(x, out=y)",
    "Reduce": "use unisono.reduce(x, dst, op), which works in place", "Ireduce": "use unisono.reduce_async(x, dst, op), which works in place",
    "Scan": "use unisono.scan(x, op), which works in place", "Exscan": "use unisono.exscan(x, op), which works in place",
    "Reduce_scatter": "use unisono.reduce_scatter_v(x, counts, out, op)", "Sendrecv": "use unisono.send_recv(x, dst, y, src)",
    "sendrecv": "use unisono.send_object(x, dst) and unisono.recv_object(src)", "Allgatherv": "use unisono.all_gather_v(x)",
    "Gatherv": "use unisono.gather_v(x, dst=0)", "Scatterv": "use unisono.scatter_v(x, counts, out, src)",
    "Alltoallv": "use unisono.all_to_all_v(x, send_counts)", "Iprobe": "use unisono.try_probe(src), which returns a MessageInfo or None",
    "Abort": "use unisono.world().abort(reason)", "Split": "use unisono.split_group(group, color, key)", "Dup": "use unisono.new_group()",
    "Create_cart": "use unisono.Grid(extents, periodic=periodic, group=group)", "Compute_dims": "use unisono.Grid.choose_extents(ranks, extents)",
    "Wtime": "use time.perf_counter(); unisono.record() has the times of calls", "Pool": "use unisono.Controller(workers=4)",
    "psum": "use unisono.all_reduce(x), and within jax.jit unisono.jax.all_reduce(x): import unisono.jax",
    "pmean": 'use unisono.all_reduce(x, "avg"), and within jax.jit unisono.jax.all_reduce(x, "avg"): import unisono.jax',
}
_MODULES = ("horovod", "ignite", "jax", "mmengine", "torch", "torch2018", "virtex")
ADVICE |= {module: f"it is imported by itself: import unisono.{module}" for module in _MODULES}

#: ReduceOp's enumerators, and their names elsewhere.
REDUCE_OPS = {
    "SUM": "sum", "PRODUCT": "product", "PROD": "product", "MIN": "min", "MAX": "max", "AVG": "avg", "AVERAGE": "avg", "MEAN": "avg", "BAND": "band",
    "BOR": "bor", "BXOR": "bxor", "LAND": "land", "LOR": "lor",
}

#: A group's methods, and their names elsewhere.
GROUP_ALIASES = {"Get_rank": "rank", "Get_size": "size", "Get_name": "name", "get_rank": "rank", "get_size": "size"}
GROUP_ADVICE = {
    "Split": "use unisono.split_group(group, color, key)", "Dup": "use unisono.new_group(group.global_ranks())", "Abort": "use group.abort(reason)",
    "Free": "a group ends with its last handle: del group, or unisono.finalize()", "Create_cart": "use unisono.Grid(extents, group=group)",
}

#: keyword -> the keywords of ours that may be meant, of which the function has one.
KEYWORDS = {
    "tensor": ("x", "value"), "input": ("x",), "sendbuf": ("x",), "sendobj": ("x",), "obj": ("x",), "object": ("x",), "buf": ("x",), "data": ("x",), "send_data": ("x",),
    "output": ("out",), "recvbuf": ("out", "x"), "tensor_list": ("out", "tensors"), "gather_list": ("out",), "output_tensor": ("out",),
    "input_tensor": ("x",), "scatter_list": ("x",), "object_list": ("list",), "comm": ("group",), "process_group": ("group",), "process_set": ("group",),
    "pg": ("group",), "root": ("src", "dst"), "root_rank": ("src", "dst"), "dest": ("dst",), "group_dst": ("dst",), "source": ("src",),
    "group_src": ("src",), "reduce_op": ("op",), "average": ("op",), "ranks": ("global_ranks",), "rank_list": ("global_ranks",), "sendtag": ("tag",),
    "recvtag": ("tag",), "is_master": ("is_server",), "host_name": ("host",), "splits": ("send_counts",), "received_splits": ("recv_counts",),
    "input_split_sizes": ("send_counts",), "output_split_sizes": ("recv_counts",), "recvcounts": ("counts",), "p2p_op_list": ("operations",),
    "file_name": ("path",), "dims": ("extents",), "periods": ("periodic",),
}


def _error(name, text):
    # With a name and no object: the interpreter adds no guess of its own.
    return AttributeError(text, name=name)


def found(name):
    """The value of `unisono.name`, or an error, if that is not a name of this package."""
    import unisono

    if name in ALIASES:
        ours = ALIASES[name]
        value = operator.attrgetter(ours.removesuffix("()"))(unisono)
        return value() if ours.endswith("()") else value
    if name in ADVICE:
        raise _error(name, f"unisono.{name}: {ADVICE[name]}")
    raise _error(name, f"module 'unisono' has no attribute '{name}'{_near(name, unisono.__all__)}")


def _near(name, names):
    if name.startswith("_"):
        return ""
    import difflib

    near = difflib.get_close_matches(name, names, 1)
    return f". Did you mean: '{near[0]}'?" if near else ""


def _of_group(group, name):
    """An attribute of a ProcessGroup that is none of its own."""
    import unisono

    if name in GROUP_ALIASES:
        return getattr(group, GROUP_ALIASES[name])
    if name in GROUP_ADVICE:
        raise _error(name, f"ProcessGroup.{name}: {GROUP_ADVICE[name]}")
    ours = ALIASES.get(name, name)
    if ours in unisono.__all__:
        raise _error(name, f"ProcessGroup.{name}: calls are functions, and the group is an argument: unisono.{ours}(…, group=group)")
    if name in ADVICE:
        raise _error(name, f"ProcessGroup.{name}: {ADVICE[name]}; the group is an argument: group=group")
    raise _error(name, f"'ProcessGroup' object has no attribute '{name}'{_near(name, [each for each in dir(type(group)) if not each.startswith('_')])}")


class _OwnSignature:
    """The __signature__ of a class for `inspect`: of that class alone, and not of those that derive from it."""

    def __init__(self, owner, takes_anything):
        self._owner, self._takes_anything = owner, takes_anything

    def __get__(self, instance, owner):
        if owner is not self._owner or instance is not None:
            raise AttributeError("__signature__")
        import inspect

        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)] if self._takes_anything else [])


def install(names):
    """Adds what the extension's classes and the exceptions lack, among these names of the package."""
    for name, ours in REDUCE_OPS.items():
        setattr(names["ReduceOp"], name, getattr(names["ReduceOp"], ours))
    names["ProcessGroup"].__getattr__ = _of_group
    for value in names.values():
        if isinstance(value, type) and issubclass(value, BaseException):
            value.__signature__ = _OwnSignature(value, takes_anything=True)
        elif type(value).__name__ == "nb_type" and type(vars(value)["__init__"]).__name__ not in ("nb_method", "function"):  # it has no constructor
            value.__signature__ = _OwnSignature(value, takes_anything=False)
