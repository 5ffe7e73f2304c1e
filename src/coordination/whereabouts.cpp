#include "coordination/whereabouts.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace unisono::coordination {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_forget = 3s;
constexpr std::size_t longest_text = 300;
constexpr auto time_to_keep = 1500ms;  // chains are sent at least once a second: one that is older tells of a wait that may be over
constexpr std::size_t most_kept = 64;
constexpr std::size_t longest_chain = 8192;

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

void WaitChains::take(std::string_view chain) {
  if (chain.size() > longest_chain) return;
  const std::lock_guard lock(mutex_);
  if (received_.size() == most_kept) received_.erase(received_.begin());
  received_.push_back({std::string(chain), base::Clock::now()});
}

std::vector<std::string> WaitChains::fetch() {
  std::vector<Chain> come;
  {
    const std::lock_guard lock(mutex_);
    come.swap(received_);
  }
  const auto now = base::Clock::now();
  std::vector<std::string> chains;
  for (Chain& chain : come) {
    if (now - chain.at <= time_to_keep) chains.push_back(std::move(chain.bytes));
  }
  return chains;
}

bool WaitChains::is_due(std::chrono::nanoseconds elapsed, std::chrono::nanoseconds timeout) {
  if (elapsed < std::min<std::chrono::nanoseconds>(500ms, timeout / 2)) return false;
  const auto pause = std::clamp<std::chrono::nanoseconds>((timeout - elapsed) / 4, 50ms, 1s);
  const std::lock_guard lock(mutex_);
  const auto now = base::Clock::now();
  if (now - sent_ < pause) return false;
  sent_ = now;
  return true;
}

void WaitChains::keep_circle(std::string chain) {
  const std::lock_guard lock(mutex_);
  circle_ = {std::move(chain), base::Clock::now()};
}

std::string WaitChains::circle(base::Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  return now - circle_.at > time_to_keep ? std::string() : circle_.bytes;
}

}  // namespace unisono::coordination
