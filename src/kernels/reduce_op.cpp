#include "unisono/reduce_op.h"

#include <algorithm>
#include <string>

#include "kernels/reduce_ops.h"
#include "unisono/error.h"

namespace unisono {
namespace {

// tolower would make the result depend on the locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string names() {
  std::string text;
  for (const kernels::ReduceOpInfo& info : kernels::reduce_ops) {
    if (&info != kernels::reduce_ops) text += &info == std::end(kernels::reduce_ops) - 1 ? " and " : ", ";
    text += info.name;
  }
  return text;
}

}  // namespace

ReduceOp parse_reduce_op(std::string_view text) {
  const auto is_text = [text](std::string_view name) {
    return !name.empty() && std::equal(text.begin(), text.end(), name.begin(), name.end(), [](char a, char b) { return lower(a) == b; });
  };
  for (const kernels::ReduceOpInfo& info : kernels::reduce_ops) {
    if (is_text(info.name) || is_text(info.alias) || is_text(info.other)) return info.op;
  }
  throw InvalidArgument("no reduction is called \"" + std::string(text) + "\"; there are " + names());
}

std::string_view to_string(ReduceOp op) noexcept {
  const auto* const info = kernels::info_of(op);
  return info != nullptr ? info->name : "unknown";
}

}  // namespace unisono
