#include "recorder/call_counter.h"

#include <algorithm>
#include <string>

#include "base/printable.h"

namespace unisono::recorder {

void CallCounter::add_group(std::uint16_t number, std::string_view name) {
  const std::lock_guard lock(mutex_);
  counted_as_[number % counted_as_.size()].store(name_of(name), std::memory_order_relaxed);
}

std::uint16_t CallCounter::find(std::uint32_t key, std::size_t from) noexcept {
  constexpr std::size_t most = CountTable::most_counts;
  constexpr std::uint32_t most_used = most * 7 / 8;  // so that no search is long
  const auto free_or_same = [&] {
    while (table_.keys[from].load(std::memory_order_relaxed) != 0 && table_.keys[from].load(std::memory_order_relaxed) != key)
      from = (from + 1) % most;
    return table_.keys[from].load(std::memory_order_relaxed) == key;
  };
  if (free_or_same()) return static_cast<std::uint16_t>(from);
  if (used_.load(std::memory_order_relaxed) == most_used) return most;
  const std::lock_guard lock(mutex_);
  if (free_or_same()) return static_cast<std::uint16_t>(from);
  if (used_.load(std::memory_order_relaxed) == most_used) return most;
  used_.fetch_add(1, std::memory_order_relaxed);
  table_.keys[from].store(key, std::memory_order_release);
  return static_cast<std::uint16_t>(from);
}

std::uint8_t CallCounter::name_of(std::string_view group) {
  const std::string kept = base::printable(group.substr(0, 60));
  const auto same = [&](const FixedText<60>& known) { return known.get() == kept; };
  const auto end = table_.groups.begin() + names_;
  const auto found = std::find_if(table_.groups.begin() + 1, end, same);
  if (found != end) return static_cast<std::uint8_t>(found - table_.groups.begin());
  if (names_ == table_.groups.size()) return 0;
  table_.groups[names_].set(group);
  return names_++;
}

}  // namespace unisono::recorder
