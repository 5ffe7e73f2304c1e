// Groups of processes, and the small types that calls take.

#include "unisono/process_group.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "arguments.h"
#include "module.h"
#include "places.h"
#include "signals.h"
#include "unisono/reduce_op.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

GroupOptions group_options(const std::string& backend, nb::handle timeout, const char* operation) {
  return {.backend = backend, .timeout = timeout_of(timeout, operation), .where = place_of_program()};
}

std::optional<ProcessGroup> form_group(nb::handle ranks, const std::string& backend, nb::handle timeout) {
  const GroupOptions options = group_options(backend, timeout, "new_group");
  if (ranks.is_none()) {
    const Unlocked unlocked;
    return new_group(options);
  }
  const std::vector<int> list = ranks_of(ranks, "new_group");
  const Unlocked unlocked;
  return new_group(list, options);
}
std::optional<ProcessGroup> split(const ProcessGroup& parent, int color, int key, const std::string& backend, nb::handle timeout) {
  const GroupOptions options = group_options(backend, timeout, "split_group");
  const Unlocked unlocked;
  return split_group(parent, color, key, options);
}

std::string text_of(const ProcessGroup& group) {
  return "<unisono.ProcessGroup " + group.name() + ": rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + ", " +
         group.backend() + ">";
}

}  // namespace

void bind_types(nb::module_& m) {
  nb::enum_<ReduceOp>(m, "ReduceOp", R"(How the elements of the ranks are combined; each also by its name ("sum").

sum, product: every dtype; integers wrap; on booleans they are or, and. avg: every dtype but boolean; integers are truncated toward zero.
min, max: every dtype but the complex ones; a NaN on any rank gives a NaN. band, bor, bxor: integers and booleans.
land, lor: every dtype but the complex ones; the result is 0 or 1. Another pair is InvalidArgument.)")
      .value("sum", ReduceOp::sum)
      .value("product", ReduceOp::product)
      .value("min", ReduceOp::min)
      .value("max", ReduceOp::max)
      .value("avg", ReduceOp::avg)
      .value("band", ReduceOp::band)
      .value("bor", ReduceOp::bor)
      .value("bxor", ReduceOp::bxor)
      .value("land", ReduceOp::land)
      .value("lor", ReduceOp::lor);
  nb::class_<PremulSum>(m, "PremulSum", "The sum of what the ranks have, each multiplied by its rank's own factor before: see premul_sum.")
      .def_ro("factor", &PremulSum::factor);
  m.def("premul_sum", &premul_sum, "factor"_a,
        "The sum of what the ranks have, each multiplied by its rank's own factor before: unisono.all_reduce(x, unisono.premul_sum(0.5)).");
  m.def(
      "parse_reduce_op", [](const std::string& text) { return parse_reduce_op(text); }, "text"_a,
      "The ReduceOp of a name in any case: SUM, PROD, MEAN, AVERAGE, AND, BAND, … InvalidArgument for anything else.");
  nb::class_<GlobalRankArgument>(m, "GlobalRank", "A rank within the world, where a call would otherwise take one within its group.")
      .def(nb::init<int>(), "value"_a)
      .def_ro("value", &GlobalRankArgument::value)
      .def("__repr__", [](const GlobalRankArgument& rank) { return "unisono.GlobalRank(" + std::to_string(rank.value) + ")"; });
  nb::class_<AnySourceTag>(m, "AnySource", "Its instance any_source is the source of a receive that takes from anybody.")
      .def("__repr__", [](const AnySourceTag&) { return "unisono.any_source"; });
  m.attr("any_source") = AnySourceTag{};
}

