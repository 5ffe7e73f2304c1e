#include "context/formation.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error_text.h"
#include "base/log.h"
#include "store/requests.h"
#include "store/wrappers.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_tell = 2s, time_to_read = 1s;
constexpr std::string_view failed_key = "failed";

/// Encodes why a rank gives up, as three fields separated by tabs: the rank, the kind (with the ranks missed by a Timeout, or the cause of a loss),
/// and the message.
std::string encode(int rank, const std::exception_ptr& reason) {
  try {
    std::rethrow_exception(reason);
  } catch (const Timeout& timeout) {
    return fmt::format("{}\ttimeout {}\t{}", rank, fmt::join(timeout.missing(), " "), timeout.message());
  } catch (const PeerFailed& failed) {
    if (failed.culprit()) return fmt::format("{}\tlost {}\t{}", *failed.culprit(), static_cast<int>(failed.cause()), failed.message());
    return fmt::format("{}\tfailed\t{}", rank, failed.message());
  } catch (...) {
    return fmt::format("{}\tfailed\t{}", rank, base::message_of(reason));
  }
}

std::vector<int> numbers_behind(const std::string& word) {
  std::vector<int> numbers;
  for (auto at = word.find(' '); at != std::string::npos && at + 1 < word.size(); at = word.find(' ', at + 1)) {
    numbers.push_back(std::atoi(word.c_str() + at + 1));
  }
  return numbers;
}

std::string host_of(int rank, const Formation::Parts& parts) {
  return rank >= 0 && static_cast<std::size_t>(rank) < parts.hosts.size() ? parts.hosts[static_cast<std::size_t>(rank)] : std::string();
}

[[noreturn]] void throw_said(std::string_view text, const Formation::Parts& parts) {
  const auto next = [&] {
    const auto end = std::min(text.find('\t'), text.size());
    const std::string field(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return field;
  };
  const int culprit = std::atoi(next().c_str());
  const std::string kind = next();
  ErrorInfo info{.operation = parts.operation, .group = parts.group, .rank = parts.rank, .culprit = culprit, .host = host_of(culprit, parts)};
  const std::vector<int> numbers = numbers_behind(kind);
  if (kind.starts_with("timeout")) {
    info.culprit.reset();
    info.host.clear();
    throw Timeout(fmt::format("rank {} gave up: {}", culprit, text), std::move(info), numbers);
  }
  if (kind.starts_with("lost") && !numbers.empty()) throw PeerFailed(text, std::move(info), static_cast<PeerFailed::Cause>(numbers.front()));
  const std::string_view how = parts.group.empty() ? "cannot join" : "cannot form the group";
  throw PeerFailed(fmt::format("rank {} {}: {}", culprit, how, text), std::move(info), PeerFailed::Cause::aborted);
}

}  // namespace

Formation::Formation(Parts parts) : parts_(std::move(parts)) { watched_ = watch(parts_.store); }

std::shared_ptr<Store> Formation::watch(std::shared_ptr<Store> other) const {
  return std::make_shared<store::WatchedStore>(std::move(other), [forming = forming_] {
    if (const Formation* formation = forming->load()) formation->look();
  });
}

Formation::~Formation() { forming_->store(nullptr); }

void Formation::look() const {
  if (parts_.size == 1) return;
  if (const auto text = parts_.store->try_get(failed_key)) throw_said(*text, parts_);
  try {
    parts_.look();
  } catch (const PeerFailed&) {
    // A member that fails writes its reason before it ends the world, so the reason may have come between the two looks.
    std::optional<std::string> text;
    try {
      text = parts_.store->try_get(failed_key);
    } catch (const std::exception& error) {  // the store is gone as well
      base::log(base::LogLevel::debug, error.what());
    }
    if (text) throw_said(*text, parts_);
    throw;
  }
}

std::exception_ptr Formation::explain(std::exception_ptr reason) const {
  try {
    std::rethrow_exception(reason);
  } catch (const PeerFailed& failed) {
    ErrorInfo info = failed.info();
    if (!info.operation.empty()) return reason;
    info.operation = parts_.operation;
    info.group = parts_.group;
    info.rank = parts_.rank;
    if (info.culprit) info.host = host_of(*info.culprit, parts_);
    return std::make_exception_ptr(PeerFailed(failed.message(), std::move(info), failed.cause()));
  } catch (...) {
    return reason;
  }
}

void Formation::give_up(const std::exception_ptr& reason) noexcept {
  if (parts_.size == 1) return;
  const store::RequestLimit limit(time_to_tell);  // the reason may be that the store does not answer
  try {
    parts_.store->compare_set(failed_key, "", encode(parts_.rank, reason));
    if (!parts_.serves_store) return parts_.store->set("read/" + std::to_string(parts_.rank), "1");
    std::vector<std::string> keys;
    for (int r = 0; r < parts_.size; ++r) {
      if (r != parts_.rank) keys.push_back("read/" + std::to_string(r));
    }
    parts_.store->wait(keys, time_to_read);
  } catch (const std::exception& error) {  // the others are gone or no longer listen
    base::log(base::LogLevel::debug, error.what());
  }
}

namespace {

constexpr std::string_view decision_key = "decision", ready_key = "ready", formed = "formed", given_up = "given up";

}  // namespace

