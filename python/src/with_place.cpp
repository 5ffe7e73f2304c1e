// The smallest or largest value with the place where it is. An array of pairs lies in memory as C++ has it: 16 bytes each, of which the program sees
// the values and the places as two arrays.

#include "unisono/with_place.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>

#include "calls.h"
#include "docs/grid.h"
#include "failure.h"
#include "imports.h"
#include "module.h"
#include "values.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

struct Placed {
  nb::object value, place;
  nb::object pairs = nb::none();  // of an array: its memory, as complex128
  bool is_array() const { return !pairs.is_none(); }
};

bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }

void refuse_complex(DType dtype) {
  if (is_complex(dtype)) throw_invalid("WithPlace", "complex numbers have no order, by which one would be chosen");
}

std::int64_t place_of(nb::handle place) {
  if (PyBool_Check(place.ptr()) || PyIndex_Check(place.ptr()) == 0) throw_invalid("WithPlace", "a place is an int: a rank, or an index");
  const nb::object number = nb::steal(PyNumber_Index(place.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (value == -1 && overflow == 0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (overflow != 0) throw_invalid("WithPlace", "a place has 64 bits, and this one does not fit");
  return value;
}

nb::object as_array(nb::handle x, const char* what) {
  try {
    return imported("numpy").attr("asarray")(x);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    throw_invalid("WithPlace", std::string(what) + " are a number, or an array in the host's memory");
  }
}

/// Puts arrays of values and of places together.
Placed array_of(nb::handle value, nb::handle place) {
  if (numpy().ptr() == nullptr) {
    throw Unsupported("pairs of arrays are arrays of NumPy, which is not installed", {.operation = "WithPlace", .hint = "pip install numpy"});
  }
  const nb::object module = nb::borrow(imported("numpy"));
  if (is_masked_array(value) || is_masked_array(place)) {
    throw_invalid("WithPlace", "a pair of arrays has no mask, and that of a masked array would be lost", "give x.filled(value)");
  }
  const nb::object values = as_array(value, "values"), places = as_array(place, "places");
  {
    const Buffer buffer(module.attr("ascontiguousarray")(values), Use::read, "WithPlace");
    refuse_complex(buffer.view().dtype());
  }
  const bool has_places = nb::cast<std::int64_t>(places.attr("size")) != 0;  // an empty list is of no dtype of its own
  if (has_places && (!nb::cast<bool>(module.attr("can_cast")(places.attr("dtype"), "i8", "safe")) ||
                     nb::cast<std::string>(nb::str(places.attr("dtype").attr("kind"))) == "b")) {
    throw_invalid("WithPlace", "places are ints of at most 64 bits with a sign: ranks, or indices");
  }
  if (nb::cast<int>(places.attr("ndim")) != 0 && !places.attr("shape").equal(values.attr("shape"))) {
    throw_invalid("WithPlace", "there is a place for each value, or one for all, and these arrays have different shapes");
  }
  nb::dict layout;
  layout["names"] = nb::make_tuple("value", "place");
  layout["formats"] = nb::make_tuple(values.attr("dtype"), "i8");
  layout["offsets"] = nb::make_tuple(0, 8);
  layout["itemsize"] = 16;
  const nb::object memory = module.attr("zeros")(values.attr("shape"), module.attr("dtype")(layout));
  memory["value"] = values;
  memory["place"] = places;
  return {memory["value"], memory["place"], memory.attr("view")("c16")};
}

void make_placed(Placed* self, nb::handle value, nb::handle place) {
  if (!Value::is_value(value)) {
    new (self) Placed(array_of(value, place));
    return;
  }
  const Value number(value, "WithPlace");
  refuse_complex(number.dtype());
  new (self) Placed{nb::borrow(value), nb::int_(place_of(place))};
}

const Placed& placed(nb::handle x, const char* operation = "WithPlace") { return content_of<Placed>(x, operation); }

void check(Operation operation) {
  if (operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::scan) return;
  throw_invalid(name_of(operation), "values with their places are taken by all_reduce, reduce and scan");
}

/// f(pairs of their own type).
template <class F>
auto with_pairs(DType dtype, F&& f) {
  return with_type(dtype, [&]<class T>(T) -> decltype(f(static_cast<WithPlace<float>*>(nullptr))) {
    if constexpr (detail::complex_number<T>) throw_invalid("WithPlace", "complex numbers have no order");
    else return f(static_cast<WithPlace<T>*>(nullptr));
  });
}

DType dtype_of_values(const Placed& x) {
  const Buffer values(x.value, Use::read, "WithPlace");
  return values.view().dtype();
}

detail::Request request_of_array(Operation operation, DType dtype, const TensorView& memory, ReduceOp op, const Trailing& trailing) {
  return with_pairs(dtype, [&]<class Pair>(Pair*) {
    return detail::choosing(operation, static_cast<Pair*>(memory.data()), static_cast<std::size_t>(memory.numel()), op, trailing.group,
                            trailing.options);
  });
}

nb::object reduce_one(Operation operation, const Placed& x, ReduceOp op, std::optional<Rank> root, const Trailing& trailing) {
  Value number(x.value, name_of(operation));
  return with_pairs(number.dtype(), [&]<class Pair>(Pair*) -> nb::object {
    Pair pair;
    std::memcpy(&pair.value, number.view().data(), sizeof pair.value);
    pair.place = nb::cast<std::int64_t>(x.place);
    detail::Request request = detail::choosing(operation, &pair, 1, op, trailing.group, trailing.options);
    request.root = root;
    carry_out(request, trailing);
    if (root && !is_here(*root, trailing.group)) return nb::none();
    return nb::cast(Placed{number.object_from(&pair.value), nb::int_(pair.place)});
  });
}

bool are_equal(const Placed& a, nb::handle other) {
  if (!is_placed(other) || !nb::inst_ready(other)) return false;
  const Placed& b = placed(other);
  if (a.is_array() != b.is_array()) return false;
  if (!a.is_array()) return a.value.equal(b.value) && a.place.equal(b.place);
  const nb::object same = imported("numpy").attr("array_equal");
  return nb::cast<bool>(nb::bool_(same(a.value, b.value))) && nb::cast<bool>(nb::bool_(same(a.place, b.place)));
}

}  // namespace

bool is_placed(nb::handle x) { return nb::isinstance<Placed>(x); }

nb::object reduce_pairs(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing) {
  check(operation);
  const ReduceOp choice = reduce_op_of(op, name_of(operation));
  const Placed& mine = placed(x, name_of(operation));
  if (!mine.is_array()) return reduce_one(operation, mine, choice, root, trailing);
  const Buffer memory(mine.pairs, Use::write, name_of(operation));
  detail::Request request = request_of_array(operation, dtype_of_values(mine), memory.view(), choice, trailing);
  request.root = root;
  carry_out(request, trailing);
  return root && !is_here(*root, trailing.group) ? nb::none() : nb::borrow(x);
}

nb::object start_pairs(Operation operation, nb::handle x, nb::handle op, const Trailing& trailing) {
  const Placed& mine = placed(x, name_of(operation));
  if (operation != Operation::all_reduce || !mine.is_array()) {
    throw_invalid(name_of(operation), "of values with their places only all_reduce_async is asynchronous, of arrays");
  }
  Memory memory{.result = nb::borrow(x)};
  const TensorView pairs = memory.add(mine.pairs, Use::write, name_of(operation));
  return start(request_of_array(operation, dtype_of_values(mine), pairs, reduce_op_of(op, name_of(operation)), trailing), trailing,
               std::move(memory));
}

void bind_with_place(nb::module_& m) {
  nb::class_<Placed>(m, "WithPlace", docstring(docs::with_place).c_str())
      .def("__init__", &make_placed, "value"_a, "place"_a, nb::sig("def __init__(self, value: Buffer | float, place: Buffer | int) -> None"))
      .def_prop_ro(
          "value", [](const Placed& x) { return x.value; }, nb::for_getter(nb::sig("def value(self) -> typing.Any")))
      .def_prop_ro(
          "place", [](const Placed& x) { return x.place; }, nb::for_getter(nb::sig("def place(self) -> typing.Any")))
      .def(
          "__iter__", [](const Placed& x) { return nb::iter(nb::make_tuple(x.value, x.place)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"), "The value, then the place.")
      .def("__eq__", &are_equal, nb::arg("other").none(), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Placed& x) { return nb::hash(nb::make_tuple(x.value, x.place)); })
      .def("__reduce__", [](nb::handle self) { return nb::make_tuple(self.type(), nb::make_tuple(placed(self).value, placed(self).place)); })
      .def("__repr__", [](const Placed& x) {
        return "unisono.WithPlace(" + nb::cast<std::string>(nb::repr(x.value)) + ", " + nb::cast<std::string>(nb::repr(x.place)) + ")";
      });
}

}  // namespace unisono::python
