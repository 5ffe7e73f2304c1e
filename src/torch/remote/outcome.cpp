#include "torch/remote/outcome.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>

#include <functional>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "torch/remote/session.h"

namespace unisono::libtorch {
namespace {

/// The cache is emptied when it has so many outcomes: a program whose shapes never come again gains nothing from it.
constexpr std::size_t most_outcomes = 16384;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
};
std::shared_mutex outcomes_mutex;
auto& outcomes = *new std::unordered_map<std::string, std::shared_ptr<const Outcome>, TextHash, std::equal_to<>>;

at::Tensor meta_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !is_remote(tensor)) return tensor;
  auto meta = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

c10::IValue meta_of(const c10::IValue& value) {
  if (value.isTensor()) return meta_of(value.toTensor());
  if (value.isDevice()) return at::Device(at::kMeta);
  if (value.isGenerator()) return {};
  if (value.isTensorList()) {
    c10::List<at::Tensor> metas;
    for (const at::Tensor& tensor : value.toTensorVector()) metas.push_back(meta_of(tensor));
    return metas;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> metas;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      metas.push_back(tensor ? std::optional(meta_of(*tensor)) : std::nullopt);
    }
    return metas;
  }
  return value;
}

void add_fresh(Outcome& outcome, const at::Tensor& meta) {
  outcome.fresh.push_back(meta.defined() ? std::optional(geometry_of(meta)) : std::nullopt);
  if (meta.defined()) outcome.fresh.back()->offset = 0;
}

Outcome outcome_of(const Operator& op, c10::ArrayRef<c10::IValue> values, const torch::jit::Stack& before, const torch::jit::Stack& results) {
  Outcome outcome;
  for (std::size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].result != Operator::Result::fresh) continue;
    if (results[i].isTensor()) {
      outcome.lengths.push_back(Outcome::one_tensor);
      add_fresh(outcome, results[i].toTensor());
    } else {
      const auto list = results[i].toTensorVector();
      outcome.lengths.push_back(static_cast<int>(list.size()));
      for (const at::Tensor& each : list) add_fresh(outcome, each);
    }
  }
  for (const std::size_t i : op.written) {
    if (!values[i].isTensor() || !values[i].toTensor().defined()) continue;
    const at::Tensor &own = values[i].toTensor(), &meta = before[i].toTensor();
    if (own.sizes() == meta.sizes() && own.strides() == meta.strides()) continue;
    outcome.resized.emplace_back(i, geometry_of(meta));
    outcome.resized.back().second.offset = own.storage_offset();
  }
  return outcome;
}

}  // namespace

std::shared_ptr<const Outcome> find_outcome(std::string_view key) {
  const std::shared_lock lock(outcomes_mutex);
  const auto found = outcomes.find(key);
  return found == outcomes.end() ? nullptr : found->second;
}

std::shared_ptr<const Outcome> keep_outcome(std::string_view key, Outcome outcome) {
  WireWriter out;
  out.number(outcome.fresh.size());
  for (const auto& geometry : outcome.fresh) {
    out.byte(geometry ? 1 : 0);
    if (geometry) out.shape(geometry->dtype, geometry->sizes, geometry->strides);
  }
  outcome.written = out.take();
  auto kept = std::make_shared<const Outcome>(std::move(outcome));
  const std::lock_guard lock(outcomes_mutex);
  if (outcomes.size() >= most_outcomes) outcomes.clear();
  outcomes.insert_or_assign(std::string(key), kept);
  return kept;
}

std::optional<Outcome> predict_outcome(const Operator& op, c10::ArrayRef<c10::IValue> values) {
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    torch::jit::Stack stack;
    for (const c10::IValue& value : values) stack.push_back(meta_of(value));
    const torch::jit::Stack before = stack;  // the operator takes its arguments off the stack; those that it writes to are still needed
    op.handle.callBoxed(&stack);
    return outcome_of(op, values, before, stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace unisono::libtorch
