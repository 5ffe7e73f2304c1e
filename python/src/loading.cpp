// The samples of a data set that each rank takes in an epoch, and the plan of its loader: the same as in C++.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "docs/loading.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "signals.h"
#include "unisono/loader_plan.h"
#include "unisono/sampler.h"

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

template <class Range>
nb::object iterator_over(Range&& indices) {
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

void bind_samplers(nb::module_& m) {
  nb::class_<DistributedSampler>(m, "DistributedSampler", docs::distributed_sampler)
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
          "__iter__", [](DistributedSampler& sampler) { return iterator_over(sampler); },  // begin() warns of an epoch that comes again
          nb::sig("def __iter__(self) -> collections.abc.Iterator[int]"));
  nb::class_<ProxySampler>(m, "DistributedProxySampler", docs::proxy_sampler)
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

template <class E>
using Name = std::pair<std::string_view, E>;

using Sampling = LoaderRequest::Sampling;
constexpr std::array<Name<BatchSplit>, 3> splits{
    {{"floor", BatchSplit::floor}, {"even_remainder", BatchSplit::even_remainder}, {"per_rank", BatchSplit::per_rank}}};
constexpr std::array<Name<Sampling>, 4> samplings{
    {{"none", Sampling::none}, {"distributed", Sampling::distributed}, {"other", Sampling::other}, {"batch_sampler", Sampling::batch_sampler}}};

template <class E, std::size_t N>
E value_of(const std::array<Name<E>, N>& names, const std::string& text, const char* what) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known.append(known.empty() ? "\"" : "\", \"").append(name);
  }
  throw_invalid("plan_loader", std::string(what) + " is one of " + known + "\", not \"" + text + "\"");
}

std::optional<std::size_t> count_of(std::optional<std::int64_t> number, const char* what) {
  if (!number) return std::nullopt;
  if (*number < 0) throw_invalid("plan_loader", std::string(what) + " cannot be " + std::to_string(*number));
  return static_cast<std::size_t>(*number);
}

const char* name_of(LoaderPlan::Sampler sampler) {
  switch (sampler) {
    case LoaderPlan::Sampler::none: return "none";
    case LoaderPlan::Sampler::distributed: return "distributed";
    case LoaderPlan::Sampler::proxy: return "proxy";
    case LoaderPlan::Sampler::given: break;
  }
  return "given";
}

LoaderPlan plan(std::optional<std::int64_t> batch_size, const std::string& split, int num_workers, bool shuffle, bool drop_last,
                std::optional<std::int64_t> dataset_size, const std::string& sampling, int given_rank, int given_replicas, std::optional<int> rank,
                std::optional<int> world_size, std::optional<int> nproc_per_node) {
  const LoaderRequest request{.batch_size = count_of(batch_size, "batch_size"),
                              .split = value_of(splits, split, "split"),
                              .num_workers = num_workers,
                              .shuffle = shuffle,
                              .drop_last = drop_last,
                              .dataset_size = count_of(dataset_size, "dataset_size"),
                              .sampling = value_of(samplings, sampling, "sampling"),
                              .given_rank = given_rank,
                              .given_replicas = given_replicas};
  if (rank.has_value() != world_size.has_value() || (nproc_per_node && !rank)) {
    throw_invalid("plan_loader", "the process that the plan is for has a rank and a world_size, and one of them is not given");
  }
  if (rank) {
    return plan_loader(request, {.rank = *rank, .world_size = *world_size, .nproc_per_node = nproc_per_node.value_or(1)});
  }
  const Unlocked unlocked;
  return plan_loader(request);
}

void bind_plan(nb::module_& m) {
  nb::class_<LoaderPlan>(m, "LoaderPlan", docs::loader_plan)
      .def_ro("batch_size", &LoaderPlan::batch_size, "The batch size of this rank; None for the loader's default.")
      .def_ro("batch_sizes", &LoaderPlan::batch_sizes,
              "The batch sizes of all ranks, in rank order: DistributedSampler(batch_sizes=…) where they differ.")
      .def_ro("total_batch_size", &LoaderPlan::total_batch_size, "The samples of one step of all ranks; 0 for the loader's default times the ranks.")
      .def_ro("num_workers", &LoaderPlan::num_workers, "The workers of this process.")
      .def_ro("total_workers", &LoaderPlan::total_workers, "The workers of all processes of this host.")
      .def_prop_ro(
          "sampler", [](const LoaderPlan& plan) { return name_of(plan.sampler); },
          nb::for_getter(nb::sig("def sampler(self) -> typing.Literal['none', 'distributed', 'proxy', 'given']")),
          "\"none\", \"distributed\" (a DistributedSampler), \"proxy\" (the given one within a DistributedProxySampler), or \"given\".")
      .def_ro("sampler_shuffles", &LoaderPlan::sampler_shuffles, "Whether a distributed sampler shuffles.")
      .def_ro("loader_shuffles", &LoaderPlan::loader_shuffles, "Whether the loader itself shuffles, where sampler is \"none\".")
      .def_ro("drop_last", &LoaderPlan::drop_last, "Whether the loader leaves out the last, smaller batch.")
      .def_ro("warnings", &LoaderPlan::warnings, "Sentences for the user: likely mistakes.")
      .def_ro("notes", &LoaderPlan::notes, "Sentences for the user: what the plan has changed.");
}

}  // namespace

void bind_loading(nb::module_& m) {
  bind_samplers(m);
  bind_plan(m);
  m.def("plan_loader", &plan, nb::kw_only(), "batch_size"_a = nb::none(), "split"_a = "floor", "num_workers"_a = 0, "shuffle"_a = false,
        "drop_last"_a = false, "dataset_size"_a = nb::none(), "sampling"_a = "none", "given_rank"_a = 0, "given_replicas"_a = 1,
        "rank"_a = nb::none(), "world_size"_a = nb::none(), "nproc_per_node"_a = nb::none(),
        nb::sig("def plan_loader(*, batch_size: int | None = None, split: typing.Literal['floor', 'even_remainder', 'per_rank'] = 'floor', "
                "num_workers: int = 0, shuffle: bool = False, drop_last: bool = False, dataset_size: int | None = None, "
                "sampling: typing.Literal['none', 'distributed', 'other', 'batch_sampler'] = 'none', given_rank: int = 0, given_replicas: int = 1, "
                "rank: int | None = None, world_size: int | None = None, nproc_per_node: int | None = None) -> LoaderPlan"),
        docstring(docs::plan_loader).c_str());
}

}  // namespace unisono::python
