// The ranks of a group as the cells of a grid.

#include "unisono/grid.h"

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

namespace unisono::python {
namespace {

using namespace nb::literals;

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
  const std::vector<int> list = numbers_of(axes, "axes");
  const std::source_location where = place_of_program();
  const Unlocked unlocked;
  return grid.along(list, where);
}

std::string text_of(const Grid& grid) {
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

}  // namespace

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
      .def("__repr__", &text_of);
}

}  // namespace unisono::python
