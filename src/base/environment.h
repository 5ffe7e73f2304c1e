#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::base {

/// The process's environment, read once and never written. All code reads variables through this class, so that tests can pass their own.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables) : variables_(std::move(variables)) {}
  /// Takes variables as a program gets them. `has_more_rights`: it may do more than whoever has started it (set-user-ID), and then ignores those of
  /// ours that name files, folders, commands or secrets.
  Environment(char* const* variables, bool has_more_rights);

  /// Returns the snapshot taken at the first call; in a forked rank, what become() was given.
  static const Environment& process();
  /// Replaces the variables of a forked child that goes on as a rank; `environ` stays as it is. It is called once, before there are threads.
  static void become(Environment environment);

  /// Returns the variable's value. An empty value counts as unset.
  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value(); }
  /// Throws InvalidArgument, which names the variable and its text, where it is set and is no whole number.
  std::optional<int> get_int(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const { return variables_; }
  /// Returns the names of those that are set and ignored.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
  std::vector<std::string> ignored_;
};

}  // namespace unisono::base
