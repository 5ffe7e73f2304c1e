#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/environment.h"
#include "base/log.h"
#include "group/group.h"
#include "store/authentication.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/object_seal.h"
#include "unisono/error.h"

namespace unisono::detail {
namespace {

using Need = group::Seals::Need;

constexpr std::string_view token_hint =
    "give the job a token (UNISONO_TOKEN or UNISONO_TOKEN_FILE, the same random text on every rank); buffers, numbers and broadcast_any need none";

ObjectCode loaded(const store::PayloadCode::Bytes& bytes) {
  ObjectCode code;
  static_assert(sizeof code == sizeof bytes);
  std::memcpy(code.data(), bytes.data(), sizeof code);
  return code;
}

/// Returns the rank in the group; -1 for one that is no member, with which the call will not begin.
int number_of(Rank rank, const ProcessGroup& group) { return rank.is_global() ? group.rank_of(GlobalRank{rank.value()}).value_or(-1) : rank.value(); }

void warn_once(const ProcessGroup& group) {
  static std::atomic<bool> has_warned{false};
  if (has_warned.exchange(true)) return;
  base::warn(fmt::format(
      "objects of group {} travel between hosts without a code, because the job has no token: somebody who can change packets can change them",
      group.name()));
}

}  // namespace

ObjectSeal::ObjectSeal(std::int64_t way, const ProcessGroup& group) : group_(&group), way_(way) {
  const Need need = group.implementation()->seals().need();
  is_needed_ = need == Need::codes;
  if (need == Need::impossible) warn_once(group);
}
ObjectSeal::ObjectSeal(std::string_view label, std::optional<Rank> root, const ProcessGroup& group)
    : ObjectSeal(group::Seals::any_collective, group) {
  if (is_needed_) call_ = fmt::format("{} {}", label, root ? number_of(*root, group) : everyone);
}
ObjectSeal ObjectSeal::of_message(Rank sender, Rank receiver, int tag, const ProcessGroup& group) {
  ObjectSeal seal(tag, group);
  if (seal.is_needed_) seal.call_ = fmt::format("message {} {} {}", number_of(sender, group), number_of(receiver, group), tag);
  return seal;
}

std::uint64_t ObjectSeal::take_number() const { return is_needed_ ? group_->implementation()->seals().next() : 0; }

ObjectCode ObjectSeal::made(int sender, std::uint64_t number, Part part, Pieces pieces, int receiver) const {
  const group::Seals& seals = group_->implementation()->seals();
  store::PayloadCode code(seals.secret().view(), fmt::format("{} {} {} {} {}:{} {}", sender, receiver, number, static_cast<int>(part),
                                                             seals.group().size(), seals.group(), call_));
  for (const auto& piece : pieces) code.add(piece);
  return loaded(code.finish());
}

ObjectCode ObjectSeal::code(std::uint64_t number, Part part, Pieces pieces, int receiver) const {
  return is_needed_ ? made(group_->rank(), number, part, pieces, receiver) : ObjectCode{};
}

void ObjectSeal::check_number(int sender, std::uint64_t number) const {
  if (!is_needed_ || sender == group_->rank() || group_->implementation()->seals().accept(sender, way_, number)) return;
  refuse(sender, "was sent before, and is repeated");
}

void ObjectSeal::check(int sender, std::uint64_t number, Part part, Pieces pieces, const ObjectCode& code, int receiver) const {
  if (!is_needed_ || sender == group_->rank()) return;
  const ObjectCode expected = made(sender, number, part, pieces, receiver);
  // Nothing can be learnt from the time: a wrong code ends the group.
  if (expected != code) refuse(sender, "is not what that rank has sent");
}

void ObjectSeal::append_trailer(std::vector<std::byte>& message, Pieces further) const {
  if (!is_needed_) return;
  const std::uint64_t number = take_number();
  const ObjectCode of_further = further.empty() ? ObjectCode{} : code(number, body, further);
  const auto append = [&](const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  append(number);
  append(of_further);
  append(code(number, head, std::span<const std::byte>(message)));
}

std::pair<std::span<const std::byte>, ObjectCodes> ObjectSeal::checked(int sender, std::span<const std::byte> message) const {
  if (!is_needed_) return {message, {}};
  if (message.size() < trailer_bytes) refuse(sender, "is too short to be what that rank has sent");
  const auto content = message.first(message.size() - trailer_bytes);
  ObjectCodes codes;
  const std::byte* at = content.data() + content.size();
  std::memcpy(&codes.number, at, sizeof codes.number);
  std::memcpy(&codes.body, at + sizeof codes.number, sizeof codes.body);
  std::memcpy(&codes.head, at + sizeof codes.number + sizeof codes.body, sizeof codes.head);
  check(sender, codes.number, head, message.first(message.size() - sizeof codes.head), codes.head);
  check_number(sender, codes.number);
  return {content, codes};
}

void ObjectSeal::refuse(int sender, std::string_view what) const {
  const group::Group& inside = *group_->implementation();
  const std::string label = call_.substr(0, call_.find(' '));
  const auto error = std::make_exception_ptr(
      ProtocolError(fmt::format("the object of rank {} {}: somebody changes the data between the hosts", sender, what),
                    {.operation = label == "message" ? "recv_object" : label,
                     .group = inside.name(),
                     .sequence = inside.facts().sequence(),
                     .rank = inside.rank(),
                     .culprit = sender,
                     .host = inside.facts().host_name(sender),
                     .hint = "nothing of it was decoded, and the group is over; UNISONO_TLS=on keeps the connections from being read and changed"}));
  abandon(*group_, error);
  std::rethrow_exception(error);
}

void check_pickles() {
  const std::string word = base::Environment::process().get("UNISONO_PICKLE").value_or("on");
  if (word == "on") return;
  if (word != "off") throw InvalidArgument(fmt::format("UNISONO_PICKLE is {}; it must be `on` or `off`", word));
  throw InvalidArgument("objects of Python travel by pickle, and UNISONO_PICKLE=off allows none",
                        {.hint = "data travels as buffers, as numbers and by broadcast_any"});
}

std::exception_ptr why_no_pickles(const ProcessGroup& group) {
  try {
    check_pickles();
    if (group.implementation()->seals().need() != Need::impossible) return nullptr;
    throw InvalidArgument("objects of Python travel by pickle, which can run code, and between hosts without a token anybody could send them",
                          {.hint = std::string(token_hint)});
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace unisono::detail
