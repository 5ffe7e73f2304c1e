#pragma once

#include <string>
#include <string_view>

// Docstrings in numpydoc's form. docs/ has the texts, one header for each source that uses them; what many have in common stands here once.

namespace unisono::python {

/// Returns the text of a function or a class. A line of the form {name} becomes what many texts have in common: docstrings.cpp lists the names.
/// Throws std::logic_error for a name that is not there.
std::string docstring(std::string_view text);

/// The same of a call that takes `async_op` as its last parameter, which the text does not name.
std::string docstring_with_choice(std::string_view text);

/// What the text of NAME_async has of its own: the entries of "Parameters" that differ from those of NAME, and the examples.
struct AsyncText {
  std::string_view parameters = {};
  std::string_view examples = {};
};

/// Returns the text of NAME_async, with the other parameters and the errors of NAME, whose text this is.
std::string async_docstring(const std::string& name, std::string_view text, const AsyncText& own);

}  // namespace unisono::python
