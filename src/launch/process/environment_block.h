#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace unisono::launcher {

/// The environment of a process to be started, in the form of execve. It is built before fork, because a child must not allocate.
class EnvironmentBlock {
 public:
  explicit EnvironmentBlock(const base::Environment& base) : variables_(base.all()), secrets_(base.secrets()) {}

  void set(std::string_view name, std::string_view value) { variables_[std::string(name)] = value; }
  void set(std::string_view name, int value) { set(name, std::string_view(std::to_string(value))); }
  void remove(std::string_view name);
  /// Returns empty text where the variable is not set, or is a secret.
  std::string get(std::string_view name) const;
  /// Returns true where the variable is set, not empty and no secret.
  bool has(std::string_view name) const;

  /// Returns a pointer that is valid until the next change or the end of this object.
  char* const* data();
  base::Environment as_environment() const { return base::Environment(variables_, secrets_); }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
  std::map<std::string, base::Secret, std::less<>> secrets_;
  std::vector<std::string> lines_;
  std::vector<base::Secret> secret_lines_;
  std::vector<char*> pointers_;
};

}  // namespace unisono::launcher
