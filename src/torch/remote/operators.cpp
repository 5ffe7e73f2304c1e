#include "torch/remote/operators.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

namespace unisono::libtorch {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the argument that shares memory with the result.
std::optional<std::size_t> source_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* const alias = arguments[i].alias_info();
    if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) return i;
  }
  return std::nullopt;
}

bool holds_tensors(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  if (type.kind() == c10::TypeKind::ListType || type.kind() == c10::TypeKind::OptionalType) return holds_tensors(*type.containedType(0));
  return false;
}

Operator::Return return_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
  if (!holds_tensors(*result.type())) return {.result = Operator::Result::value};
  if (result.alias_info() == nullptr) return {};
  const auto source = source_of(schema, result);
  if (!source) return {};
  return {.result = result.alias_info()->isWrite() ? Operator::Result::aliased : Operator::Result::viewed, .argument = *source};
}

/// Numbers like the factor of an addition differ from call to call and have no part in the results' shapes; those of factories have.
bool is_amount(const c10::Argument& argument, std::string_view name) {
  if (is_one_of(name, {"aten::arange", "aten::range", "aten::linspace", "aten::logspace"})) return false;
  auto type = argument.real_type();
  if (type->kind() == c10::TypeKind::ListType && type->containedType(0)->kind() == c10::TypeKind::NumberType) type = type->containedType(0);
  const auto kind = type->kind();
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType;
}

}  // namespace

Operator::Operator(const c10::OperatorHandle& called) : handle(called) {
  static std::atomic<std::uint32_t> numbers{0};
  number = numbers.fetch_add(1, std::memory_order_relaxed);
  const auto& schema = handle.schema();
  const std::string& plain = schema.name();
  name = schema.overload_name().empty() ? plain : plain + "." + schema.overload_name();
  for (const auto& result : schema.returns()) {
    returns.push_back(return_of(schema, result));
    has_view |= returns.back().result == Result::viewed;
    has_value |= returns.back().result == Result::value;
  }
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    is_amount.push_back(libtorch::is_amount(argument, plain));
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) written.push_back(i);
  }
  using Key = c10::DispatchKey;
  has_meta = handle.hasKernelForDispatchKey(Key::Meta) || handle.hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
             handle.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional);
  takes_indices = is_one_of(plain, {"aten::index", "aten::_index_put_impl_"});
  is_predictable = !handle.hasTag(at::Tag::dynamic_output_shape) && !handle.hasTag(at::Tag::data_dependent_output);
}

const Operator& operator_of(const c10::OperatorHandle& handle) {
  static std::shared_mutex mutex;
  static auto& known = *new std::unordered_map<c10::OperatorHandle, std::unique_ptr<Operator>>;
  {
    const std::shared_lock lock(mutex);
    if (const auto found = known.find(handle); found != known.end()) return *found->second;
  }
  const std::lock_guard lock(mutex);
  auto& place = known[handle];
  if (!place) place = std::make_unique<Operator>(handle);
  return *place;
}

}  // namespace unisono::libtorch