namespace {

void bind_group(nb::module_& m) {
  nb::class_<ProcessGroup>(m, "ProcessGroup", R"(A set of processes that call together: every rank calls the group's collectives in the same order.

A cheap handle; copies share the group. world() is that of all processes, new_group, split_group and local_group make others.)")
      .def("rank", &ProcessGroup::rank, "This process's rank within the group.")
      .def("size", &ProcessGroup::size, "How many processes it has.")
      .def("name", &ProcessGroup::name, "Its name in messages: \"world\".")
      .def("backend", &ProcessGroup::backend, "Its backend: \"native\".")
      .def("global_ranks", &ProcessGroup::global_ranks, "The world's ranks of its members, in group order.")
      .def(
          "contains", [](const ProcessGroup& group, GlobalRankArgument rank) { return group.contains(GlobalRank{rank.value}); }, "rank"_a,
          "Whether a rank of the world is a member.")
      .def(
          "rank_of", [](const ProcessGroup& group, GlobalRankArgument rank) { return group.rank_of(GlobalRank{rank.value}); }, "rank"_a,
          "The group's rank of a rank of the world; None for one that is no member.")
      .def("global_rank", &ProcessGroup::global_rank, "group_rank"_a, "The world's rank of a rank of the group; InvalidArgument where there is none.")
      .def(
          "abort",
          [](ProcessGroup& group, const std::string& reason) {
            const Unlocked unlocked;
            group.abort(reason);
          },
          "reason"_a, "Gives up: pending and later calls of every rank raise PeerFailed with this reason.")
      .def(
          "__eq__",
          [](const ProcessGroup& a, nb::handle b) {
            return nb::isinstance<ProcessGroup>(b) && nb::inst_ready(b) && a == *nb::inst_ptr<ProcessGroup>(b);
          },
          nb::arg("other").none(), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const ProcessGroup& group) { return reinterpret_cast<std::size_t>(group.implementation().get()) >> 4; })
      .def("__len__", &ProcessGroup::size)
      .def("__repr__", &text_of);
}

}  // namespace

void bind_groups(nb::module_& m) {
  bind_group(m);
  m.def(
      "world",
      [] {
        const Unlocked unlocked;
        return world();
      },
      "The group of all processes of the job; inside run_threads, of all its threads.");
  m.def("new_group", &form_group, "global_ranks"_a = nb::none(), nb::kw_only(), "backend"_a = "", "timeout"_a = nb::none(),
        nb::sig("def new_group(global_ranks: collections.abc.Iterable[int] | None = None, *, backend: str = '', timeout: Seconds = None) "
                "-> ProcessGroup | None"),
        R"(A group of some of the world's processes, its ranks in the order given; None for everybody else. Without ranks: of all of them.

Only the members need to call, each with the same list; it waits for them. backend: "" is the world's.

    evens = unisono.new_group(range(0, unisono.world_size(), 2))
    if evens is not None: unisono.all_reduce(x, group=evens))");
  m.def("split_group", &split, nb::keep_alive<0, 1>(), "parent"_a, "color"_a, "key"_a = 0, nb::kw_only(), "backend"_a = "", "timeout"_a = nb::none(),
        nb::sig("def split_group(parent: ProcessGroup, color: int, key: int = 0, *, backend: str = '', timeout: Seconds = None) "
                "-> ProcessGroup | None"),
        R"(Members of one color form a group, ordered by key, then by their rank in the parent. All of the parent call; color < 0: of none, None.

    row = unisono.split_group(unisono.world(), unisono.rank() // 4))");
  m.def(
      "local_group",
      [] {
        const std::source_location where = place_of_program();
        const Unlocked unlocked;
        return local_group(where);
      },
      "The processes of this host. All of them call the first time.");
  m.def(
      "shrink_group",
      [](const ProcessGroup& group) {
        const std::source_location where = place_of_program();
        const Unlocked unlocked;
        return shrink_group(group, where);
      },
      nb::keep_alive<0, 1>(), "group"_a,
      R"(After a failure: a new group of those members that are left and call this, in the old order.

Who does not call within the group's timeout (30 s at the most) is left out; None for one that the others have given up.

    try: unisono.all_reduce(x, group=group)
    except unisono.PeerFailed: group = unisono.shrink_group(group))");
}

}  // namespace unisono::python
