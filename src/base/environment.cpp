#include "base/environment.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <functional>
#include <utility>

#include "unisono/error.h"

namespace unisono::base {

namespace {

std::atomic<const Environment*> of_this_rank{nullptr};

}  // namespace

void Environment::become(Environment environment) { of_this_rank.store(new Environment(std::move(environment))); }

const Environment& Environment::process() {
  if (const Environment* own = of_this_rank.load(std::memory_order_acquire)) return *own;
  static const Environment& snapshot = *new const Environment([] {  // never destroyed, like all that static objects of a program may still need
    std::map<std::string, std::string, std::less<>> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      std::string_view text(*entry);
      const auto equals = text.find('=');
      if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return Environment(std::move(variables));
  }());
  return snapshot;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
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
