#pragma once

#include <array>
#include <span>
#include <string_view>

namespace unisono::base {

/// An environment variable of unisono. A test fails for a variable that is read anywhere and is missing in the table, or in
/// docs/guide/environment.md.
struct Variable {
  enum class Value {
    text,     ///< checked where it is read, or not at all
    word,     ///< one of `words`
    seconds,  ///< a positive whole number
    backend,  ///< a name or a map of names, which the registry of engines checks
    secret,   ///< text that is never printed
    path,     ///< of a file, a folder or a command, or a descriptor
    file,     ///< the absolute path of a file
    folders,  ///< absolute paths of folders, separated by colons
  };
  std::string_view name;
  std::string_view about = {};  ///< a line of docs/guide/environment.md, and of the manual page; none where only the launcher sets it
  Value value = Value::text;
  std::array<std::string_view, 5> words = {};
};

/// Variables that `unisono run` sets for each rank, with the line of docs/guide/environment.md about them. A test compares it with what a rank gets.
struct RankVariables {
  std::array<std::string_view, 5> names;  ///< "PMIX_…": all that begin so
  std::string_view about;
};

std::span<const Variable> variables();
std::span<const RankVariables> variables_of_ranks();
/// Returns null for a name that is not in the table.
const Variable* find_variable(std::string_view name);

/// Returns true for one that names a file, a folder, a command or a secret: a program with more rights than its caller must not use them for it.
bool is_for_own_rights(const Variable& variable);

}  // namespace unisono::base
