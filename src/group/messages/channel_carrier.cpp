#include "group/messages/channel_carrier.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/eager.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

using coordination::NoticeKind;
using coordination::Notices;
using engines::AnnouncedMessage;
using engines::Delivery;
using engines::MessageHeader;

/// Bytes of elements that stand in the notice where a channel would go over the same connection, in a frame more.
constexpr std::size_t inline_bytes_on_link = std::size_t{16} << 10;

// Notices never wait, so the sender bounds those that nobody has taken: beyond the room its messages wait here. The receiver reports what it has
// taken once that is worth a notice, so a few messages cost none. Of the room 1 MiB is left where just that much has been taken and not been
// reported.
constexpr std::size_t report_size = std::size_t{256} << 10;
constexpr std::size_t room = (std::size_t{1} << 20) + report_size;
constexpr std::size_t header_cost = 128;  // bytes that a message takes at its receiver beside its elements

std::size_t cost_of(const MessageHeader& header, const Channels& channels) {
  const auto bytes = static_cast<std::size_t>(header.bytes);
  return header_cost + (bytes <= channels.inline_bytes ? bytes : 0);
}

}  // namespace

Channels channels_of(Engine& engine, coordination::Coordination& coordination, bool engine_is_on_link) {
  if (engine.has_channels()) {
    return {
        .send = [&engine](const void* data, std::size_t bytes, int peer,
                          std::uint32_t channel) { return engine.start_send(data, bytes, peer, channel); },
        .recv = [&engine](void* data, std::size_t bytes, int peer, std::uint32_t channel) { return engine.start_recv(data, bytes, peer, channel); },
        .discard = [&engine](std::size_t bytes, int peer, std::uint32_t channel) { return engine.start_discard(bytes, peer, channel); },
        .largest = engine.largest_channel(),
        .inline_bytes = engine_is_on_link ? inline_bytes_on_link : Channels().inline_bytes};
  }
  // The number keeps them apart from the channels that a tcp engine of the same group would use.
  const std::uint64_t group = ~coordination.group_id();
  const auto global = [&coordination](int r) { return coordination.global_ranks()[static_cast<std::size_t>(r)]; };
  transport::Link& link = *coordination.link();
  return {.send =
              [&link, global, group](const void* data, std::size_t bytes, int peer, std::uint32_t channel) {
                return link.send(data, bytes, global(peer), {group, channel});
              },
          .recv =
              [&link, global, group](void* data, std::size_t bytes, int peer, std::uint32_t channel) {
                return link.recv(data, bytes, global(peer), {group, channel});
              },
          .discard =
              [&link, global, group](std::size_t bytes, int peer, std::uint32_t channel) {
                return link.recv(nullptr, bytes, global(peer), {group, channel});
              },
          .largest = std::numeric_limits<std::uint32_t>::max(),
          .inline_bytes = inline_bytes_on_link};
}

/// Moves elements on a channel. Where the channel breaks, the cause is found out.
class ChannelCarrier::ChannelTask final : public Task {
 public:
  using Start = std::function<std::unique_ptr<Task>()>;
  /// `check` and `start` are called when the task is first driven: what `check` throws is thrown as it is.
  ChannelTask(const Parts& parts, int peer, std::function<void()> check, Start start)
      : poll_(parts.poll),
        peer_(peer),
        check_(std::move(check)),
        start_(std::move(start)),
        attribution_(parts.attribution ? parts.attribution() : nullptr) {}
  ChannelTask(const Parts& parts, int peer, std::unique_ptr<Task> task)
      : ChannelTask(
            parts, peer, [] {}, nullptr) {
    task_ = std::move(task);
  }

  bool advance() override {
    if (is_done_) return true;
    // A receive is posted before anything more is read: its elements may be the next bytes, and go where it wants them.
    if (start_) check_();
    else poll_();
    const auto step = [&] {
      if (start_) task_ = std::exchange(start_, nullptr)();
      return task_->advance();
    };
    is_done_ = attribution_ ? attribution_->guard(step) : step();
    return is_done_;
  }
  std::vector<int> waiting_for() const override { return is_done_ ? std::vector<int>() : std::vector<int>{peer_}; }
  bool wakes_waiter() const override { return (!attribution_ || !attribution_->is_holding()) && (!task_ || task_->wakes_waiter()); }
  bool sleep(std::chrono::nanoseconds at_most) override { return (!attribution_ || !attribution_->is_holding()) && task_ && task_->sleep(at_most); }

