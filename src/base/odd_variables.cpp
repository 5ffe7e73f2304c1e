#include "base/odd_variables.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/likeness.h"
#include "base/printable.h"
#include "base/variables.h"

namespace unisono::base {
namespace {

using Value = Variable::Value;

constexpr std::string_view ours = "UNISONO_";

std::vector<std::string_view> words_of(const Variable& variable) {
  std::vector<std::string_view> words;
  for (const std::string_view word : variable.words)
    if (!word.empty()) words.push_back(word);
  return words;
}

/// Returns a foreign text for display: short, and without control characters.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;  // characters: enough to recognise the value, and the message stays on a line
  return printable(text.substr(0, most)) + (text.size() > most ? "…" : "");
}

std::string unknown_name(const std::string& name) {
  // The common prefix is left out, since it would make every name look similar.
  std::vector<std::string_view> endings;
  for (const Variable& variable : variables()) endings.push_back(variable.name.substr(ours.size()));
  const std::string_view meant = nearest(std::string_view(name).substr(ours.size()), endings);
  return fmt::format("{} is unknown{}", shown(name), meant.empty() ? "" : fmt::format("; did you mean {}{}?", ours, meant));
}

/// Returns the sentence about a value; empty: the value is in order.
std::string odd_value(const Variable& variable, const std::string& text) {
  if (variable.value == Value::seconds) {
    int seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error == std::errc() && end == text.data() + text.size() && seconds > 0) return {};
    return fmt::format("{}={} is no positive whole number of seconds", variable.name, shown(text));
  }
  if (variable.value == Value::folders) return odd_folders(variable.name, text);
  if (variable.value == Value::file) {
    return text.starts_with('/') ? std::string() : fmt::format("{}={} is no absolute path", variable.name, shown(text));
  }
  if (variable.value != Value::word) return {};
  const std::vector<std::string_view> words = words_of(variable);
  if (std::ranges::find(words, text) != words.end()) return {};
  if (const std::string_view meant = nearest(text, words); !meant.empty())
    return fmt::format("{}={} is unknown; did you mean {}?", variable.name, shown(text), meant);
  std::string list(words.front());
  for (std::size_t i = 1; i < words.size(); ++i) list.append(i + 1 == words.size() ? " or " : ", ").append(words[i]);
  return fmt::format("{}={} is unknown; it is {}", variable.name, shown(text), list);
}

}  // namespace

std::vector<std::string> folders_of(std::string_view text) {
  std::vector<std::string> folders;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) folders.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::string odd_folders(std::string_view variable, std::string_view text) {
  for (const std::string& folder : folders_of(text)) {
    if (!folder.starts_with('/')) return fmt::format("{}: {} is no absolute path, and nothing is looked for there", variable, shown(folder));
  }
  return {};
}

std::vector<std::string> odd_variables(const Environment& environment) {
  std::vector<std::string> odd;
  for (const auto& [name, text] : environment.all()) {
    if (!name.starts_with(ours) || text.empty()) continue;  // an empty one counts as unset
    const Variable* variable = find_variable(name);
    std::string sentence = variable == nullptr ? unknown_name(name) : odd_value(*variable, text);
    if (!sentence.empty()) odd.push_back(std::move(sentence));
  }
  for (const std::string& name : environment.ignored()) odd.push_back(fmt::format("{} is ignored in a program that runs with others' rights", name));
  return odd;
}

}  // namespace unisono::base
