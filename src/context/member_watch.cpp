#include "context/member_watch.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error_text.h"
#include "store/requests.h"
#include "unisono/error.h"

namespace unisono::context {
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

void MemberWatch::look_at_members() const {
  const auto rank_of = [&](int in_world) {
    const auto found = std::ranges::find(parts_.members, in_world);
    return found == parts_.members.end() ? -1 : static_cast<int>(found - parts_.members.begin());
  };
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
    const auto found = std::ranges::find(parts_.members, in_world);
    const int rank = static_cast<int>(found - parts_.members.begin());
    // A member that has come may be done with the group already.
    if (found == parts_.members.end() || rank == parts_.rank || has_come(rank)) continue;
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
      // The store may have ended with a rank that is no member.
      const auto other = base::is_a<PeerFailed>(error) ? parts_.world.look_at(all) : std::nullopt;
      if (other) {
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
