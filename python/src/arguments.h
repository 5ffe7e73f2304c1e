#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/request.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"

// The arguments that calls have in common, from Python.

namespace unisono::python {

namespace nb = nanobind;

/// None: the world. The reference lasts as long as the object, or the world.
const ProcessGroup& group_of(nb::handle group, const char* operation);
/// Seconds (a number), a timedelta, or None for the group's own.
std::optional<std::chrono::milliseconds> timeout_of(nb::handle timeout, const char* operation);
std::chrono::milliseconds timeout_or(nb::handle timeout, std::chrono::milliseconds otherwise, const char* operation);
/// With the place of the program's line that calls.
CallOptions options_of(nb::handle timeout, int tag, const char* operation, bool deterministic = false);
/// An int, or a GlobalRank.
Rank rank_of(nb::handle rank, const char* operation);
/// The same, or any_source.
std::optional<Rank> source_of(nb::handle rank, const char* operation);
Counts counts_of(nb::handle counts, const char* operation);
std::vector<int> ranks_of(nb::handle ranks, const char* operation);

struct AnySourceTag {};
/// A rank within the world where a call would otherwise take one within its group.
struct GlobalRankArgument {
  int value;
};

/// How elements are combined.
struct Combination {
  ReduceOp op = ReduceOp::sum;
  std::shared_ptr<const detail::CustomReduction> custom = {};
  std::optional<double> factor = {};

  void apply(detail::Request& request) && {
    request.op = op;
    request.custom = std::move(custom);
    request.factor = factor;
  }
};
/// A ReduceOp, its name, premul_sum(factor), or a function of two arrays.
Combination combination_of(nb::handle op, DType dtype, const char* operation);
/// "sum", as a program that says it has it: the one object of this text.
nb::object sum_op();
/// Only a ReduceOp or its name.
ReduceOp reduce_op_of(nb::handle op, const char* operation);

struct Trailing {
  Trailing(nb::handle which_group, nb::handle timeout, int tag, const char* operation, bool deterministic = false)
      : group(group_of(which_group, operation)), options(options_of(timeout, tag, operation, deterministic)) {}
  const ProcessGroup& group;
  CallOptions options;
};

}  // namespace unisono::python
