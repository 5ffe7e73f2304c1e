#include "arguments.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "buffer.h"
#include "failure.h"
#include "imports.h"
#include "places.h"

namespace unisono::python {
namespace {

/// A function of Python in the place of a ReduceOp. It is given copies: what it keeps of them is its own affair.
struct PythonReduction {
  detail::CustomReduction reduction;
  std::string name;
};

void combine(const nb::object& function, DType dtype, void* accumulator, const void* elements, std::size_t n) {
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(n)};
  const std::size_t bytes = n * size_of(dtype);
  nb::object a = empty_array(dtype, shape), b = empty_array(dtype, shape);
  std::memcpy(Buffer(a, Use::write, "").view().data(), accumulator, bytes);
  std::memcpy(Buffer(b, Use::write, "").view().data(), elements, bytes);
  const nb::object combined = imported("numpy").attr("ascontiguousarray")(function(a, b), a.attr("dtype"));
  const Buffer result(combined, Use::read, "");
  if (result.view().numel() != static_cast<std::int64_t>(n)) {
    throw InvalidArgument("the function that combines two arrays of " + std::to_string(n) + " elements returned " +
                          std::to_string(result.view().numel()));
  }
  std::memcpy(accumulator, result.view().data(), bytes);
}

std::shared_ptr<const detail::CustomReduction> custom_of(nb::handle function, DType dtype, const char* operation) {
  if (numpy().ptr() == nullptr) {
    throw Unsupported("a function combines arrays of NumPy, which is not installed", {.operation = operation, .hint = "pip install numpy"});
  }
  auto own = std::make_shared<PythonReduction>();
  own->name = nb::cast<std::string>(imported("unisono._errors").attr("name_of_function")(function));
  const auto [key, has_more] = nb::cast<std::pair<std::string, bool>>(imported("unisono._errors").attr("key_of_function")(function));
  own->reduction.apply = [kept = Kept(nb::borrow(function)), dtype](void* accumulator, const void* elements, std::size_t n) {
    const nb::gil_scoped_acquire locked;
    try {
      combine(kept.object(), dtype, accumulator, elements, n);
    } catch (nb::python_error& error) {
      throw Raised(error);
    }
  };
  if (!key.empty()) own->reduction.code = detail::number_of_bytes(key.data(), key.size());
  if (has_more) own->reduction.captured = std::nullopt;
  own->reduction.description = own->name;
  return {own, &own->reduction};
}

/// Functions that everybody has and that do not work on arrays.
std::optional<ReduceOp> builtin_op(nb::handle op) {
  static nb::handle max, min, sum;
  const auto builtin = [](nb::handle& known, const char* name) {
    return made_once(known, [&] { return nb::object(imported("builtins").attr(name)); });
  };
  if (op.is(builtin(max, "max"))) return ReduceOp::max;
  if (op.is(builtin(min, "min"))) return ReduceOp::min;
  if (op.is(builtin(sum, "sum"))) return ReduceOp::sum;
  return std::nullopt;
}

/// A ReduceOp or its name; nullopt for anything else.
std::optional<ReduceOp> named_op(nb::handle op) {
  static nb::handle sum;
  if (op.is(made_once(sum, sum_op))) [[likely]]
    return ReduceOp::sum;
  ReduceOp value{};
  if (nb::try_cast<ReduceOp>(op, value, false)) return value;
  if (PyUnicode_Check(op.ptr())) return parse_reduce_op(nb::cast<std::string>(op));
  return builtin_op(op);
}

}  // namespace

const ProcessGroup& group_of(nb::handle group, const char* operation) {
  if (group.is_none()) [[likely]]
    return current_world(std::source_location());
  if (nb::isinstance<ProcessGroup>(group)) return content_of<ProcessGroup>(group, operation);
  throw_invalid(operation, "a " + kind_name(group) + " stands where the group is meant",
                PyLong_Check(group.ptr()) ? "a tag is given by its name: tag=7" : "new_group, split_group and local_group make groups");
}

std::optional<std::chrono::milliseconds> timeout_of(nb::handle timeout, const char* operation) {
  if (timeout.is_none()) [[likely]]
    return std::nullopt;
  nb::object seconds = nb::borrow(timeout);
  if (nb::hasattr(timeout, "total_seconds")) seconds = timeout.attr("total_seconds")();
  const double value = PyFloat_AsDouble(seconds.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw_invalid(operation, "the timeout is a number of seconds or a timedelta, not a " + kind_name(timeout));
  }
  if (std::isnan(value) || value < 0) throw_invalid(operation, "the timeout cannot be " + nb::cast<std::string>(nb::str(timeout)) + " seconds");
  constexpr double longest = 1e11;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::min(value, longest) * 1000)));
}

std::chrono::milliseconds timeout_or(nb::handle timeout, std::chrono::milliseconds otherwise, const char* operation) {
  return timeout_of(timeout, operation).value_or(otherwise);
}

CallOptions options_of(nb::handle timeout, int tag, const char* operation, bool deterministic) {
  return CallOptions{timeout_of(timeout, operation), tag, place_of_program(), deterministic};
}

Rank rank_of(nb::handle rank, const char* operation) {
  if (nb::isinstance<GlobalRankArgument>(rank)) return GlobalRank{content_of<GlobalRankArgument>(rank, operation).value};
  if (PyBool_Check(rank.ptr()) || PyIndex_Check(rank.ptr()) == 0) {
    throw_invalid(operation, "a " + kind_name(rank) + " stands where a rank is meant", "a rank is an int within the group, or a GlobalRank");
  }
  const Py_ssize_t value = PyNumber_AsSsize_t(rank.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

std::optional<Rank> source_of(nb::handle rank, const char* operation) {
  if (nb::isinstance<AnySourceTag>(rank)) return std::nullopt;
  return rank_of(rank, operation);
}

Counts counts_of(nb::handle counts, const char* operation) {
  std::vector<std::size_t> numbers;
  try {
    for (const nb::handle each : counts) {
      const Py_ssize_t number = PyNumber_AsSsize_t(each.ptr(), PyExc_OverflowError);
      if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      numbers.push_back(static_cast<std::size_t>(number));
    }
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    throw_invalid(operation, "counts are ints, one for each rank of the group");
  }
  return Counts(numbers);
}

std::vector<int> ranks_of(nb::handle ranks, const char* operation) {
  std::vector<int> numbers;
  for (const nb::handle each : ranks) {
    const Rank rank = rank_of(each, operation);
    numbers.push_back(rank.value());
  }
  return numbers;
}

nb::object sum_op() { return nb::steal(PyUnicode_InternFromString("sum")); }

ReduceOp reduce_op_of(nb::handle op, const char* operation) {
  if (const auto named = named_op(op)) return *named;
  throw_invalid(operation, "a " + kind_name(op) + " stands where the operation is meant", "a ReduceOp or its name, as \"sum\"");
}

Combination combination_of(nb::handle op, DType dtype, const char* operation) {
  if (const auto named = named_op(op)) [[likely]]
    return {.op = *named};
  if (nb::isinstance<PremulSum>(op)) return {.factor = content_of<PremulSum>(op, operation).factor};
  if (PyCallable_Check(op.ptr()) != 0) return {.custom = custom_of(op, dtype, operation)};
  throw_invalid(operation, "a " + kind_name(op) + " stands where the operation is meant",
                nb::isinstance<ProcessGroup>(op) ? "the operation comes before the group, which may be given by its name: group="
                : is_buffer(op)                  ? "the output is given by its name: out="
                                                 : "a ReduceOp, its name (\"sum\"), premul_sum(factor), or a function of two arrays");
}

}  // namespace unisono::python
