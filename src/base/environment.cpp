#include "base/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/variables.h"
#include "unisono/error.h"

namespace unisono::base {

namespace {

std::atomic<const Environment*> of_this_rank{nullptr};

bool holds_secret(std::string_view name) {
  const Variable* const ours = find_variable(name);
  return ours != nullptr && ours->value == Variable::Value::secret;
}

using Value = Variable::Value;
constexpr std::string_view own_prefix = "UNISONO_";

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
  for (const Variable& variable : variables()) endings.push_back(variable.name.substr(own_prefix.size()));
  const std::string_view meant = nearest(std::string_view(name).substr(own_prefix.size()), endings);
  return fmt::format("{} is unknown{}", shown(name), meant.empty() ? "" : fmt::format("; did you mean {}{}?", own_prefix, meant));
}

/// Returns the sentence about a value; empty: the value is in order.
std::string odd_value(const Variable& variable, const std::string& text) {
  if (variable.value == Value::seconds) {
    if (whole_number<int>(text).value_or(0) > 0) return {};
    return fmt::format("{}={} is not a positive whole number of seconds", variable.name, shown(text));
  }
  if (variable.value == Value::folders) return odd_folders(variable.name, text);
  if (variable.value == Value::file) {
    return text.starts_with('/') ? std::string() : fmt::format("{}={} is not an absolute path", variable.name, shown(text));
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

void Environment::become(Environment environment) { of_this_rank.store(new Environment(std::move(environment))); }

const Environment& Environment::process() {
  if (const Environment* own = of_this_rank.load(std::memory_order_acquire)) return *own;
  // Never destroyed, like all that static objects of a program may still need.
  static const Environment& snapshot = *new const Environment(environ, ::getauxval(AT_SECURE) != 0);
  return snapshot;
}

void Environment::forget_secrets() {
  process();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    char* const equals = std::strchr(*entry, '=');
    if (equals != nullptr && holds_secret({*entry, static_cast<std::size_t>(equals - *entry)})) ::explicit_bzero(equals + 1, std::strlen(equals + 1));
  }
}

Environment::Environment(std::map<std::string, std::string, std::less<>> variables, std::map<std::string, Secret, std::less<>> secrets)
    : variables_(std::move(variables)), secrets_(std::move(secrets)) {
  for (auto each = variables_.begin(); each != variables_.end();) {
    if (!holds_secret(each->first)) {
      ++each;
      continue;
    }
    secrets_.insert_or_assign(each->first, Secret::taking(std::move(each->second)));
    each = variables_.erase(each);
  }
}

Environment::Environment(char* const* variables, bool has_more_rights) {
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view text(*variables);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    const Variable* const ours = has_more_rights ? find_variable(name) : nullptr;
    if (ours != nullptr && is_for_own_rights(*ours)) ignored_.emplace_back(name);
    else if (holds_secret(name)) secrets_.emplace(name, text.substr(equals + 1));
    else variables_.emplace(name, text.substr(equals + 1));
  }
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<Secret> Environment::secret(std::string_view name) const {
  const auto found = secrets_.find(name);
  if (found == secrets_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<int> Environment::get_int(std::string_view name) const {
  const auto text = get(name);
  if (!text) return std::nullopt;
  const auto value = whole_number<int>(*text);
  if (!value) throw InvalidArgument("environment variable " + std::string(name) + " is not a whole number: \"" + *text + "\"");
  return value;
}

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
    if (!folder.starts_with('/')) return fmt::format("{}: {} is not an absolute path, and nothing is searched there", variable, shown(folder));
  }
  return {};
}

std::vector<std::string> odd_variables(const Environment& environment) {
  std::vector<std::string> odd;
  for (const auto& [name, text] : environment.all()) {
    if (!name.starts_with(own_prefix) || text.empty()) continue;  // an empty one counts as unset
    const Variable* variable = find_variable(name);
    std::string sentence = variable == nullptr ? unknown_name(name) : odd_value(*variable, text);
    if (!sentence.empty()) odd.push_back(std::move(sentence));
  }
  for (const std::string& name : environment.ignored()) odd.push_back(fmt::format("{} is ignored in a program that runs with others' rights", name));
  return odd;
}

}  // namespace unisono::base
