#include "group/calls/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>
#include <set>
#include <string>

#include "unisono/error.h"

namespace unisono::group {
namespace {

/// Keeps a text for as long as the process lives, since a call outlives its maker. There are as many texts as a program has shapes.
std::string_view kept(std::string text) {
  static std::mutex mutex;
  static auto& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return *texts.insert(std::move(text)).first;
}

/// Returns the view whose shape is compared: of a call with parts and a whole, the part.
const TensorView& compared(const CollectiveCall& call) {
  return call.operation == Operation::scatter || call.operation == Operation::reduce_scatter ? call.out : call.in;
}

}  // namespace

bool wants_shapes(const base::Environment& environment) {
  const auto text = environment.get("UNISONO_COMPARE");
  if (!text) return false;
  if (*text != "shapes") throw InvalidArgument(fmt::format("UNISONO_COMPARE is \"{}\"; it may be \"shapes\", or unset", *text));
  return true;
}

void add_shape(CollectiveCall& call) {
  if (call.operation == Operation::barrier || has_counts(call.operation)) return;
  const std::string shape = fmt::format("[{}]", fmt::join(compared(call).shape(), ", "));
  if (call.label.empty()) call.label = to_string(call.operation);
  call.also = kept(call.also.empty() ? shape : fmt::format("{} {}", call.also, shape));
}

}  // namespace unisono::group
