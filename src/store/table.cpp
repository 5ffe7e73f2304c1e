#include "store/table.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/printable.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

// An entry's memory beside its bytes, roughly. Without it a million empty keys would count as nothing.
constexpr std::size_t entry_overhead = 64;

}  // namespace

std::string printable(std::string_view key) {
  constexpr std::size_t longest = 120;
  return base::printable(key.substr(0, longest)) + (key.size() > longest ? "..." : "");
}

void Table::check(const Limits& limits, std::string_view key, std::string_view value) {
  if (key.size() > limits.key_bytes)
    throw InvalidArgument(fmt::format("a key of {} bytes is longer than the store takes ({})", key.size(), limits.key_bytes));
  if (value.size() > limits.value_bytes) {
    throw InvalidArgument(
        fmt::format("the value of \"{}\" has {} bytes, more than the store takes ({})", printable(key), value.size(), limits.value_bytes));
  }
}

std::size_t Table::bytes_with(std::string_view key, std::string_view value) const {
  const std::string* before = find(key);
  return before == nullptr ? bytes_ + entry_overhead + key.size() + value.size() : bytes_ - before->size() + value.size();
}

void Table::admit(std::string_view key, std::string_view value) const {
  check(limits_, key, value);
  if (bytes_with(key, value) > limits_.total_bytes)
    throw InvalidArgument(fmt::format("the store is full: it takes {} bytes in all", limits_.total_bytes));
  if (entries_.size() >= limits_.keys && find(key) == nullptr)
    throw InvalidArgument(fmt::format("the store is full: it takes {} keys", limits_.keys));
}

void Table::set(std::string_view key, std::string_view value) {
  admit(key, value);
  bytes_ = bytes_with(key, value);
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    found->second.assign(value);
  } else {
    entries_.emplace(key, value);
  }
}

const std::string* Table::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::string> Table::missing(std::span<const std::string> keys) const {
  std::vector<std::string> missing;
  std::ranges::copy_if(keys, std::back_inserter(missing), [this](const std::string& key) { return find(key) == nullptr; });
  return missing;
}

std::int64_t Table::sum(std::string_view key, const std::string* value, std::int64_t amount) {
  const auto count = value == nullptr ? std::optional<std::int64_t>(0) : base::whole_number<std::int64_t>(*value);
  if (!count) throw InvalidArgument(fmt::format("add: the value of \"{}\" is not a number: \"{}\"", printable(key), printable(*value)));
  std::int64_t result = 0;
  if (__builtin_add_overflow(*count, amount, &result))
    throw InvalidArgument(fmt::format("add: the counter \"{}\" would leave 64 bits", printable(key)));
  return result;
}

std::int64_t Table::add(std::string_view key, std::int64_t amount) {
  const std::int64_t result = sum(key, find(key), amount);
  set(key, std::to_string(result));
  return result;
}

std::string Table::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  const std::string* value = find(key);
  const std::string_view current = value == nullptr ? std::string_view() : *value;
  if (current != expected) return std::string(current);
  set(key, desired);
  return std::string(desired);
}

bool Table::erase(std::string_view key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  bytes_ -= entry_overhead + key.size() + found->second.size();
  entries_.erase(found);
  return true;
}

void throw_missing(std::string_view place, std::span<const std::string> missing, std::chrono::milliseconds timeout) {
  constexpr std::size_t most = 16;
  std::string names;
  for (const std::string& key : missing.first(std::min(most, missing.size()))) {
    if (!names.empty()) names += ", ";
    names += '"' + printable(key) + '"';
  }
  if (missing.size() > most) names += fmt::format(" and {} more", missing.size() - most);
  throw Timeout(fmt::format("{}: no value for {} within {} ms", place, names, timeout.count()));
}

}  // namespace unisono::store
