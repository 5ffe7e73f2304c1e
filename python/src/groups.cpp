// Groups of processes, the grids that their ranks form, and the small types that calls take.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <vector>

#include "arguments.h"
#include "docs/grid.h"
#include "docs/groups.h"
#include "docs/probes.h"
#include "failure.h"
#include "module.h"
#include "places.h"
#include "signals.h"
#include "unisono/grid.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

GroupOptions group_options(const std::string& backend, nb::handle timeout, const char* operation) {
  return {.backend = backend, .timeout = timeout_of(timeout, operation), .where = place_of_program()};
}

std::optional<ProcessGroup> form_group(nb::handle ranks, const std::string& backend, nb::handle timeout) {
  const GroupOptions options = group_options(backend, timeout, "new_group");
  if (ranks.is_none()) return unlocked([&] { return new_group(options); });
  const std::vector<int> list = ranks_of(ranks, "new_group");
  return unlocked([&] { return new_group(list, options); });
}
std::optional<ProcessGroup> split(const ProcessGroup& parent, int color, int key, const std::string& backend, nb::handle timeout) {
  return unlocked([&, options = group_options(backend, timeout, "split_group")] { return split_group(parent, color, key, options); });
}

std::string text_of(const ProcessGroup& group) {
  return "<unisono.ProcessGroup " + group.name() + ": rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + ", " +
         group.backend() + ">";
}

}  // namespace

void bind_types(nb::module_& m) {
  nb::enum_<ReduceOp>(m, "ReduceOp", docstring(docs::reduce_op).c_str())
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
  nb::class_<PremulSum>(m, "PremulSum", docs::premul_sum_class).def_ro("factor", &PremulSum::factor);
  m.def("premul_sum", &premul_sum, "factor"_a, docstring(docs::premul_sum).c_str());
  m.def(
      "parse_reduce_op", [](const std::string& text) { return parse_reduce_op(text); }, "text"_a, docs::parse_reduce_op);
  nb::class_<GlobalRankArgument>(m, "GlobalRank", docstring(docs::global_rank).c_str())
      .def(nb::init<int>(), "value"_a)
      .def_ro("value", &GlobalRankArgument::value)
      .def("__repr__", [](const GlobalRankArgument& rank) { return "unisono.GlobalRank(" + std::to_string(rank.value) + ")"; });
  nb::class_<AnySourceTag>(m, "AnySource", docstring(docs::any_source).c_str()).def("__repr__", [](const AnySourceTag&) {
    return "unisono.any_source";
  });
  m.attr("any_source") = AnySourceTag{};
}

