#include "launch/environment_block.h"

namespace unisono::launcher {

std::string EnvironmentBlock::get(std::string_view name) const {
  const auto found = variables_.find(name);
  return found != variables_.end() ? found->second : std::string();
}

void EnvironmentBlock::remove(std::string_view name) {
  if (const auto found = variables_.find(name); found != variables_.end()) variables_.erase(found);
}

bool EnvironmentBlock::has(std::string_view name) const { return !get(name).empty(); }

char* const* EnvironmentBlock::data() {
  lines_.clear();
  pointers_.clear();
  for (const auto& [name, value] : variables_) lines_.push_back(name + "=" + value);
  for (auto& line : lines_) pointers_.push_back(line.data());
  pointers_.push_back(nullptr);
  return pointers_.data();
}

}  // namespace unisono::launcher
