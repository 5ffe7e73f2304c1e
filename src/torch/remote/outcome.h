#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "torch/remote/operators.h"
#include "torch/remote/wire.h"

namespace unisono::libtorch {

/// The shapes that come of a call of an operator.
struct Outcome {
  static constexpr int one_tensor = -1;
  std::vector<std::optional<Geometry>> fresh;             // the new tensors of all results; none: an undefined one
  std::vector<int> lengths;                               // of each result that is fresh: of a list, or one_tensor
  std::vector<std::pair<std::size_t, Geometry>> resized;  // the arguments that are written to and get another shape
  std::vector<std::byte> written = {};                    // `fresh` as it stands in a command, without the storages' numbers
};

/// Returns the outcome of an earlier call with this key; null if there was none.
std::shared_ptr<const Outcome> find_outcome(std::string_view key);
/// Keeps an outcome for later calls, and returns it.
std::shared_ptr<const Outcome> keep_outcome(std::string_view key, Outcome outcome);
/// Returns the outcome by PyTorch's meta kernel; null if that fails: the worker then knows the outcome, or what is wrong.
std::optional<Outcome> predict_outcome(const Operator& op, c10::ArrayRef<c10::IValue> values);

}  // namespace unisono::libtorch
