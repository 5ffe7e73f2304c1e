#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace unisono::base {

/// An environment variable of ours. There is one table of them: a variable that is read anywhere and does not stand in it fails a test, and so does
/// one that docs/environment.md does not describe.
struct Variable {
  enum class Value {
    text,     ///< checked by whoever reads it, or not at all
    word,     ///< one of `words`
    seconds,  ///< a positive whole number
    backend,  ///< a name or a map of names; only the backends' registry knows which there are
    secret,   ///< text that nobody prints
    file,     ///< the absolute path of a file
    folders,  ///< absolute paths of folders, separated by colons
  };
  std::string_view name;
  Value value = Value::text;
  std::array<std::string_view, 5> words = {};
};

std::span<const Variable> variables();
/// Null: it is none of ours.
const Variable* find_variable(std::string_view name);

/// What is odd about the variables that begin with UNISONO_, a sentence each: names that nothing reads and values that mean nothing. What a backend's
/// name means is not looked at.
std::vector<std::string> odd_variables(const Environment& environment);

/// Of a list of folders, what stands between its colons; nothing of what is empty.
std::vector<std::string> folders_of(std::string_view text);
/// What is odd about such a list, as a sentence; empty: nothing.
std::string odd_folders(std::string_view variable, std::string_view text);

}  // namespace unisono::base
