#include "bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/printable.h"
#include "harness/operations.h"
#include "unisono/error.h"

namespace unisono::tools {

namespace {

constexpr std::array<std::string_view, 5> known_peers = {"openmpi", "mpich", "gloo", "ucx", "nccl"};

bool is_peer(std::string_view word) { return is_path(word) || std::ranges::find(known_peers, word) != known_peers.end(); }

[[noreturn]] void refuse_word(const std::string& word) {
  std::vector<std::string_view> names;
  for (const bench::Operation each : bench::operations()) names.push_back(bench::to_string(each));
  std::vector<std::string_view> candidates(known_peers.begin(), known_peers.end());
  candidates.insert(candidates.end(), names.begin(), names.end());
  candidates.push_back(all_operations);
  const std::string_view meant = base::nearest(word, candidates);
  const std::string text = fmt::format("unknown operation '{}'", word);
  if (!meant.empty()) throw InvalidArgument(fmt::format("{}; did you mean '{}'?", text, meant));
  throw InvalidArgument(text, {.hint = fmt::format("there are {} and {}", fmt::join(names, ", "), all_operations)});
}

}  // namespace

std::span<const std::string_view> peer_names() { return known_peers; }

bool is_path(std::string_view peer) { return peer.find('/') != std::string_view::npos; }

void sort_words(BenchOptions& options) {
  std::erase(options.peers, "");  // "openmpi, gloo" has a comma at the end of a word
  std::erase(options.sizes, "");
  std::erase(options.report.from, "");
  if (options.sizes.empty()) throw InvalidArgument("--sizes names no size");
  const bool lists_peers = !options.peers.empty();
  std::vector<std::string> operations, sizes;
  for (const std::string& word : options.operations) {
    if (word == all_operations || bench::parse_operation(word)) operations.push_back(word);
    else if (!options.report.from.empty() && word.ends_with(".json")) options.report.from.push_back(word);
    else if (lists_peers && is_peer(word)) options.peers.push_back(word);
    else if (is_peer(word)) throw InvalidArgument(fmt::format("'{}' is not an operation; did you mean '--peers {}'?", word, word));
    else if (!word.empty() && word[0] >= '0' && word[0] <= '9') sizes.push_back(word);
    else refuse_word(word);
  }
  if (!sizes.empty() && options.sizes == BenchOptions().sizes) options.sizes.clear();
  options.sizes.insert(options.sizes.end(), sizes.begin(), sizes.end());
  if (operations.empty() && options.report.from.empty()) operations.emplace_back("all_reduce");
  options.operations = std::move(operations);
}

}  // namespace unisono::tools