namespace {

void bind_group(nb::module_& m) {
  nb::class_<ProcessGroup>(m, "ProcessGroup", docstring(docs::process_group).c_str())
      .def("rank", &ProcessGroup::rank, "This process's rank within the group.")
      .def("size", &ProcessGroup::size, "How many processes it has.")
      .def("name", &ProcessGroup::name, "Its name in messages: \"world\".")
      .def("backend", &ProcessGroup::backend, "Its backend: \"native\".")
      .def("global_ranks", &ProcessGroup::global_ranks, "The world's ranks of its members, in group order.")
      .def(
          "contains", [](const ProcessGroup& group, GlobalRankArgument rank) { return group.contains(GlobalRank{rank.value}); }, "rank"_a,
          docs::contains)
      .def(
          "rank_of", [](const ProcessGroup& group, GlobalRankArgument rank) { return group.rank_of(GlobalRank{rank.value}); }, "rank"_a,
          docs::rank_of)
      .def("global_rank", &ProcessGroup::global_rank, "group_rank"_a, docs::global_rank_of)
      .def(
          "abort", [](ProcessGroup& group, const std::string& reason) { unlocked([&] { group.abort(reason); }); }, "reason"_a, docs::abort)
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

/// Ints, one for each axis. Anything else is InvalidArgument.
std::vector<int> numbers_of(nb::handle list, const char* what) {
  const std::string wrong = std::string(what) + " are ints, as (2, 0)";
  if (!nb::hasattr(list, "__iter__")) throw_invalid("Grid", wrong);
  std::vector<int> numbers;
  for (const nb::handle each : list) {
    if (PyBool_Check(each.ptr()) || PyIndex_Check(each.ptr()) == 0) throw_invalid("Grid", wrong);
    const Py_ssize_t number = PyNumber_AsSsize_t(each.ptr(), nullptr);
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (number > std::numeric_limits<int>::max() || number < std::numeric_limits<int>::min()) {
      throw_invalid("Grid", std::string(what) + " have 32 bits, and one of them is " + std::to_string(number));
    }
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

void make_grid(Grid* place, nb::handle extents, nb::handle periodic, nb::handle group) {
  GridOptions options{.group = group_of(group, "Grid"), .where = place_of_program()};
  if (!periodic.is_none()) {
    if (!nb::hasattr(periodic, "__iter__")) throw_invalid("Grid", "periodic says of each axis whether it is, as (True, False)");
    for (const nb::handle each : periodic) options.periodic.push_back(nb::cast<bool>(nb::bool_(each)));
  }
  new (place) Grid(numbers_of(extents, "extents"), options);
}

Grid part_of(const Grid& grid, nb::handle axes) {
  return unlocked([&, list = numbers_of(axes, "axes"), where = place_of_program()] { return grid.along(list, where); });
}

std::string text_of_grid(const Grid& grid) {
  std::string text;
  for (const int extent : grid.extents()) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return "<unisono.Grid " + text + " of " + grid.group().name() + ">";
}

void bind_grid(nb::module_& m) {
  nb::class_<Grid>(m, "Grid", docstring(docs::grid).c_str())
      .def("__init__", &make_grid, nb::keep_alive<1, 4>(), "extents"_a, nb::kw_only(), "periodic"_a = nb::none(), "group"_a = nb::none(),
           nb::sig("def __init__(self, extents: collections.abc.Iterable[int], *, periodic: collections.abc.Iterable[bool] | None = None, "
                   "group: ProcessGroup | None = None) -> None"))
      .def_static(
          "choose_extents",
          [](int ranks, nb::handle extents) { return Grid::choose_extents(ranks, numbers_of(extents, "extents"), place_of_program()); }, "ranks"_a,
          "extents"_a, nb::sig("def choose_extents(ranks: int, extents: collections.abc.Iterable[int]) -> list[int]"), docs::choose_extents)
      .def("group", &Grid::group, nb::keep_alive<0, 1>(), "The group whose ranks are the cells.")
      .def("extents", &Grid::extents, "The number of cells of each axis.")
      .def("is_periodic", &Grid::is_periodic, "axis"_a, "Whether the first cell of the axis follows its last.")
      .def("coordinates", &Grid::coordinates, "The cell of this rank: a number for each axis.")
      .def(
          "coordinates_of", [](const Grid& grid, nb::handle rank) { return grid.coordinates_of(rank_of(rank, "Grid")); }, "rank"_a,
          nb::sig("def coordinates_of(self, rank: RankLike) -> list[int]"), "The cell of a rank of the group.")
      .def(
          "rank_at", [](const Grid& grid, nb::handle coordinates) { return grid.rank_at(numbers_of(coordinates, "coordinates")); }, "coordinates"_a,
          nb::sig("def rank_at(self, coordinates: collections.abc.Iterable[int]) -> int | None"), docs::rank_at)
      .def("neighbour", &Grid::neighbour, "axis"_a, "distance"_a = 1, docs::neighbour)
      .def("along", &part_of, nb::keep_alive<0, 1>(), "axes"_a, nb::sig("def along(self, axes: collections.abc.Iterable[int]) -> Grid"),
           docstring(docs::along).c_str())
      .def("__repr__", &text_of_grid);
}

}  // namespace

void bind_groups(nb::module_& m) {
  bind_group(m);
  bind_grid(m);
  m.def(
      "world", [] { return unlocked([] { return world(); }); }, docstring(docs::world).c_str());
  m.def("new_group", &form_group, "global_ranks"_a = nb::none(), nb::kw_only(), "backend"_a = "", "timeout"_a = nb::none(),
        nb::sig("def new_group(global_ranks: collections.abc.Iterable[int] | None = None, *, backend: str = '', timeout: Seconds = None) "
                "-> ProcessGroup | None"),
        docstring(docs::new_group).c_str());
  m.def("split_group", &split, nb::keep_alive<0, 1>(), "parent"_a, "color"_a, "key"_a = 0, nb::kw_only(), "backend"_a = "", "timeout"_a = nb::none(),
        nb::sig("def split_group(parent: ProcessGroup, color: int, key: int = 0, *, backend: str = '', timeout: Seconds = None) "
                "-> ProcessGroup | None"),
        docstring(docs::split_group).c_str());
  m.def(
      "local_group", [] { return unlocked([where = place_of_program()] { return local_group(where); }); }, docstring(docs::local_group).c_str());
  m.def(
      "shrink_group", [](const ProcessGroup& group) { return unlocked([&, where = place_of_program()] { return shrink_group(group, where); }); },
      nb::keep_alive<0, 1>(), "group"_a, docstring(docs::shrink_group).c_str());
}

}  // namespace unisono::python
