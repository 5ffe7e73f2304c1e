#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "running_command.h"

namespace unisono::testing {

/// The lines of two programs of this host, each of which stands for a node with two of four ranks.
inline std::vector<std::string> two_nodes(const std::string& mode, const std::vector<std::string>& place,
                                          const std::map<std::string, std::string>& variables = {}) {
  std::vector<std::unique_ptr<RunningCommand>> nodes;
  for (int node = 0; node < 2; ++node) {
    std::vector<std::string> words{SPAWN_HELPER, mode, std::to_string(node), "2", "2"};
    words.insert(words.end(), place.begin(), place.end());
    nodes.push_back(std::make_unique<RunningCommand>(words, RunningCommand::Options{.environment = variables}));
  }
  std::vector<std::string> lines;
  for (const auto& node : nodes) {
    EXPECT_EQ(node->wait(), 0) << node->err();
    for (const auto& line : lines_of(node->out())) lines.push_back(line);
  }
  return lines;
}

inline const std::vector<std::string> four_ranks{"rank 0 of 4, local 0 0, sum 6", "rank 1 of 4, local 1 1, sum 6", "rank 2 of 4, local 0 0, sum 6",
                                                 "rank 3 of 4, local 1 1, sum 6"};

}  // namespace unisono::testing
