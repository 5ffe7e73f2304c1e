// The plan that turns a data loader for one process into that of one rank among several.

#include "unisono/loader_plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "failure.h"
#include "module.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

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
  nb::class_<LoaderPlan>(m, "LoaderPlan", "The loader that a rank shall make: see plan_loader.")
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

void bind_loader_plan(nb::module_& m) {
  bind_plan(m);
  m.def("plan_loader", &plan, nb::kw_only(), "batch_size"_a = nb::none(), "split"_a = "floor", "num_workers"_a = 0, "shuffle"_a = false,
        "drop_last"_a = false, "dataset_size"_a = nb::none(), "sampling"_a = "none", "given_rank"_a = 0, "given_replicas"_a = 1,
        "rank"_a = nb::none(), "world_size"_a = nb::none(), "nproc_per_node"_a = nb::none(),
        nb::sig("def plan_loader(*, batch_size: int | None = None, split: typing.Literal['floor', 'even_remainder', 'per_rank'] = 'floor', "
                "num_workers: int = 0, shuffle: bool = False, drop_last: bool = False, dataset_size: int | None = None, "
                "sampling: typing.Literal['none', 'distributed', 'other', 'batch_sampler'] = 'none', given_rank: int = 0, given_replicas: int = 1, "
                "rank: int | None = None, world_size: int | None = None, nproc_per_node: int | None = None) -> LoaderPlan"),
        R"(How a data loader for one process becomes that of one rank among several: its batch, its workers, its sampler. Nothing is communicated.

batch_size: of all ranks together; None leaves the loader's default alone. split: "floor" divides it by the ranks and drops the remainder, with
    "even_remainder" the first ranks take one more, "per_rank" takes it as each rank's already.
num_workers: of all processes of a host together. shuffle, drop_last: as for a single process.
dataset_size: the number of samples; None for a data set that can only be iterated, and shares itself out.
sampling: what sampler was given: "none", "distributed" (for given_rank of given_replicas), "other", or "batch_sampler".
rank, world_size, nproc_per_node: the process that the plan is for; this one where none of them is given. rank and world_size come
    together; nproc_per_node is 1 beside them where it is not given.

Raises InvalidArgument for a place that does not exist, a batch of 0, negative workers, shuffle together with a sampler, and an "even_remainder" of
fewer samples than ranks.

    plan = unisono.plan_loader(batch_size=256, num_workers=8, dataset_size=len(images))
    loader = make_loader(plan.batch_size, plan.num_workers))");
}

}  // namespace unisono::python
