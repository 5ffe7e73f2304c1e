#include "base/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <functional>
#include <utility>

#include "base/variables.h"
#include "unisono/error.h"

namespace unisono::base {

namespace {

std::atomic<const Environment*> of_this_rank{nullptr};

bool holds_secret(std::string_view name) {
  const Variable* const ours = find_variable(name);
  return ours != nullptr && ours->value == Variable::Value::secret;
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
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end) {
    throw InvalidArgument("environment variable " + std::string(name) + " is not a whole number: \"" + *text + "\"");
  }
  return value;
}

}  // namespace unisono::base
