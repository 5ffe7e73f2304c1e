#include "coordination/whereabouts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "coordination/coordination.h"

namespace unisono::coordination {
namespace {

using namespace std::chrono_literals;

constexpr auto time_between_two = 1s;
constexpr auto time_to_forget = 3s;
constexpr std::size_t longest_text = 300;
constexpr std::size_t most_told = 4;

}  // namespace

void Whereabouts::take(int global_rank, std::string_view text) {
  std::string shown(text.substr(0, longest_text));
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');  // it is printed here
  const std::lock_guard lock(mutex_);
  said_[global_rank] = {std::move(shown), base::Clock::now()};
}

std::string Whereabouts::of(int global_rank, base::Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  const auto said = said_.find(global_rank);
  return said == said_.end() || now - said->second.at > time_to_forget ? std::string() : said->second.text;
}

std::optional<pid_t> Coordination::process_of(int rank) const {
  if (!parts_.host.peers || !topology_.here(rank)) return std::nullopt;
  return parts_.host.peers->process_of(topology_.local_of(rank));
}

std::string Coordination::whereabouts_of(int rank) const { return topology_.here(rank) ? std::string() : parts_.whereabouts->of(global(rank)); }

void Coordination::tell_whereabouts(std::span<const int> waiting_for, const std::function<std::string()>& text) {
  if (is_one_host() || size() > most_ranks_that_tell) return;
  {
    const std::lock_guard lock(mutex_);
    const auto now = base::Clock::now();
    if (now < next_telling_) return;
    next_telling_ = now + time_between_two;
  }
  std::string notice;
  std::size_t told = 0;
  for (const int r : waiting_for) {
    if (topology_.here(r) || told == most_told) continue;
    if (notice.empty()) notice = Notices::of_kind(NoticeKind::whereabouts).text(text()).take();
    notices_->tell(r, notice);
    ++told;
  }
}

}  // namespace unisono::coordination
