#include "schedule/abilities.h"

namespace unisono::schedule {
namespace {

/// Stands for a user's callable where only its presence counts.
const std::shared_ptr<const detail::CustomReduction>& any_callable() {
  static const auto& callable = *new std::shared_ptr<const detail::CustomReduction>(std::make_shared<detail::CustomReduction>());
  return callable;
}

}  // namespace

CollectiveCall call_without_memory(const Problem& problem) {
  CollectiveCall call;
  call.operation = problem.operation;
  call.in = TensorView(nullptr, problem.dtype, problem.in.count);
  call.out = TensorView(nullptr, problem.dtype, problem.out.count);
  call.count = problem.count;
  call.op = problem.op;
  call.deterministic = problem.is_deterministic;
  call.root = problem.root;
  call.counts = problem.counts;
  call.recv_counts = problem.recv_counts;
  return call;
}

bool Abilities::offers(const Problem& problem) const {
  if (engine_ == nullptr) return !has_channels_ && problem.operation == Operation::all_to_all_v;
  CollectiveCall call = call_without_memory(problem);
  if (problem.is_custom) call.custom = any_callable();
  return offers(call, problem.size);
}

bool Abilities::offers(const CollectiveCall& call, int size) const {
  if (engine_ == nullptr) return false;
  if (call.deterministic && !is_exact(call.in.dtype(), call.op, call.custom != nullptr)) return false;  // the engine has an order of its own
  if (reduces(call.operation) && engine_->device_type() == Device::Type::cpu && !call.custom) {
    const DType dtype = call.in.dtype();
    if (size == 1) return false;  // land and lor turn true into 1 even there, and other engines only copy
    if (is_half(dtype) && (size > 2 || call.op == ReduceOp::avg)) return false;
    if (is_integer(dtype) && call.op == ReduceOp::avg) return false;
  }
  return engine_->offers(call);
}

}  // namespace unisono::schedule
