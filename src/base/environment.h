#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"

namespace unisono::base {

/// The process's environment, read once and never written. All code reads variables through this class, so that tests can pass their own.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables, std::map<std::string, Secret, std::less<>> secrets = {});
  /// Takes variables as a program gets them. `has_more_rights`: it may do more than whoever has started it (set-user-ID), and then ignores those of
  /// ours that name files, folders, commands or secrets.
  Environment(char* const* variables, bool has_more_rights);

  /// Returns the snapshot taken at the first call; in a forked rank, what become() was given.
  static const Environment& process();
  /// Replaces the variables of a forked child that goes on as a rank; `environ` stays as it is. It is called once, before there are threads.
  static void become(Environment environment);
  /// Overwrites the secrets in `environ`, of which the snapshot has copies. It is for a program that is all unisono's own, and is called before there
  /// are threads: elsewhere `environ` is the user's, who may read them there or hand them to other programs.
  static void forget_secrets();

  /// Returns the variable's value. An empty value counts as unset, as does one that is a secret.
  std::optional<std::string> get(std::string_view name) const;
  /// Returns the value of a variable that holds a secret.
  std::optional<Secret> secret(std::string_view name) const;
  bool has(std::string_view name) const { return get(name).has_value() || secret(name).has_value(); }
  /// Throws InvalidArgument, which names the variable and its text, where it is set and is no whole number.
  std::optional<int> get_int(std::string_view name) const;
  /// Returns all variables but the secrets.
  const std::map<std::string, std::string, std::less<>>& all() const { return variables_; }
  const std::map<std::string, Secret, std::less<>>& secrets() const { return secrets_; }
  /// Returns the names of those that are set and ignored.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
  std::map<std::string, Secret, std::less<>> secrets_;
  std::vector<std::string> ignored_;
};

/// Returns a sentence for each name that begins with UNISONO_ and that nothing reads, and for each value without meaning, and for those that
/// are ignored. Names of backends are not checked.
std::vector<std::string> odd_variables(const Environment& environment);

/// Splits a list of folders at its colons and leaves out empty items.
std::vector<std::string> folders_of(std::string_view text);
/// Returns a sentence about a list of folders that is not in order; empty: it is.
std::string odd_folders(std::string_view variable, std::string_view text);

}  // namespace unisono::base
