#include "rendezvous/heard_processes.h"

#include <algorithm>

#include <fmt/format.h>

namespace unisono::rendezvous {
namespace {

using base::Clock;

// A process that was silent for so many pauses counts as gone. It is known again when it announces itself again.
constexpr auto longest_silence = 20 * longest_pause;
// The number of other processes that are remembered beside as many as there are ranks: without a token, any process can claim to be one.
constexpr std::size_t most_strangers = 1024;

}  // namespace

HeardProcesses::HeardProcesses(int world_size) : most_(static_cast<std::size_t>(world_size) + most_strangers) {}

bool HeardProcesses::is_old(const Announcement& said) const {
  if (const auto last = last_number_.find(said.nonce); last != last_number_.end() && said.number <= last->second) return true;
  const auto other = others_.find(said.nonce);
  return other != others_.end() && said.number <= other->second.said.number;
}

void HeardProcesses::leave_out(const std::string& nonce) {
  if (of_other_jobs_.size() >= most_) of_other_jobs_.clear();  // those that are still there announce themselves again
  of_other_jobs_.insert(nonce);
  others_.erase(nonce);
}

/// Forgets the process that was heard longest ago among those that have not proven to be of this run.
bool HeardProcesses::make_room_for(const std::string& nonce) {
  if (others_.size() < most_ || others_.contains(nonce)) return true;
  ++too_many_;
  auto oldest = others_.end();
  for (auto each = others_.begin(); each != others_.end(); ++each) {
    if (!each->second.proven && (oldest == others_.end() || each->second.heard_at < oldest->second.heard_at)) oldest = each;
  }
  if (oldest == others_.end()) return false;
  others_.erase(oldest);
  return true;
}

bool HeardProcesses::take(Announcement&& said, const base::SocketAddress& source, bool is_fresh) {
  Other& other = others_[said.nonce];
  const bool changed = other.times == 0 || (is_fresh && !other.proven) || other.said.job != said.job || other.said.agreed != said.agreed;
  other.proven = other.proven || is_fresh;
  if (other.proven) last_number_[said.nonce] = said.number;
  other.said = std::move(said);
  other.source = source;
  other.heard_at = Clock::now();
  ++other.times;
  return changed;
}

void HeardProcesses::forget_the_silent() {
  const auto now = Clock::now();
  std::erase_if(others_, [&](const auto& each) { return now - each.second.heard_at > longest_silence; });
}

const HeardProcesses::Other* HeardProcesses::find(const std::string& nonce) const {
  const auto found = others_.find(nonce);
  return found == others_.end() ? nullptr : &found->second;
}

std::vector<const Announcement*> HeardProcesses::proven() const {
  std::vector<const Announcement*> all;
  for (const auto& [nonce, other] : others_) {
    if (other.proven) all.push_back(&other.said);
  }
  return all;
}

std::vector<std::uint64_t> HeardProcesses::next_echoes() {
  std::vector<std::uint64_t> echoes;
  auto next = others_.upper_bound(repeated_);
  for (std::size_t i = std::min(others_.size(), most_echoes); i > 0; --i, ++next) {
    if (next == others_.end()) next = others_.begin();
    echoes.push_back(echo_of(next->first));
    repeated_ = next->first;
  }
  return echoes;
}

std::string HeardProcesses::describe_unproven() const {
  std::string text;
  const auto unproven = std::ranges::count_if(others_, [](const auto& each) { return !each.second.proven; });
  if (unproven > 0) text += fmt::format("; {} others have not heard this process, or are records of an earlier run", unproven);
  if (too_many_ > 0) text += fmt::format("; {} datagrams came when too many others had been heard", too_many_);
  return text;
}

}  // namespace unisono::rendezvous
