// Groups of processes, the grids that their ranks form, and the small types that calls take.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <string>
#include <vector>

#include "arguments.h"
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
          "abort", [](ProcessGroup& group, const std::string& reason) { unlocked([&] { group.abort(reason); }); }, "reason"_a,
          "Gives up: pending and later calls of every rank raise PeerFailed with this reason.")
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

constexpr const char* grid_text = R"(A grid whose cells are the ranks of a group, row by row: rank 1 is the neighbour of rank 0 on the last axis.

extents: the number of cells of each axis; a 0 is chosen, so that the chosen extents are as near to each other as can be, the larger ones first. Their
    product is the size of the group.
periodic: for each axis, whether its first cell follows its last; no axis where it is not given.
group: the group whose ranks are the cells; the world where it is not given.

Only `along` sends anything. InvalidArgument for extents that do not fit the group, and for an axis or a rank that the grid does not have.

    grid = unisono.Grid((0, 0), periodic=(True, True))        # two axes, as near to a square as can be
    east, west = grid.neighbour(1), grid.neighbour(1, -1)
    unisono.send_recv(border, east, theirs, west, grid.group()))";

void bind_grid(nb::module_& m) {
  nb::class_<Grid>(m, "Grid", grid_text)
      .def("__init__", &make_grid, nb::keep_alive<1, 4>(), "extents"_a, nb::kw_only(), "periodic"_a = nb::none(), "group"_a = nb::none(),
           nb::sig("def __init__(self, extents: collections.abc.Iterable[int], *, periodic: collections.abc.Iterable[bool] | None = None, "
                   "group: ProcessGroup | None = None) -> None"))
      .def_static(
          "choose_extents",
          [](int ranks, nb::handle extents) { return Grid::choose_extents(ranks, numbers_of(extents, "extents"), place_of_program()); }, "ranks"_a,
          "extents"_a, nb::sig("def choose_extents(ranks: int, extents: collections.abc.Iterable[int]) -> list[int]"),
          "The extents of a grid of so many ranks: choose_extents(12, (0, 3, 0)) is [2, 3, 2].")
      .def("group", &Grid::group, nb::keep_alive<0, 1>(), "The group whose ranks are the cells.")
      .def("extents", &Grid::extents, "The number of cells of each axis.")
      .def("is_periodic", &Grid::is_periodic, "axis"_a, "Whether the first cell of the axis follows its last.")
      .def("coordinates", &Grid::coordinates, "The cell of this rank: a number for each axis.")
      .def(
          "coordinates_of", [](const Grid& grid, nb::handle rank) { return grid.coordinates_of(rank_of(rank, "Grid")); }, "rank"_a,
          nb::sig("def coordinates_of(self, rank: RankLike) -> list[int]"), "The cell of a rank of the group.")
      .def(
          "rank_at", [](const Grid& grid, nb::handle coordinates) { return grid.rank_at(numbers_of(coordinates, "coordinates")); }, "coordinates"_a,
          nb::sig("def rank_at(self, coordinates: collections.abc.Iterable[int]) -> int | None"),
          "The rank of a cell. Coordinates wrap on a periodic axis; None beyond the border of another one.")
      .def("neighbour", &Grid::neighbour, "axis"_a, "distance"_a = 1,
           "The rank that is `distance` cells further on the axis, or back where it is negative; None beyond the border.")
      .def("along", &part_of, nb::keep_alive<0, 1>(), "axes"_a, nb::sig("def along(self, axes: collections.abc.Iterable[int]) -> Grid"),
           R"(The part of the grid that this rank reaches along these axes. All ranks of the group call it, with the same axes.

    row = grid.along((1,))
    unisono.all_reduce(x, group=row.group()))")
      .def("__repr__", &text_of_grid);
}

}  // namespace

void bind_groups(nb::module_& m) {
  bind_group(m);
  bind_grid(m);
  m.def(
      "world", [] { return unlocked([] { return world(); }); }, "The group of all processes of the job; inside run_threads, of all its threads.");
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
      "local_group", [] { return unlocked([where = place_of_program()] { return local_group(where); }); },
      "The processes of this host. All of them call the first time.");
  m.def(
      "shrink_group", [](const ProcessGroup& group) { return unlocked([&, where = place_of_program()] { return shrink_group(group, where); }); },
      nb::keep_alive<0, 1>(), "group"_a,
      R"(After a failure: a new group of those members that are left and call this, in the old order.

Who does not call within the group's timeout (30 s at the most) is left out; None for one that the others have given up.

    try: unisono.all_reduce(x, group=group)
    except unisono.PeerFailed: group = unisono.shrink_group(group))");
}

}  // namespace unisono::python