 private:
  const std::function<void()>& poll_;
  int peer_;
  std::function<void()> check_;
  Start start_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<coordination::FailureAttribution> attribution_;
  bool is_done_ = false;
};

/// Announces a message once those before it have been announced and the peer has room for the notice, and moves its elements.
class ChannelCarrier::SendTask final : public Task {
 public:
  SendTask(ChannelCarrier& carrier, int peer, const MessageHeader& header, const void* data)
      : carrier_(carrier), to_(carrier.destination_of(peer)), peer_(peer), header_(header), data_(data) {
    if (to_.waiting.empty() && has_room()) {
      leave();
      return;
    }
    keep();
    place_ = to_.waiting.insert(to_.waiting.end(), this);
    is_waiting_ = true;
  }
  ~SendTask() override {
    if (is_waiting_) to_.waiting.erase(place_);
  }
  bool advance() override {
    if (is_waiting_ && !advance_first()) return false;
    if (task_ && task_->advance()) task_.reset();
    return task_ == nullptr;
  }
  std::vector<int> waiting_for() const override {
    if (is_waiting_) return {peer_};
    return task_ ? task_->waiting_for() : std::vector<int>();
  }
  bool wakes_waiter() const override { return !task_ || task_->wakes_waiter(); }
  bool sleep(std::chrono::nanoseconds at_most) override { return task_ && task_->sleep(at_most); }
  bool detach() override { return (!is_waiting_ && !task_) || header_.bytes <= base::eager_bytes; }

 private:
  bool has_room() const {
    const std::uint64_t taken = to_.taken.load(std::memory_order_acquire);
    return (to_.announced > taken ? to_.announced - taken : 0) + cost_of(header_, carrier_.parts_.channels) <= room;
  }
  // Each task sees to itself alone, so that what goes wrong with one is no other's error.
  bool advance_first() {
    if (to_.waiting.front() != this) return false;
    carrier_.parts_.poll();
    if (!has_room()) return false;
    to_.waiting.erase(place_);
    is_waiting_ = false;
    leave();
    return true;
  }
  void keep() {
    if (header_.bytes > base::eager_bytes || header_.bytes == 0) return;
    const auto* const bytes = static_cast<const std::byte*>(data_);
    own_.assign(bytes, bytes + header_.bytes);
    data_ = own_.data();
  }
  void leave() {
    const Parts& parts = carrier_.parts_;
    // Channel 0 is that of collectives. The others take turns.
    const auto channel = static_cast<std::uint32_t>(1 + to_.messages++ % parts.channels.largest);
    const auto bytes = static_cast<std::size_t>(header_.bytes);
    const bool is_inline = bytes <= parts.channels.inline_bytes;
    base::ByteWriter notice = Notices::of_kind(NoticeKind::message);
    notice.put(header_.bytes).put(header_.tag).put(header_.kind).put(is_inline ? std::uint32_t{0} : channel);
    to_.announced += cost_of(header_, parts.channels);
    const bool is_covered = bytes <= longest_own_message;
    if (is_covered) notice.raw({static_cast<const char*>(data_), bytes});
    parts.tell(peer_, notice.bytes(), {static_cast<const std::byte*>(data_), is_inline && !is_covered ? bytes : 0});
    if (is_inline) return;
    if (own_.empty()) keep();
    task_ = std::make_unique<ChannelTask>(parts, peer_, parts.channels.send(data_, bytes, peer_, channel));
  }

  ChannelCarrier& carrier_;
  Destination& to_;
  const int peer_;
  const MessageHeader header_;
  const void* data_;
  bool is_waiting_ = false;
  std::list<SendTask*>::iterator place_;  // while it waits
  std::vector<std::byte> own_;
  std::unique_ptr<ChannelTask> task_;
};

ChannelCarrier::ChannelCarrier(Parts parts) : parts_(std::move(parts)) {}

