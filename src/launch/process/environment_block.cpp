#include "launch/process/environment_block.h"

namespace unisono::launcher {
namespace {

base::Secret line_of(std::string_view name, const base::Secret& value) {
  const std::size_t size = name.size() + 1 + value.size() + 1;
  return base::Secret::filled(size, [&](char* bytes) {
    bytes += name.copy(bytes, name.size());
    *bytes++ = '=';
    bytes[value.view().copy(bytes, value.size())] = '\0';
    return size;
  });
}

}  // namespace

std::string EnvironmentBlock::get(std::string_view name) const {
  const auto found = variables_.find(name);
  return found != variables_.end() ? found->second : std::string();
}

void EnvironmentBlock::remove(std::string_view name) {
  if (const auto found = variables_.find(name); found != variables_.end()) variables_.erase(found);
  if (const auto found = secrets_.find(name); found != secrets_.end()) secrets_.erase(found);
}

bool EnvironmentBlock::has(std::string_view name) const { return !get(name).empty(); }

char* const* EnvironmentBlock::data() {
  lines_.clear();
  secret_lines_.clear();
  pointers_.clear();
  for (const auto& [name, value] : variables_) lines_.push_back(name + "=" + value);
  for (const auto& [name, value] : secrets_) secret_lines_.push_back(line_of(name, value));
  for (auto& line : lines_) pointers_.push_back(line.data());
  for (const auto& line : secret_lines_) pointers_.push_back(const_cast<char*>(line.view().data()));
  pointers_.push_back(nullptr);
  return pointers_.data();
}

}  // namespace unisono::launcher
