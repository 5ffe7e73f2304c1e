#pragma once

#include "../docstrings.h"

// The docstrings of samplers and of the plan of a data loader.

namespace unisono::python::docs {

inline constexpr const char* distributed_sampler = R"(The samples of one rank, of 0 to size - 1 or of an order drawn from seed + epoch.

All ranks get equally many, unless `exact` is set. Nothing is communicated: every rank computes
the same order, on every platform, in C++ and in Python.

Parameters
----------
dataset : int or sized
    The number of samples, or the data set itself.
num_replicas : int, optional
    The number of ranks that share. None stands for the size of the world.
rank : int, optional
    The rank that the sampler is for. None stands for this process's in the world.
shuffle : bool, default True
    Whether the order is drawn. Otherwise it is 0 to size - 1.
seed : int, default 0
    The seed, the same on all ranks.
drop_last : bool, default False
    Whether samples that cannot be shared out evenly are left out. Otherwise samples from the
    beginning are repeated.
batch_sizes : sequence of int, default ()
    The batch of every rank, where ranks have different ones.
exact : bool, default False
    Whether each sample is of exactly one rank, as an evaluation needs it. The last ranks may
    then have fewer.

Methods
-------
set_epoch(epoch)
    Begins an epoch, with the same number on all ranks.
epoch()
    Returns the number of the epoch.
total_size()
    Returns the number of samples of all ranks in an epoch.
rank()
    Returns the rank that the sampler is for.
num_replicas()
    Returns the number of ranks that share.
indices()
    Returns this epoch's samples of this rank.

Raises
------
InvalidArgument
    For a rank that is none of `num_replicas`, and for batch sizes that are not one for each
    rank, or all 0.

Examples
--------
>>> sampler = unisono.DistributedSampler(5, num_replicas=2, rank=1, shuffle=False)
>>> list(sampler), len(sampler), sampler.total_size()
([1, 3, 0], 3, 6)
>>> sampler.set_epoch(1))";

inline constexpr const char* proxy_sampler = R"(Shares out among the ranks what any other sampler yields.

All ranks get equally many, by repetition, unless `exact` is set.

Parameters
----------
sampler : collection of int
    A sampler with a length. It is iterated, and yields the same on all ranks; or it has
    draw(random), which returns the order of an epoch and takes chance from `random` alone: a
    random.Random seeded from seed + epoch.
num_replicas : int, optional
    The number of ranks that share. None stands for the size of the world.
rank : int, optional
    The rank that the sampler is for. None stands for this process's in the world.
seed : int, default 0
    The seed, the same on all ranks.
exact : bool, default False
    Whether each sample is of exactly one rank.

Methods
-------
set_epoch(epoch)
    Begins an epoch, with the same number on all ranks.
epoch()
    Returns the number of the epoch.
total_size()
    Returns the number of samples of all ranks in an epoch.
sampler()
    Returns the sampler that is shared out.
indices()
    Returns this epoch's samples of this rank.

Raises
------
InvalidArgument
    For a sampler that is distributed already, or has no length. At the iteration for something that
    is not an index, and with `exact` for a sampler that yields fewer or more than its length.

Examples
--------
>>> sampler = unisono.DistributedProxySampler([7, 5, 3], num_replicas=2, rank=0)
>>> list(sampler)
[7, 3])";

inline constexpr const char* loader_plan = R"(The loader that a rank shall make: what `plan_loader` returns.

Attributes
----------
batch_size : int or None
    The batch size of this rank; None for the loader's default.
batch_sizes : list of int
    The batch sizes of all ranks, for `DistributedSampler(batch_sizes=…)` where they differ.
total_batch_size : int
    The samples of one step of all ranks; 0 for the loader's default times the ranks.
num_workers : int
    The workers of this process.
total_workers : int
    The workers of all processes of this host.
sampler : str
    "none", "distributed" (a DistributedSampler), "proxy" (the given one within a
    DistributedProxySampler), or "given".
sampler_shuffles : bool
    Whether a distributed sampler shuffles.
loader_shuffles : bool
    Whether the loader itself shuffles, where `sampler` is "none".
drop_last : bool
    Whether the loader leaves out the last, smaller batch.
warnings : list of str
    Sentences for the user: likely mistakes.
notes : list of str
    Sentences for the user: what the plan has changed.

Examples
--------
>>> plan = unisono.plan_loader(batch_size=256, dataset_size=1000, rank=0, world_size=4)
>>> plan.batch_size, plan.sampler
(64, 'distributed'))";

inline constexpr const char* plan_loader = R"(Plans how a data loader for one process becomes that of one rank among several.

Nothing is communicated.

Parameters
----------
batch_size : int, optional
    The batch of all ranks together. None leaves the loader's default alone.
split : str, default "floor"
    "floor" divides the batch by the ranks and drops the remainder. With "even_remainder" the
    first ranks take one more. "per_rank" takes it as each rank's already.
num_workers : int, default 0
    The workers of all processes of a host together.
shuffle : bool, default False
    Whether samples are shuffled, as for a single process.
drop_last : bool, default False
    Whether the last, smaller batch is left out.
dataset_size : int, optional
    The number of samples. None stands for a data set that can only be iterated, and shares
    itself out.
sampling : str, default "none"
    The sampler that was given: "none", "distributed" (for `given_rank` of `given_replicas`),
    "other" or "batch_sampler".
given_rank : int, default 0
    The rank of a distributed sampler that was given.
given_replicas : int, default 1
    Its number of ranks.
rank, world_size : int, optional
    The process that the plan is for. They come together; without them it is this one.
nproc_per_node : int, optional
    The processes of its host, beside `rank`. None stands for 1.

Returns
-------
LoaderPlan
    Batch, workers and sampler.

Raises
------
InvalidArgument
    For a place that does not exist, a batch of 0, negative workers, `shuffle` together with a
    sampler, and an "even_remainder" of fewer samples than ranks.

Examples
--------
{two ranks}
>>> plan = unisono.plan_loader(batch_size=256, num_workers=8, dataset_size=1000)
>>> plan.batch_size, plan.num_workers
(128, 4))";

}  // namespace unisono::python::docs
