#pragma once

#include <string>
#include <vector>

namespace unisono::tools {

/// Something that keeps a job from running, or may surprise its user.
struct Finding {
  enum class Kind { wrong, remark };
  Kind kind = Kind::wrong;
  std::string about = {};   ///< "interface", "name", "port", …: one word for programs
  std::string text = {};    ///< what is so
  std::string advice = {};  ///< what to do
  std::string host = {};    ///< where; of two hosts "a to b"
};

using Findings = std::vector<Finding>;

}  // namespace unisono::tools
