#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unisono::schedule::testing {

/// What an element is made of: an element of a rank's input, or a combination of two. The same combination has the same number, so equal numbers mean
/// equal bits. 0 is an element that nothing has been written to.
using Symbol = std::uint32_t;

class Symbols {
 public:
  struct Node {
    Symbol left, right;     ///< 0: an element of an input
    std::uint64_t ranks;    ///< the ranks whose elements are in it
    std::uint32_t element;  ///< the number of the element in each rank's input
    std::uint8_t first, last;
    bool is_in_order;   ///< the ranks first ... last, each once, lower ones on the left
    bool is_left_fold;  ///< in order, one after the other
    bool is_divided;
    std::uint32_t inputs;  ///< how many elements of inputs are in it
  };

  Symbols(int ranks, std::size_t width);
  Symbol input(int rank, std::size_t element) const { return static_cast<Symbol>(1 + static_cast<std::size_t>(rank) * width_ + element); }
  const Node& at(Symbol symbol) const { return nodes_[symbol]; }
  Symbol combine(Symbol left, Symbol right);
  Symbol divide(Symbol sum);
  bool is_input(Symbol symbol) const { return nodes_[symbol].inputs == 1 && nodes_[symbol].left == 0; }

 private:
  Symbol add(const Node& node);
  std::size_t place_of(Symbol left, Symbol right) const;
  void grow();

  std::size_t width_;
  std::vector<Node> nodes_;
  std::vector<Symbol> table_;  // by hash of the two sides
  std::size_t used_ = 0;
};

}  // namespace unisono::schedule::testing