void commit(Formation& formation, int size, const base::Deadline& deadline,
            const std::function<std::exception_ptr(const std::exception_ptr&)>& explain) {
  Store& store = *formation.store();
  std::string decision;
  try {
    if (store.add(ready_key, 1) == size) store.compare_set(decision_key, "", formed);
    decision = formation.watched()->get(decision_key, deadline.left());
  } catch (...) {
    const std::exception_ptr error = explain(std::current_exception());
    formation.give_up(error);  // first, so that the reason is there when the others read the decision
    // The decision may have been made meanwhile. Then all have the group, and its next call meets the failure.
    if (store.compare_set(decision_key, "", given_up) == formed) return;
    std::rethrow_exception(error);
  }
  if (decision == formed) return;
  static_cast<void>(formation.watched()->try_get(decision_key));  // which throws the reason that the other one has given
  throw PeerFailed("another member could not form the group");
}

namespace {

using namespace std::chrono_literals;

constexpr auto time_to_see_a_death = std::chrono::milliseconds(500);
constexpr auto look_period = std::chrono::milliseconds(20);

store::Assembly assembly_of(Store& store, std::size_t members) { return {store, "here", static_cast<int>(members)}; }

/// Tells whether the error may be how another process sees a death.
bool may_come_of_a_death(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailed& failed) {
    return !failed.culprit();
  } catch (const InvalidArgument&) {
    return false;
  } catch (const Timeout&) {
    return false;
  } catch (...) {
    return true;
  }
}

}  // namespace

WorldView view_of(const std::shared_ptr<coordination::Coordination>& world) {
  return {.failure = [world] { return world->failure(); },
          .look_at = [world](std::span<const int> ranks) { return world->detector().look_at(ranks); },
          .gone = [world] { return world->detector().gone(); }};
}

MemberWatch::MemberWatch(Parts parts) : parts_(std::move(parts)), was_sound_(!parts_.world.failure()) {}

bool MemberWatch::has_come(int rank) const noexcept {
  try {
    return assembly_of(*parts_.store, parts_.members.size()).has_come(rank);
  } catch (const std::exception&) {  // the store is gone, so nothing is known
    return false;
  }
}

void MemberWatch::throw_failure(int rank, const Failure& failure) const {
  // The message calls the rank by its number in the group instead of the world.
  std::string text = failure.message;
  const std::string in_world = fmt::format("rank {}", parts_.members[static_cast<std::size_t>(rank)]);
  if (text.starts_with(in_world + " ")) text.replace(0, in_world.size(), fmt::format("rank {}", rank));
  throw PeerFailed(text,
                   {.operation = parts_.operation,
                    .group = parts_.group,
                    .rank = parts_.rank,
                    .culprit = rank,
                    .host = parts_.hosts[static_cast<std::size_t>(rank)]},
                   failure.cause);
}

int MemberWatch::rank_of(int in_world) const {
  const auto found = std::ranges::find(parts_.members, in_world);
  return found == parts_.members.end() ? -1 : static_cast<int>(found - parts_.members.begin());
}

void MemberWatch::look_at_members() const {
  if (const auto failure = parts_.world.look_at(parts_.members)) throw_failure(rank_of(failure->culprit), *failure);
  // A member that gave the world up since this object was made will not come. An earlier failure of the world says nothing about this group.
  const auto of_world = was_sound_ ? parts_.world.failure() : std::nullopt;
  if (of_world && of_world->kind == Failure::Kind::peer_failed && rank_of(of_world->culprit) >= 0) {
    throw_failure(rank_of(of_world->culprit), *of_world);
  }
}

void MemberWatch::look() const {
  look_at_members();
  for (const int in_world : parts_.world.gone()) {
    const int rank = rank_of(in_world);
    // A member that has come may be done with the group already.
    if (rank < 0 || rank == parts_.rank || has_come(rank)) continue;
    if (const auto failure = parts_.world.failure(); failure && failure->culprit == in_world) throw_failure(rank, *failure);
    throw_failure(rank, {.kind = Failure::Kind::peer_failed,
                         .cause = PeerFailed::Cause::disconnected,
                         .culprit = in_world,
                         .missing = {},
                         .message = fmt::format("rank {} has left the job (finalize) and will not come", rank)});
  }
}

void MemberWatch::assemble(Store& store, const base::Deadline& deadline) const {
  try {
    assembly_of(store, parts_.members.size()).come(parts_.rank, deadline.left());
  } catch (const Timeout& late) {
    throw Timeout(late.message(), {.operation = parts_.operation, .group = parts_.group, .rank = parts_.rank}, late.missing());
  }
}

std::exception_ptr MemberWatch::explain(const std::exception_ptr& error) const {
  if (!may_come_of_a_death(error)) return error;
  std::vector<int> all(static_cast<std::size_t>(parts_.world_size));
  std::iota(all.begin(), all.end(), 0);
  try {
    for (const base::Deadline deadline(time_to_see_a_death); !deadline.passed();) {
      look_at_members();
      // The store may have ended with a rank that is no member, or with a member since the look at these.
      const auto other = base::is_a<PeerFailed>(error) ? parts_.world.look_at(all) : std::nullopt;
      if (other) {
        if (const int member = rank_of(other->culprit); member >= 0) throw_failure(member, *other);
        throw PeerFailed(fmt::format("{} (rank {} of the world), and the job's store with it", other->message, other->culprit),
                         {.operation = parts_.operation, .group = parts_.group, .rank = parts_.rank}, other->cause);
      }
      ::poll(nullptr, 0, static_cast<int>(look_period.count()));  // no event tells of a death, so the loop looks again after a pause
    }
  } catch (const PeerFailed&) {
    return std::current_exception();
  }
  return error;
}

}  // namespace unisono::context
