// The texts and counts of a record, each of which is given a number when it is first met.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/error_place.h"
#include "recorder/recorder.h"

namespace unisono::recorder {
namespace {

std::string_view file_name_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::uint16_t Recorder::add_group(std::string_view name, int size, const World& world) {
  const std::lock_guard lock(mutex_);
  if (++groups_ == 0) groups_ = 1;
  header_->groups[groups_ % RecordHeader::most_groups].set(groups_, size, name, world.generation, world.rank);
  if (groups_ < header_->more_groups) more_groups_of(header_)[groups_].set(groups_, size, name, world.generation, world.rank);
  counted_as_[groups_ % counted_as_.size()].store(counted_group(name), std::memory_order_relaxed);
  return groups_;
}

std::vector<int> Recorder::ranks_of(std::span<const std::string> members) {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  if (members_.empty()) return ranks;
  for (const std::string& member : members) {
    const auto found = std::ranges::find(members_, member);
    ranks.push_back(found == members_.end() ? -1 : static_cast<int>(found - members_.begin()));
  }
  return ranks;
}

std::uint16_t Recorder::find_place(const std::source_location& where) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint16_t i = 1; i < place_count_; ++i) {
    if (places_[i].line == where.line() && places_[i].file == where.file_name()) return i;
  }
  if (place_count_ == places_.size() || base::is_own_place(where)) return 0;
  const std::uint16_t id = place_count_++;
  places_[id] = {where.file_name(), where.line(), id};
  std::array<char, 16> line{};
  int digits = 0;
  for (std::uint32_t left = where.line(); left != 0; left /= 10)
    line[line.size() - static_cast<std::size_t>(++digits)] = static_cast<char>('0' + left % 10);
  std::array<char, 64> text{};
  const std::string_view name = file_name_of(where.file_name());
  const auto room = text.size() - static_cast<std::size_t>(digits) - 1 - 4;
  const std::string_view kept = name.size() > room ? name.substr(name.size() - room) : name;
  std::memcpy(text.data(), kept.data(), kept.size());
  text[kept.size()] = ':';
  std::memcpy(text.data() + kept.size() + 1, line.data() + line.size() - static_cast<std::size_t>(digits), static_cast<std::size_t>(digits));
  header_->places[id].set({text.data(), kept.size() + 1 + static_cast<std::size_t>(digits)}, FixedText<60>::Keep::end);
  return id;
}

std::uint8_t Recorder::find_label(std::string_view label) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint8_t i = 1; i < label_count_; ++i) {
    if (labels_[i] == label.data()) return i;
  }
  if (label_count_ == labels_.size()) return 0;
  const std::uint8_t id = label_count_++;
  labels_[id] = label.data();
  header_->labels[id].set(label);
  return id;
}

std::uint16_t Recorder::find_count(std::uint32_t key, std::size_t from) noexcept {
  constexpr std::size_t most = RecordHeader::most_counts;
  constexpr std::uint32_t most_used = most * 7 / 8;  // so that no search is long
  const auto free_or_same = [&] {
    while (header_->count_keys[from].load(std::memory_order_relaxed) != 0 && header_->count_keys[from].load(std::memory_order_relaxed) != key)
      from = (from + 1) % most;
    return header_->count_keys[from].load(std::memory_order_relaxed) == key;
  };
  if (free_or_same()) return static_cast<std::uint16_t>(from);
  if (used_counts_.load(std::memory_order_relaxed) == most_used) return most;
  const std::lock_guard lock(mutex_);
  if (free_or_same()) return static_cast<std::uint16_t>(from);
  if (used_counts_.load(std::memory_order_relaxed) == most_used) return most;
  used_counts_.fetch_add(1, std::memory_order_relaxed);
  header_->count_keys[from].store(key, std::memory_order_release);
  return static_cast<std::uint16_t>(from);
}

std::uint8_t Recorder::counted_group(std::string_view name) noexcept {
  const std::string kept = base::printable(name.substr(0, 60));
  const auto same = [&](const FixedText<60>& known) { return known.get() == kept; };
  const auto end = header_->counted_groups.begin() + counted_groups_;
  const auto found = std::find_if(header_->counted_groups.begin() + 1, end, same);
  if (found != end) return static_cast<std::uint8_t>(found - header_->counted_groups.begin());
  if (counted_groups_ == header_->counted_groups.size()) return 0;
  header_->counted_groups[counted_groups_].set(name);
  return counted_groups_++;
}

}  // namespace unisono::recorder
