// What becomes of a group: failures that are looked for, those that other hosts tell of, and the end.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/spanning/spanning.h"

namespace unisono::backends {
namespace {

constexpr std::size_t longest_message = 1024;  // of what other hosts are told
constexpr auto longest_goodbye = std::chrono::milliseconds(5000);

// A failure as a notice: "f", kind, cause, culprit, missing ranks, message.
std::string encode(const Failure& failure) {
  return fmt::format("f{} {} {} {} {} {}", static_cast<int>(failure.kind), static_cast<int>(failure.cause), failure.culprit, failure.missing.size(),
                     fmt::join(failure.missing, " "), std::string_view(failure.message).substr(0, longest_message));
}
Failure decode_failure(std::string_view text) {
  text.remove_prefix(1);
  const auto next = [&] {
    const auto end = std::min(text.find(' '), text.size());
    const int value = std::atoi(std::string(text.substr(0, end)).c_str());
    text.remove_prefix(std::min(end + 1, text.size()));
    return value;
  };
  Failure failure;
  failure.kind = next() == 0 ? Failure::Kind::timeout : Failure::Kind::peer_failed;
  failure.cause = static_cast<PeerFailed::Cause>(next());
  failure.culprit = next();
  const int missing = next();
  if (missing == 0) text.remove_prefix(std::min<std::size_t>(1, text.size()));  // the space behind nothing
  for (int i = 0; i < missing && !text.empty(); ++i) failure.missing.push_back(next());
  failure.message = text;
  return failure;
}

}  // namespace

void Spanning::poison(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  if (parts_.host) parts_.host->poison(failure);
  if (aborted_.exchange(true)) return;
  const Failure first = this->failure().value_or(failure);
  engine_->abort(first);
  if (rail_) rail_->abort(first);
  if (!one_host()) {
    tell_all(encode(first));
    parts_.link->end(~group_id_);
  }
  bell()->ring();
}

std::optional<Failure> Spanning::failure() {
  if (parts_.host) {
    if (auto known = parts_.host->failure()) return known;
  }
  if (failed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  return is_announced_.load(std::memory_order_acquire) ? announced() : std::nullopt;
}

// What other ranks did before one of them gave up still counts, and comes by other connections than the news.
std::optional<Failure> Spanning::announced() {
  constexpr auto time_to_arrive = std::chrono::milliseconds(20);
  const std::lock_guard lock(mutex_);
  if (ground::Clock::now() - announced_at_ < time_to_arrive) return std::nullopt;
  return announced_;
}

std::optional<Failure> Spanning::look_for_failures(std::span<const int> waiting_for, bool any_will_do) {
  if (auto known = failure()) return known;
  auto found = look_for_peers(waiting_for, any_will_do);
  if (!found || !is_announced_.load(std::memory_order_acquire)) return found;
  // That a rank has gone follows from what another has told already.
  const std::lock_guard lock(mutex_);
  return announced_;
}

std::optional<Failure> Spanning::look_for_peers(std::span<const int> waiting_for, bool any_will_do) {
  // Once all have agreed on a call, who is done with it may leave.
  const bool may_leave = agreed_.load(std::memory_order_acquire);
  std::set<int> gone_here;
  if (parts_.host) {
    std::vector<int> locals;
    bool all_here = true;
    for (const int r : waiting_for) {
      if (place_.here(r)) locals.push_back(place_.local_of(r));
      else all_here = false;
    }
    // Where anybody would do, those who have left here matter only if nobody elsewhere is left.
    if (any_will_do && !all_here) {
      locals.clear();
      for (const int r : parts_.host->gone()) gone_here.insert(place_.members[static_cast<std::size_t>(r)]);
    }
    if (auto failure = may_leave ? parts_.host->look_at_all() : parts_.host->look_for_failures(locals, any_will_do)) return failure;
  }
  if (one_host()) return std::nullopt;
  poll();
  if (auto failure = lost_peers()) return failure;
  if (may_leave) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto left = [&](int r) {
    return gone_here.contains(r) || left_.contains(r) ||
           (!place_.here(r) && parts_.link->has_left(parts_.options.global_ranks[static_cast<std::size_t>(r)]));
  };
  const bool hopeless = any_will_do ? !waiting_for.empty() && std::all_of(waiting_for.begin(), waiting_for.end(), left)
                                    : std::any_of(waiting_for.begin(), waiting_for.end(), left);
  if (!hopeless) return std::nullopt;
  const int r = *std::find_if(waiting_for.begin(), waiting_for.end(), left);
  return Failure{.kind = Failure::Kind::peer_failed,
                 .cause = PeerFailed::Cause::disconnected,
                 .culprit = r,
                 .missing = {},
                 .message = fmt::format("rank {} has left the group (finalize) and will not come", r)};
}

bool Spanning::has_left(int rank) {
  const std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

std::optional<Failure> Spanning::lost_peers() {
  const auto loss = parts_.link->lost();
  if (!loss) return std::nullopt;
  if (const auto member = rank_of_global_.find(loss->peer); member != rank_of_global_.end()) {
    if (auto failure = lost_peer(member->second)) return failure;  // what was noticed first
  }
  for (const auto& [global, rank] : rank_of_global_) {
    if (auto failure = lost_peer(rank)) return failure;
  }
  return std::nullopt;
}

/// The failure of a rank whose connection is gone and that had not left before.
std::optional<Failure> Spanning::lost_peer(int rank) {
  const int global = parts_.options.global_ranks[static_cast<std::size_t>(rank)];
  if (has_left(rank)) return std::nullopt;
  const auto loss = parts_.link->lost();
  if (loss && loss->peer == global) {
    // As the group calls it, not the world.
    std::string text = loss->text;
    const std::string named = fmt::format("rank {}", global);
    if (const auto at = text.find(named); at != std::string::npos) text.replace(at, named.size(), fmt::format("rank {}", rank));
    return Failure{.kind = Failure::Kind::peer_failed, .cause = loss->cause, .culprit = rank, .missing = {}, .message = std::move(text)};
  }
  if (place_.here(rank) || !parts_.link->is_gone(global) || parts_.link->has_left(global)) return std::nullopt;
  return Failure{.kind = Failure::Kind::peer_failed,
                 .cause = PeerFailed::Cause::disconnected,
                 .culprit = rank,
                 .missing = {},
                 .message = fmt::format("the connection to rank {} ({}) is gone", rank, parts_.link->address_of(global))};
}

std::optional<Failure> Spanning::look_at(std::span<const int> ranks) {
  if (parts_.host) {
    std::vector<int> locals;
    for (const int r : ranks) {
      if (place_.here(r)) locals.push_back(place_.local_of(r));
    }
    if (auto failure = parts_.host->look_at(locals)) return failure;
  }
  if (!parts_.link) return std::nullopt;
  poll();
  for (const int r : ranks) {
    if (r == place_.rank) continue;
    if (auto failure = lost_peer(r)) return failure;
  }
  return std::nullopt;
}

std::vector<int> Spanning::gone() {
  std::set<int> ranks;
  if (parts_.host) {
    for (const int r : parts_.host->gone()) ranks.insert(place_.members[static_cast<std::size_t>(r)]);
  }
  for (int r = 0; r < place_.size(); ++r) {
    if (!place_.here(r) && parts_.link->is_gone(parts_.options.global_ranks[static_cast<std::size_t>(r)])) ranks.insert(r);
  }
  const std::lock_guard lock(mutex_);
  ranks.insert(left_.begin(), left_.end());
  return {ranks.begin(), ranks.end()};
}

std::unique_ptr<Task> Spanning::blame(const std::exception_ptr& error) {
  return std::make_unique<Blame>(error, std::string(engine_->name()), [this] { return look_for_failures({}, false); });
}

void Spanning::leave() {
  if (parts_.host) parts_.host->leave();
  if (!one_host()) tell_all("l");
  if (!failure()) engine_->leave();
  if (rail_ && !failure()) rail_->leave();
  if (parts_.owns_link) parts_.link->goodbye(longest_goodbye);
}

void Spanning::tell(int rank, std::string text) { parts_.link->notify(parts_.options.global_ranks[static_cast<std::size_t>(rank)], group_id_, text); }
void Spanning::tell_all(const std::string& text) {
  for (int r = 0; r < place_.size(); ++r) {
    if (!place_.here(r)) tell(r, text);
  }
}

void Spanning::take_notice(int peer_of_world, std::string_view text) {
  const auto member = rank_of_global_.find(peer_of_world);
  if (member == rank_of_global_.end() || text.empty()) return;
  const int rank = member->second;
  switch (text.front()) {
    case 'm': messages_->take(rank, text); break;
    case 'l': {
      const std::lock_guard lock(mutex_);
      left_.insert(rank);
      break;
    }
    case 'f': {
      const std::lock_guard lock(mutex_);
      if (!announced_) {
        announced_ = decode_failure(text);
        announced_at_ = ground::Clock::now();
        is_announced_.store(true, std::memory_order_release);
      }
      break;
    }
    default: statements_.take(place_.host_of(rank), text); break;
  }
}

void Spanning::poll() {
  if (parts_.link) parts_.link->poll();
}

}  // namespace unisono::backends
