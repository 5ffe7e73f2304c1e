#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace unisono::base {

/// The process's environment, read once and never written. Everything that wants a variable asks here, so that tests can hand in their own.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables) : variables_(std::move(variables)) {}

  /// The snapshot taken at the first call; in a forked rank, what become() was given.
  static const Environment& process();
  /// A child of fork that goes on as a rank takes these for its variables; environ stays as it is. Called once, before there are threads.
  static void become(Environment environment);

  /// An empty value counts as unset.
  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value(); }
  /// InvalidArgument, naming the variable and its text, where it is set and no whole number.
  std::optional<int> get_int(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const { return variables_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace unisono::base
