#include "group/messages/message_circle.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/printable.h"
#include "group/group_errors.h"
#include "recorder/reader.h"
#include "recorder/whereabouts.h"

namespace unisono::group {
namespace {

using recorder::MessageWait;
using Chain = std::vector<MessageWait>;

constexpr std::size_t longest_call = 300;
constexpr std::size_t longest_on_one_host = 1024;

/// Per wait: rank, rank waited for, whether it sends, and the call, which is empty for waits that no text tells.
std::string encode(const Chain& chain) {
  base::ByteWriter bytes;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::string_view call = i < recorder::most_told_of_circle ? std::string_view(chain[i].call).substr(0, longest_call) : std::string_view();
    bytes.put(chain[i].rank).put(chain[i].waited_for).put(static_cast<std::uint8_t>(chain[i].sends)).text(call);
  }
  return bytes.take();
}

/// Returns an empty chain where the bytes are none.
Chain decode(std::string_view bytes) {
  base::ByteReader reader(bytes);
  Chain chain;
  while (reader.ok() && !reader.complete()) {
    MessageWait wait{.rank = reader.get<int>(), .waited_for = reader.get<int>(), .sends = reader.get<std::uint8_t>() != 0};
    wait.call = base::printable(reader.text());
    chain.push_back(std::move(wait));
  }
  return reader.ok() && chain.size() <= coordination::most_ranks_that_tell ? chain : Chain();
}

/// Returns the rank in the group; nothing where it is no member.
std::optional<int> member_of(const GroupErrors& group, int world_rank) {
  const auto& world = group.facts().global_ranks();
  const auto found = std::ranges::find(world, world_rank);
  return found == world.end() ? std::nullopt : std::optional(static_cast<int>(found - world.begin()));
}

/// The waits of this host's ranks, each read once. An object lives for one look.
using Waits = std::map<int, std::optional<MessageWait>>;

std::optional<MessageWait> read_wait(const GroupErrors& group, int member) {
  const auto process = group.coordination().detector().process_of(member);
  const auto reader = member == group.facts().rank() ? std::make_unique<recorder::RecordReader>(group.recorder().memory())
                      : process                      ? recorder::find_record(*process)
                                                     : nullptr;
  if (!reader) return std::nullopt;
  auto wait = recorder::message_wait_of(group.facts().in_world(member), reader->read());
  if (wait) wait->waited_for = group.facts().from_record(wait->waited_for);
  return wait;
}

/// Returns the wait of a member that is on this host.
const std::optional<MessageWait>& wait_of(const GroupErrors& group, int member, Waits& waits) {
  const auto [found, is_new] = waits.try_emplace(member);
  if (is_new) found->second = read_wait(group, member);
  return found->second;
}

bool is_same(const MessageWait& left, const MessageWait& right) {
  return left.rank == right.rank && left.waited_for == right.waited_for && left.call.substr(0, longest_call) == right.call.substr(0, longest_call);
}

enum class End { none, circle, elsewhere };

/// Adds the waits of the ranks of this host to the chain. Says where it ends: with a rank that waits for no message, with the rank it began with, or
/// at a rank of another host.
End follow(const GroupErrors& group, Chain& chain, Waits& waits) {
  for (;;) {
    const int next = chain.back().waited_for;
    if (next == chain.front().rank) return chain.size() < 2 ? End::none : End::circle;
    const auto member = member_of(group, next);
    if (!member || chain.size() == longest_on_one_host || std::ranges::find(chain, next, &MessageWait::rank) != chain.end()) return End::none;
    if (!group.coordination().topology().here(*member)) return End::elsewhere;
    const auto& wait = wait_of(group, *member, waits);
    if (!wait) return End::none;
    chain.push_back(*wait);
  }
}

/// Follows the chain, and sends it on if it leads to another host: to the rank it began with, if that is on the host to which it leads. A chain that
/// began with a rank outside this group ends here.
void pass_on(GroupErrors& group, Chain chain, Waits& waits) {
  coordination::Coordination& coordination = group.coordination();
  const auto& topology = coordination.topology();
  const End end = follow(group, chain, waits);
  if (end == End::none) return;
  const auto first = member_of(group, chain.front().rank), next = member_of(group, chain.back().waited_for);
  if (end == End::circle && first == group.facts().rank()) return coordination.whereabouts()->chains().keep_circle(encode(chain));
  if (!next) return;
  const int to = first && topology.host_of(*first) == topology.host_of(*next) ? *first : *next;
  if (topology.here(to)) return;
  coordination.notices().tell(to, coordination::Notices::of_kind(coordination::NoticeKind::wait_chain).raw(encode(chain)).take());
}

}  // namespace

void follow_waits(GroupErrors& group, std::chrono::nanoseconds elapsed, std::chrono::nanoseconds timeout) {
  coordination::Coordination& coordination = group.coordination();
  if (coordination.is_one_host() || group.facts().size() > coordination::most_ranks_that_tell) return;
  coordination::WaitChains& chains = coordination.whereabouts()->chains();
  const bool is_due = chains.is_due(elapsed, timeout);
  const auto come = chains.fetch();
  if (!is_due && come.empty()) return;
  Waits waits;
  const std::optional<MessageWait> own = wait_of(group, group.facts().rank(), waits);
  if (!own) return;
  if (is_due) pass_on(group, {*own}, waits);
  for (const std::string& bytes : come) {
    Chain chain = decode(bytes);
    if (chain.empty() || (chain.front().rank == own->rank && !is_same(chain.front(), *own))) continue;
    pass_on(group, std::move(chain), waits);
  }
}

std::string circle_of(GroupErrors& group) {
  Waits waits;
  const std::optional<MessageWait> own = wait_of(group, group.facts().rank(), waits);
  if (!own) return {};
  Chain chain{*own};
  if (follow(group, chain, waits) == End::circle) return recorder::circle_text(chain);
  if (group.coordination().is_one_host()) return {};
  chain = decode(group.coordination().whereabouts()->chains().circle());
  return !chain.empty() && is_same(chain.front(), *own) ? recorder::circle_text(chain) : std::string();
}

}  // namespace unisono::group
