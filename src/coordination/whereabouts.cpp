#include "coordination/whereabouts.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace unisono::coordination {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_forget = 3s;
constexpr std::size_t longest_text = 300;

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

}  // namespace unisono::coordination
