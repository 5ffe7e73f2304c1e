#include "unisono/reduce_op.h"

#include <algorithm>
#include <string>

#include "unisono/error.h"

namespace unisono {
namespace {

struct Name {
  std::string_view text;
  ReduceOp op;
};

// The first name of an operation is the one that to_string returns.
constexpr Name names[] = {
    {"sum", ReduceOp::sum},     {"product", ReduceOp::product}, {"min", ReduceOp::min},      {"max", ReduceOp::max},
    {"avg", ReduceOp::avg},     {"band", ReduceOp::band},       {"bor", ReduceOp::bor},      {"bxor", ReduceOp::bxor},
    {"land", ReduceOp::land},   {"lor", ReduceOp::lor},         {"prod", ReduceOp::product}, {"mean", ReduceOp::avg},
    {"average", ReduceOp::avg}, {"and", ReduceOp::band},        {"or", ReduceOp::bor},       {"xor", ReduceOp::bxor},
};

// tolower would make the result depend on the locale.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

ReduceOp parse_reduce_op(std::string_view text) {
  for (const Name& name : names) {
    if (std::equal(text.begin(), text.end(), name.text.begin(), name.text.end(), [](char a, char b) { return lower(a) == b; })) return name.op;
  }
  throw InvalidArgument("no reduction is called \"" + std::string(text) + "\"; there are sum, product, min, max, avg, band, bor, bxor, land and lor");
}

std::string_view to_string(ReduceOp op) noexcept {
  const auto* const found = std::find_if(std::begin(names), std::end(names), [op](const Name& name) { return name.op == op; });
  return found == std::end(names) ? "unknown" : found->text;
}

}  // namespace unisono
