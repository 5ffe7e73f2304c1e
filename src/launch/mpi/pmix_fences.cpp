#include "launch/mpi/pmix_fences.h"

#include <algorithm>
#include <ostream>
#include <sstream>
#include <utility>

#include "base/hash.h"

namespace unisono::launcher {
namespace {

constexpr std::string_view hexadecimal_digits = "0123456789abcdef";

std::string to_hexadecimal(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text.push_back(hexadecimal_digits[value >> 4U]);
    text.push_back(hexadecimal_digits[value & 15U]);
  }
  return text;
}

/// Returns false where the text is not of that form.
bool from_hexadecimal(std::string_view text, std::string& bytes) {
  if (text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::size_t high = hexadecimal_digits.find(text[i]), low = hexadecimal_digits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes.push_back(static_cast<char>(high << 4U | low));
  }
  return true;
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text.append(text.empty() ? "" : ",").append(std::to_string(number));
  return text;
}

}  // namespace

std::vector<int> Fences::hosts_of(const std::vector<int>& among) const {
  std::vector<int> hosts;
  int first = 0;
  for (std::size_t host = 0; host < ranks_.size(); ++host) {
    const int end = first + ranks_[host];
    const bool takes_part = among.empty() || std::ranges::any_of(among, [&](int rank) { return rank >= first && rank < end; });
    if (takes_part) hosts.push_back(static_cast<int>(host));
    first = end;
  }
  return hosts;
}

void Fences::come(std::vector<int> among, std::string_view data, Done done) {
  const std::vector<int> hosts = hosts_of(among);
  if (hosts.empty() || hosts == std::vector{own_}) return done(data);
  std::ranges::sort(among);
  const std::string set = list_of(among);
  const std::lock_guard lock(mutex_);
  // All hosts give a fence the same name: the ranks in short, and how many fences they have had.
  std::ostringstream name;
  name << std::hex << base::stable_hash(set) << '-' << numbers_[set]++;
  waiting_.emplace(name.str(), std::move(done));
  out_ << "fence " << name.str() << ' ' << list_of(hosts) << ' ' << to_hexadecimal(data) << std::endl;
}

void Fences::hear(const std::string& line) {
  std::istringstream words(line);
  std::string kind, name, text, data;
  words >> kind >> name >> text;
  if (kind != "fence" || !from_hexadecimal(text, data)) return;
  Done done;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(name);
    if (found == waiting_.end()) return;
    done = std::move(found->second);
    waiting_.erase(found);
  }
  done(data);
}

}  // namespace unisono::launcher
