// The refusals of a job at a multicast address: ranks that contradict each other, and ranks that do not come.

#include <poll.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/socket.h"
#include "rendezvous/error_info.h"
#include "rendezvous/multicast_discovery.h"
#include "rendezvous/record.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Deadline;

// A process that refuses the job says so for this time, and this often.
constexpr auto farewell_time = std::chrono::milliseconds(500);
constexpr int farewell_period_ms = 20;
constexpr std::size_t enough_of_presence = 400;  // bytes of a text about the processes that are present

std::string describe(const Announcement& said) {
  return said.member.rank < 0 ? where(said.member) : fmt::format("rank {} at {}", said.member.rank, where(said.member));
}

}  // namespace

void MulticastDiscovery::look_for_quarrels() {
  const auto all = everybody();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i]->world_size != all[j]->world_size) quarrel(Announcement::Refusal::Kind::mismatch, *all[j], *all[i]);
      else if (all[i]->member.rank >= 0 && all[i]->member.rank == all[j]->member.rank)
        quarrel(Announcement::Refusal::Kind::duplicate, *all[j], *all[i]);
    }
  }
}

/// Reports a conflict only between two processes that both live: the last datagram of one that has ended may still arrive.
void MulticastDiscovery::quarrel(Announcement::Refusal::Kind kind, const Announcement& first, const Announcement& second) {
  const auto times = [&](const std::string& nonce) {
    const auto* const found = others_.find(nonce);
    return found == nullptr ? 0 : found->times;
  };
  const auto alive = [&](const std::string& nonce, int before) { return nonce == self_.nonce || times(nonce) > before; };
  const auto [seen, fresh] = quarrels_.try_emplace({first.nonce, second.nonce}, Quarrel{times(first.nonce), times(second.nonce)});
  if (fresh || !alive(first.nonce, seen->second.first) || !alive(second.nonce, seen->second.second)) return;
  Announcement::Refusal refusal{.kind = kind, .text = {}};
  if (kind == Announcement::Refusal::Kind::duplicate) {
    refusal.text = fmt::format("rank {} is claimed by {} and by {}", first.member.rank, where(first.member), where(second.member));
  } else {
    refusal.text = fmt::format("{} says {}, {} says {}", describe(first), first.world_size, describe(second), second.world_size);
  }
  // The other processes are told, also those that come a moment later and would wait until their time is over.
  self_.refusal = refusal;
  for (const Deadline lingering(farewell_time); !lingering.passed();) {
    announce();
    ::poll(nullptr, 0, lingering.poll_timeout(farewell_period_ms));
    listen();  // the next announcement repeats the nonces of new processes, which believe it then
  }
  refuse(refusal);
}

void MulticastDiscovery::refuse(const Announcement::Refusal& refusal) const {
  if (refusal.kind == Announcement::Refusal::Kind::duplicate)
    throw InvalidArgument(
        refusal.text, info("every process needs a rank of its own: was one started twice? If a job of this name has failed just now, start again"));
  throw Mismatch("the ranks disagree about the world size: " + refusal.text,
                 info("world_size must be the same on every rank. If a job of this name has failed just now, start again"));
}

void MulticastDiscovery::give_up(const Deadline& deadline) const {
  const auto by_rank = chosen();
  std::vector<int> missing;
  std::string here;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r] == nullptr) missing.push_back(static_cast<int>(r));
    else if (here.size() < enough_of_presence) here += fmt::format("{}{}", here.empty() ? "" : ", ", describe(*by_rank[r]));
  }
  std::string text = fmt::format("{} of {} processes came to {} (group name \"{}\", interface {}) within {} ms", by_rank.size() - missing.size(),
                                 by_rank.size(), place_, request_.group_name, socket_.interface(), deadline.timeout().count());
  text += missing.empty() ? fmt::format(", and did not agree (here: {})", here) : fmt::format("; missing ranks {} (here: {})", list(missing), here);
  if (others_.of_other_jobs() > 0)
    text += fmt::format("; {} others are of a job of that name that is complete without this process", others_.of_other_jobs());
  if (forged_ > 0) text += fmt::format("; {} datagrams were ignored because they are not of this job's token", forged_);
  if (other_versions_ > 0) text += fmt::format("; {} were of another version of unisono", other_versions_);
  text += others_.describe_unproven();
  if (nothing_ > 0) text += fmt::format("; {} were no announcements", nothing_);
  if (send_error_ != 0) text += fmt::format("; sending failed: {}", base::error_text(send_error_));
  throw Timeout(text,
                info("were all of them started, with the same UNISONO_TOKEN, and is it the same network? UNISONO_INTERFACE names the interface"),
                std::move(missing));
}

}  // namespace unisono::rendezvous
