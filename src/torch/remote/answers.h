#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <utility>
#include <vector>

#include "torch/remote/operators.h"
#include "torch/remote/outcome.h"
#include "torch/remote/session.h"
#include "torch/remote/wire.h"
#include "unisono/detail/remote_call.h"

namespace unisono::libtorch {

/// Writes a value that holds no tensor, with its tag.
void write_value(WireWriter& out, const c10::IValue& value);
/// Reads what write_value wrote, and no other value.
c10::IValue read_value(WireReader& in);

/// Reads a worker's answer to an operator: its results, and their shapes.
std::pair<std::vector<c10::IValue>, Outcome> read_results(const Operator& op, const detail::Frame& answer, const std::shared_ptr<Session>& session,
                                                          int worker, c10::ArrayRef<c10::IValue> values);

}  // namespace unisono::libtorch
