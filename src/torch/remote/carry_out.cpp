#include <ATen/core/stack.h>
#include <fmt/format.h>

#include "torch/remote/answers.h"
#include "torch/remote/arguments.h"
#include "torch/remote/operators.h"
#include "torch/remote/outcome.h"
#include "torch/remote/session.h"
#include "torch/remote/transfer.h"
#include "unisono/error.h"

// A call of an operator on remote tensors. Its arguments become bytes, whose first part is the key of what earlier calls have shown: the shapes of
// the results. So most calls cost a lookup, the making of the results' tensors, and a message that nobody waits for. A new key is asked of PyTorch's
// meta kernel or, if there is none or it fails, of the worker.

namespace unisono::libtorch {
namespace {

/// Puts the results in the place of the arguments.
void put_results(const Operator& op, torch::jit::Stack& stack, std::vector<c10::IValue> results) {
  const std::size_t count = op.is_amount.size();
  for (std::size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].result == Operator::Result::aliased) results[i] = stack[stack.size() - count + op.returns[i].argument];
  }
  torch::jit::drop(stack, count);
  for (auto& result : results) stack.push_back(std::move(result));
}

void resize(const at::Tensor& tensor, const Geometry& geometry) {
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides);
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  Geometry whole = geometry;
  whole.offset = tensor.storage_offset();
  if (const std::size_t bytes = bytes_of(whole); bytes > storage->nbytes()) storage->set_nbytes(bytes);
}

void write_command(WireWriter& out, const Operator& op, const Arguments& arguments, bool is_answered) {
  arguments.channel().require(arguments.generation());
  out.code(Command::carry_out);
  out.byte(is_answered ? 1 : 0);
  const bool is_known = arguments.channel().knows_operator(op.number);
  out.number(std::uint64_t{op.number} << 1 | (is_known ? 0 : 1));
  if (is_known) return;
  out.text(op.handle.schema().name());
  out.text(op.handle.schema().overload_name());
}

void write_arguments(WireWriter& out, const Operator& op, const Arguments& arguments) {
  out.number(op.is_amount.size());
  out.number(arguments.key_bytes().bytes().size());
  out.append(arguments.key_bytes().bytes());
  out.append(arguments.rest_bytes().bytes());
}

/// Sends the call, whose outcome is known, and returns what comes of it.
std::vector<c10::IValue> pipeline(const Operator& op, const Arguments& arguments, const Outcome& outcome) {
  const auto& session = arguments.session();
  std::vector<at::Tensor> fresh(outcome.fresh.size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (outcome.fresh[i]) fresh[i] = make_tensor(session, arguments.worker(), *outcome.fresh[i]);
  }
  arguments.channel().send(
      [&](WireWriter& out) {
        write_command(out, op, arguments, false);
        out.append(outcome.written);
        for (const at::Tensor& tensor : fresh) {
          if (tensor.defined()) out.number(handle_of(tensor).storage);
        }
        write_arguments(out, op, arguments);
      },
      false);
  arguments.channel().note_operator(op.number);
  std::vector<c10::IValue> results(op.returns.size());
  std::size_t next = 0, list = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (op.returns[i].result != Operator::Result::fresh) continue;
    const int length = outcome.lengths[list++];
    if (length == Outcome::one_tensor) {
      results[i] = std::move(fresh[next++]);
      continue;
    }
    c10::List<at::Tensor> tensors;
    for (int j = 0; j < length; ++j) tensors.push_back(std::move(fresh[next++]));
    results[i] = std::move(tensors);
  }
  return results;
}

/// Sends the call and waits for the worker to tell what has come of it, which later calls with the same key need not do.
std::vector<c10::IValue> wait_for_results(const Operator& op, const Arguments& arguments, c10::ArrayRef<c10::IValue> values, bool is_predictable) {
  const auto answer = arguments.channel().ask([&](WireWriter& out) {
    write_command(out, op, arguments, true);
    write_arguments(out, op, arguments);
  });
  arguments.channel().note_operator(op.number);
  auto [results, outcome] = read_results(op, answer, arguments.session(), arguments.worker(), values);
  for (const auto& [i, geometry] : outcome.resized) resize(values[i].toTensor(), geometry);
  if (is_predictable && !op.has_value) keep_outcome(arguments.key(), std::move(outcome));
  return std::move(results);
}

/// Tells whether an argument selects elements by truth values, whose number only the worker knows.
bool has_mask(c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue& value : values) {
    if (!value.isOptionalTensorList()) continue;
    for (const std::optional<at::Tensor> index : value.toOptionalTensorList()) {
      if (index && index->defined() && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte)) return true;
    }
  }
  return false;
}

void move_cpu_tensors(torch::jit::Stack& stack, std::size_t count) {
  const auto values = torch::jit::last(stack, count);
  const auto device = values[0].toTensor().device();
  if (device.type() != at::kPrivateUse1) return;
  const auto moved = [&](const at::Tensor& tensor) { return tensor.defined() && tensor.is_cpu() ? moved_to(tensor, device) : tensor; };
  for (std::size_t i = 0; i < count; ++i) {
    c10::IValue& value = torch::jit::peek(stack, i, count);
    if (!value.isOptionalTensorList()) continue;
    c10::List<std::optional<at::Tensor>> indices;
    for (const std::optional<at::Tensor> index : value.toOptionalTensorList()) {
      indices.push_back(index ? std::optional(moved(*index)) : std::nullopt);
    }
    value = std::move(indices);
  }
}

}  // namespace

void carry_out(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const Operator& op = operator_of(handle);
  if (op.has_view) throw Unsupported(fmt::format("operator {} returns a view, and has no kernel for remote tensors", op.name));
  const std::size_t count = op.is_amount.size();
  if (op.takes_indices) move_cpu_tensors(*stack, count);
  const auto values = torch::jit::last(*stack, count);
  const bool is_predictable = op.is_predictable && !(op.takes_indices && has_mask(values));
  Arguments arguments(op, values);
  std::shared_ptr<const Outcome> outcome;
  if (is_predictable && !op.has_value) {
    outcome = find_outcome(arguments.key());
    if (!outcome && op.has_meta) {
      if (auto predicted = predict_outcome(op, values)) outcome = keep_outcome(arguments.key(), std::move(*predicted));
    }
  }
  if (!outcome) return put_results(op, *stack, wait_for_results(op, arguments, values, is_predictable));
  if (!outcome->resized.empty()) {
    for (const auto& [i, geometry] : outcome->resized) resize(values[i].toTensor(), geometry);
    return put_results(op, *stack, pipeline(op, Arguments(op, values), *outcome));
  }
  put_results(op, *stack, pipeline(op, arguments, *outcome));
}

}  // namespace unisono::libtorch
