#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// A text of each of several nodes, which all of them read. The first of the nodes waits for all texts, reads them together, and writes them as one
/// value that the others wait for: a few requests of each node, whatever their number.
struct TextsOfNodes {
  std::string prefix;      ///< of the keys: node 3's text is under "prefix/3", all of them under "prefix/all"
  std::vector<int> nodes;  ///< the same on all of them

  std::string key(int node) const { return prefix + "/" + std::to_string(node); }
};

/// Writes this node's text and returns the texts of all nodes, in their order. Throws Timeout after the deadline; nothing is returned where
/// `goes_on`, which is asked about every second, says no. A text that another process has written for a node counts as well.
std::optional<std::vector<std::string>> gather_texts(Store& store, const TextsOfNodes& texts, int own_node, std::string_view own,
                                                     const base::Deadline& deadline, const std::function<bool()>& goes_on);

}  // namespace unisono::launcher
