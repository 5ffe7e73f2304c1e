// Which samples of a data set each rank takes in an epoch: the same as in C++.

#include "unisono/sampler.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "failure.h"
#include "imports.h"
#include "module.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

std::size_t length_of(nb::handle data) {
  if (PyLong_Check(data.ptr())) {
    const auto n = nb::cast<std::int64_t>(data);
    if (n < 0) throw_invalid("DistributedSampler", "a data set has no " + std::to_string(n) + " samples");
    return static_cast<std::size_t>(n);
  }
  return nb::len(data);
}

void make_sampler(DistributedSampler* place, nb::handle data, std::optional<int> num_replicas, std::optional<int> rank, bool shuffle,
                  std::uint64_t seed, bool drop_last, std::vector<std::size_t> batch_sizes, bool exact) {
  new (place) DistributedSampler(length_of(data), {.num_replicas = num_replicas,
                                                   .rank = rank,
                                                   .shuffle = shuffle,
                                                   .seed = seed,
                                                   .drop_last = drop_last,
                                                   .exact = exact,
                                                   .batch_sizes = std::move(batch_sizes)});
}

nb::object iterator_over(const std::vector<std::size_t>& indices) {
  nb::list list;
  for (const std::size_t index : indices) list.append(index);
  return nb::iter(list);
}

/// Any sampler of Python: it is iterated, or has draw(random), which returns the order of an epoch.
struct PythonSampler {
  nb::object sampler;
  std::size_t size() const { return nb::len(sampler); }
  std::vector<std::size_t> draw(SamplerEngine& engine) const {
    nb::object order = sampler;
    if (nb::hasattr(sampler, "draw")) order = sampler.attr("draw")(imported("random").attr("Random")(engine()));
    std::vector<std::size_t> indices;
    for (const nb::handle each : order) {
      std::size_t index = 0;
      if (!nb::try_cast<std::size_t>(each, index)) {
        throw_invalid("DistributedProxySampler", "a sampler yields indices, and this is " + nb::cast<std::string>(nb::repr(each)));
      }
      indices.push_back(index);
    }
    return indices;
  }
};
using ProxySampler = DistributedProxySampler<PythonSampler>;

void make_proxy(ProxySampler* place, nb::object sampler, std::optional<int> num_replicas, std::optional<int> rank, std::uint64_t seed, bool exact) {
  if (nb::isinstance<DistributedSampler>(sampler) || nb::isinstance<ProxySampler>(sampler)) {
    throw_invalid("DistributedProxySampler", "this sampler is distributed already");
  }
  if (!nb::hasattr(sampler, "__len__")) throw_invalid("DistributedProxySampler", "a sampler has a length: __len__");
  new (place) ProxySampler(PythonSampler{std::move(sampler)}, {.num_replicas = num_replicas, .rank = rank, .seed = seed, .exact = exact});
}

}  // namespace

void bind_samplers(nb::module_& m) {
  nb::class_<DistributedSampler>(m, "DistributedSampler",
                                 R"(The samples of one rank: of 0 … size - 1 or, shuffled, in an order drawn from seed + epoch.

dataset: its length, or the data set itself. All ranks get equally many: samples are repeated from the beginning, or with drop_last left out. With
exact=True each sample is of exactly one rank, as an evaluation needs it, and the last ranks may have fewer.
num_replicas, rank: the world's where not given. batch_sizes: of every rank, where they are not alike.
No communication: every rank computes the same order, on every platform, in C++ and in Python.

    sampler = unisono.DistributedSampler(len(images), seed=7)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for i in sampler: train(images[i]))")
      .def("__init__", &make_sampler, "dataset"_a, nb::kw_only(), "num_replicas"_a = nb::none(), "rank"_a = nb::none(), "shuffle"_a = true,
           "seed"_a = 0, "drop_last"_a = false, "batch_sizes"_a = std::vector<std::size_t>(), "exact"_a = false,
           nb::sig("def __init__(self, dataset: int | collections.abc.Sized, *, num_replicas: int | None = None, rank: int | None = None, "
                   "shuffle: bool = True, seed: int = 0, drop_last: bool = False, batch_sizes: collections.abc.Sequence[int] = (), exact: bool = "
                   "False) -> None"))
      .def("set_epoch", &DistributedSampler::set_epoch, "epoch"_a, "To be called before every epoch, on all ranks with the same number.")
      .def("epoch", &DistributedSampler::epoch)
      .def("__len__", &DistributedSampler::size, "Samples of this rank in an epoch.")
      .def("total_size", &DistributedSampler::total_size, "Samples of all ranks in an epoch.")
      .def("rank", &DistributedSampler::rank)
      .def("num_replicas", &DistributedSampler::num_replicas)
      .def("indices", &DistributedSampler::indices, "This epoch's samples of this rank, as a list.")
      .def(
          "__iter__",
          [](DistributedSampler& sampler) {
            nb::list list;
            for (const std::size_t index : sampler) list.append(index);
            return nb::iter(list);
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[int]"));
  nb::class_<ProxySampler>(m, "DistributedProxySampler", R"(Shares out what any other sampler yields, which has a length.

It is iterated, and must yield the same on all ranks; or it has draw(random), which returns the order of an epoch and takes chance from `random`
alone: a random.Random seeded from seed + epoch. All ranks get equally many, by repetition; with exact=True each sample is of exactly one
rank. InvalidArgument for what is no index, and with exact=True for a sampler that yields fewer or more than its length.

    sampler = unisono.DistributedProxySampler(weighted_sampler, seed=7))")
      .def("__init__", &make_proxy, "sampler"_a, nb::kw_only(), "num_replicas"_a = nb::none(), "rank"_a = nb::none(), "seed"_a = 0, "exact"_a = false,
           nb::sig("def __init__(self, sampler: collections.abc.Collection[int], *, num_replicas: int | None = None, rank: int | None = None, "
                   "seed: int = 0, exact: bool = False) -> None"))
      .def("set_epoch", &ProxySampler::set_epoch, "epoch"_a, "To be called before every epoch, on all ranks with the same number.")
      .def("epoch", &ProxySampler::epoch)
      .def("__len__", &ProxySampler::size)
      .def("total_size", &ProxySampler::total_size)
      .def(
          "sampler", [](ProxySampler& proxy) { return proxy.sampler().sampler; }, nb::sig("def sampler(self) -> typing.Any"),
          "The sampler that is shared out.")
      .def("indices", &ProxySampler::indices, "This epoch's samples of this rank, as a list.")
      .def(
          "__iter__", [](ProxySampler& sampler) { return iterator_over(sampler.indices()); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[int]"));
}

}  // namespace unisono::python
