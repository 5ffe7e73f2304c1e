#include "symbols.h"

#include <algorithm>

namespace unisono::schedule::testing {

Symbols::Symbols(int ranks, std::size_t width) : width_(width), table_(1U << 10, 0) {
  nodes_.reserve(1 + static_cast<std::size_t>(ranks) * width * 3);
  nodes_.push_back({});
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < width; ++i) {
      nodes_.push_back({.left = 0,
                        .right = 0,
                        .ranks = std::uint64_t{1} << r,
                        .element = static_cast<std::uint32_t>(i),
                        .first = static_cast<std::uint8_t>(r),
                        .last = static_cast<std::uint8_t>(r),
                        .is_in_order = true,
                        .is_left_fold = true,
                        .is_divided = false,
                        .inputs = 1});
    }
  }
}

std::size_t Symbols::place_of(Symbol left, Symbol right) const {
  const std::uint64_t both = (static_cast<std::uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15U;
  std::size_t place = (both >> 32) & (table_.size() - 1);
  while (table_[place] != 0 && (nodes_[table_[place]].left != left || nodes_[table_[place]].right != right))
    place = (place + 1) & (table_.size() - 1);
  return place;
}

void Symbols::grow() {
  std::vector<Symbol> old(table_.size() * 2, 0);
  old.swap(table_);
  for (const Symbol symbol : old) {
    if (symbol != 0) table_[place_of(nodes_[symbol].left, nodes_[symbol].right)] = symbol;
  }
}

Symbol Symbols::add(const Node& node) {
  std::size_t place = place_of(node.left, node.right);
  if (table_[place] != 0) return table_[place];
  if (++used_ * 2 > table_.size()) {
    grow();
    place = place_of(node.left, node.right);
  }
  nodes_.push_back(node);
  return table_[place] = static_cast<Symbol>(nodes_.size() - 1);
}

Symbol Symbols::combine(Symbol left, Symbol right) {
  const Node a = nodes_[left], b = nodes_[right];
  Node node = a;
  node.left = left;
  node.right = right;
  node.ranks |= b.ranks;
  node.last = b.last;
  node.is_in_order = a.is_in_order && b.is_in_order && a.last + 1 == b.first;
  node.is_left_fold = node.is_in_order && a.is_left_fold && b.inputs == 1;
  node.inputs += b.inputs;
  if (a.element != b.element) node.element = ~std::uint32_t{0};  // never what is expected
  return add(node);
}

Symbol Symbols::divide(Symbol sum) {
  Node node = nodes_[sum];
  node.left = sum;
  node.right = 0;
  node.is_divided = true;
  return add(node);
}

}  // namespace unisono::schedule::testing
