#include "coordination/failure_detector.h"

#include <algorithm>

#include <fmt/format.h>

#include "coordination/failure_state.h"

namespace unisono::coordination {

std::chrono::milliseconds patience_of_call(std::chrono::nanoseconds elapsed, std::chrono::milliseconds timeout) {
  const std::chrono::milliseconds limit = detail::silence_limit();
  if (elapsed < 3 * timeout / 4) return limit;
  return std::min(limit, std::max(timeout / 2, limit / 10));  // a few heartbeats may be late
}

std::optional<Failure> FailureDetector::look(std::span<const int> waiting_for, bool any_will_do, std::chrono::milliseconds patience) {
  Peers* const peers = parts_.host.peers.get();
  if (peers != nullptr) {
    if (auto known = recorded_failure(parts_.host.engine->memory()->failure())) return known;
    std::vector<int> locals = locals_of(waiting_for);
    if (any_will_do && locals.size() < waiting_for.size()) locals.clear();  // one of another host is enough
    if (auto failure = is_agreed() ? peers->look_at_all(patience) : peers->look(locals, patience)) return failure;
  }
  if (!parts_.is_one_host()) {
    parts_.link->poll();
    if (auto failure = lost_peers()) return failure;
    if (auto failure = silent_peer(waiting_for, patience)) return failure;
  }
  if (is_agreed()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto left = [&](int r) {
    if (topology_.here(r)) return peers != nullptr && peers->has_left(topology_.local_of(r));
    return left_.contains(r) || parts_.link->has_left(parts_.global(r));
  };
  const bool is_hopeless = any_will_do ? !waiting_for.empty() && std::ranges::all_of(waiting_for, left) : std::ranges::any_of(waiting_for, left);
  if (!is_hopeless) return std::nullopt;
  return failure_of_left(*std::ranges::find_if(waiting_for, left));
}

/// Returns those of the ranks that are on this host, by their numbers there.
std::vector<int> FailureDetector::locals_of(std::span<const int> ranks) const {
  std::vector<int> locals;
  for (const int r : ranks) {
    if (topology_.here(r)) locals.push_back(topology_.local_of(r));
  }
  return locals;
}

/// Returns the failure of a rank that has left, for a rank that waits for it. None while the end of its process may still tell more.
std::optional<Failure> FailureDetector::failure_of_left(int rank) {
  if (topology_.here(rank) && parts_.host.peers) return parts_.host.peers->failure_of_left_rank(topology_.local_of(rank));
  const auto said = left_.find(rank);
  const Left left = said == left_.end() ? Left{} : said->second;
  if (may_be_an_end(left.how)) {
    if (const auto ending = parts_.recorded.of(rank, {})) return failure_of_ending(rank, parts_.name(rank), *ending);
    if (base::Clock::now() - left.at < time_to_end(left.how)) return std::nullopt;
  }
  return failure_of_leaving(rank, parts_.name(rank), left.how);
}

/// The link loses a peer that has been silent for silence_limit(); a call may know sooner. An engine does not say whom an agreed call waits for.
std::optional<Failure> FailureDetector::silent_peer(std::span<const int> waiting_for, std::chrono::milliseconds patience) const {
  if (patience >= detail::silence_limit()) return std::nullopt;
  const auto look = [&](int r) -> std::optional<Failure> {
    if (topology_.here(r) || has_left(r)) return std::nullopt;
    const std::chrono::milliseconds silence = parts_.link->silence_of(parts_.global(r));
    if (silence < patience) return std::nullopt;
    return Failure{.cause = PeerFailed::Cause::silent,
                   .culprit = r,
                   .message = fmt::format("nothing has come from rank {} ({}) for {:.1f} s", r, parts_.link->address_of(parts_.global(r)),
                                          std::chrono::duration<double>(silence).count())};
  };
  if (!is_agreed()) {
    for (const int r : waiting_for) {
      if (auto failure = look(r)) return failure;
    }
    return std::nullopt;
  }
  for (int r = 0; r < topology_.size(); ++r) {
    if (auto failure = look(r)) return failure;
  }
  return std::nullopt;
}

bool FailureDetector::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

std::optional<Failure> FailureDetector::lost_peers() const {
  const auto loss = parts_.link->lost();
  if (!loss) return std::nullopt;
  const auto member = std::ranges::find(parts_.global_ranks, loss->peer);
  if (member != parts_.global_ranks.end()) {  // the loss that was noticed first
    if (auto failure = lost_peer(static_cast<int>(member - parts_.global_ranks.begin()))) return failure;
  }
  for (int r = 0; r < topology_.size(); ++r) {
    if (auto failure = lost_peer(r)) return failure;
  }
  return std::nullopt;
}

/// Returns the failure of a rank whose connection is gone and that had not left before.
std::optional<Failure> FailureDetector::lost_peer(int rank) const {
  if (has_left(rank)) return std::nullopt;
  // A link may be connected with ranks of this host to watch them. Their processes say better how they ended.
  if (topology_.here(rank) && parts_.link->address_of(parts_.global(rank)).empty()) return std::nullopt;
  const auto loss = parts_.link->lost();
  if (loss && loss->peer == parts_.global(rank)) {
    // The link names the rank by its number in the world; the group's number replaces it.
    std::string text = loss->text;
    const std::string named = fmt::format("rank {}", loss->peer);
    if (const auto at = text.find(named); at != std::string::npos) text.replace(at, named.size(), parts_.name(rank));
    return Failure{.cause = loss->cause, .culprit = rank, .message = std::move(text)};
  }
  if (topology_.here(rank) || !parts_.link->is_gone(parts_.global(rank)) || parts_.link->has_left(parts_.global(rank))) return std::nullopt;
  return Failure{.cause = PeerFailed::Cause::disconnected,
                 .culprit = rank,
                 .message = fmt::format("the connection to {} ({}) is gone", parts_.name(rank), parts_.link->address_of(parts_.global(rank)))};
}

std::optional<Failure> FailureDetector::look_at(std::span<const int> ranks) {
  if (parts_.host.peers) {
    if (auto failure = parts_.host.peers->look_at(locals_of(ranks))) return failure;
  }
  if (!parts_.link) return std::nullopt;
  parts_.link->poll();
  for (const int r : ranks) {
    if (r == topology_.rank) continue;
    if (auto failure = lost_peer(r)) return failure;
  }
  return std::nullopt;
}

std::optional<pid_t> FailureDetector::process_of(int rank) const {
  if (!parts_.host.peers || !topology_.here(rank)) return std::nullopt;
  return parts_.host.peers->process_of(topology_.local_of(rank));
}

void FailureDetector::take_leaving(int rank, std::uint64_t agreements, Leaving how) {
  if (topology_.here(rank)) return;  // its process is watched
  const std::lock_guard lock(mutex_);
  left_.emplace(rank, Left{.agreements = agreements, .how = how});
}

bool FailureDetector::has_left_after(int rank, std::uint64_t agreement) const {
  const std::lock_guard lock(mutex_);
  const auto left = left_.find(rank);
  return left != left_.end() && left->second.agreements >= agreement;
}

std::vector<int> FailureDetector::gone() {
  std::set<int> ranks;
  if (parts_.host.peers) {
    for (const int r : parts_.host.peers->gone()) ranks.insert(topology_.members[static_cast<std::size_t>(r)]);
  }
  for (int r = 0; r < topology_.size(); ++r) {
    if (!topology_.here(r) && parts_.link->is_gone(parts_.global(r))) ranks.insert(r);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [r, left] : left_) ranks.insert(r);
  return {ranks.begin(), ranks.end()};
}

}  // namespace unisono::coordination