std::unique_ptr<Task> ChannelCarrier::send(int peer, const MessageHeader& header, const void* data) {
  return std::make_unique<SendTask>(*this, peer, header, data);
}

void ChannelCarrier::take(int peer, std::string notice) {
  base::ByteReader content = Notices::content_of(notice);
  MessageHeader header;
  header.bytes = content.get<std::uint64_t>();
  header.tag = content.get<std::int32_t>();
  header.kind = content.get<std::uint32_t>();
  const auto channel = content.get<std::uint32_t>();
  // A notice whose lengths do not fit is not ours.
  if (!content.ok() || content.rest().size() != (channel == 0 ? header.bytes : 0)) return;
  const std::lock_guard lock(mutex_);
  Source& source = sources_[peer];
  source.messages.emplace(source.tickets + 1, Announced{header, channel, std::move(notice)});
  ++source.tickets;
}

void ChannelCarrier::take_report(int peer, std::string_view notice) {
  base::ByteReader content = Notices::content_of(notice);
  const auto taken = content.get<std::uint64_t>();
  if (content.ok()) destination_of(peer).taken.store(taken, std::memory_order_release);
}

// A message that was returned is the receiver's, whether or not a receive takes it soon: those behind it, for which the receiver waits, need its
// room.
std::optional<AnnouncedMessage> ChannelCarrier::next(int peer) {
  std::optional<AnnouncedMessage> message;
  std::uint64_t to_report = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sources_.find(peer);
    if (found == sources_.end() || found->second.returned == found->second.tickets) return std::nullopt;
    Source& source = found->second;
    const std::uint64_t ticket = ++source.returned;
    message = AnnouncedMessage{source.messages.at(ticket).header, ticket};
    source.taken += cost_of(message->header, parts_.channels);
    if (source.taken - source.reported >= report_size) to_report = source.reported = source.taken;
  }
  if (to_report != 0) parts_.tell(peer, Notices::of_kind(NoticeKind::taken).put(to_report).bytes(), {});
  return message;
}

void ChannelCarrier::deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) {
  const std::lock_guard lock(mutex_);
  auto& messages = sources_.at(peer).messages;
  const auto message = messages.find(ticket);
  if (message->second.channel == 0) {
    const std::string_view elements = message->second.elements();
    if (delivery.to != nullptr && !elements.empty()) std::memcpy(delivery.to, elements.data(), elements.size());
    messages.erase(message);
    delivery.is_done = true;
    return;
  }
  const auto check = [this, peer, ticket, channel = message->second.channel] { check_channel(peer, ticket, channel); };
  const auto start = [this, peer, ticket, bytes = static_cast<std::size_t>(header.bytes), channel = message->second.channel, to = delivery.to] {
    forget(peer, ticket);
    return to == nullptr ? parts_.channels.discard(bytes, peer, channel) : parts_.channels.recv(to, bytes, peer, channel);
  };
  delivery.task = std::make_unique<ChannelTask>(parts_, peer, check, start);
}

void ChannelCarrier::forget(int peer, std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  sources_.at(peer).messages.erase(ticket);
}

// The bytes of a channel come in the order of the messages, so those of an earlier message that nobody has received would be taken for this one's.
void ChannelCarrier::check_channel(int peer, std::uint64_t ticket, std::uint32_t channel) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [other, message] : sources_.at(peer).messages) {
    if (other >= ticket || message.channel != channel) continue;
    throw ProtocolError(fmt::format("a message of rank {} with tag {} has waited to be received while {} others came after it", peer,
                                    message.header.tag, ticket - other),
                        {.operation = "recv", .rank = parts_.rank, .culprit = peer, .hint = "receive it first"});
  }
}

void ChannelCarrier::advance(int, Delivery& delivery) {
  if (!delivery.is_done) delivery.is_done = delivery.task->advance();
}

bool ChannelCarrier::withdraw(int peer, std::uint64_t ticket, Delivery& delivery) noexcept {
  delivery.task.reset();
  const std::lock_guard lock(mutex_);
  const auto source = sources_.find(peer);
  return source != sources_.end() && source->second.messages.contains(ticket);
}

}  // namespace unisono::group
