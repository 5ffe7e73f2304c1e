#include "engines/shm/ring_receiver.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engines/shm/private_memory.h"
#include "engines/shm/ring_format.h"
#include "kernels/copy.h"
#include "unisono/task.h"

namespace unisono::engines::shm {
namespace {

constexpr std::size_t unpublished_part = 8;  // of a ring and of the envelopes at most, 1 / 8, are free and count as full for the sender

/// Copies a message out of the sender's memory. Where that cannot be, the sender has ended, or has given up: it stands still, and whoever waits for
/// it finds out.
class LentReadTask final : public Task {
 public:
  LentReadTask(const Segment& segment, int rank, int peer, std::size_t place, std::byte* to, std::uint64_t bytes)
      : segment_(segment), rank_(rank), peer_(peer), place_(place), word_(segment.ring(peer, rank).lent[place]), to_(to), bytes_(bytes) {}
  ~LentReadTask() override {
    if (state_ == State::begins) word_.decline();
  }

  bool advance() override {
    if (state_ != State::begins) return state_ == State::done;
    state_ = State::stands_still;
    const auto address = word_.begin_read();
    if (!address) return false;
    const auto bytes = static_cast<std::size_t>(bytes_);
    int error = 0;
    if (to_ != nullptr && *address == 0) kernels::copy(to_, segment_.lent_data(peer_, rank_, place_), bytes);
    else if (to_ != nullptr) error = read_memory(segment_, peer_, to_, *address, bytes);
    if (error == ESRCH || !word_.end_read(*address)) return false;
    if (error != 0) throw_unreadable(segment_, rank_, peer_, error, "it was sent");
    segment_.notifier(peer_).notify();
    state_ = State::done;
    return true;
  }
  std::vector<int> waiting_for() const override {
    if (state_ == State::done) return {};
    return {peer_};
  }

 private:
  enum class State { begins, stands_still, done };
  const Segment& segment_;
  int rank_;
  int peer_;
  std::size_t place_;
  LentBuffer& word_;
  std::byte* to_;
  std::uint64_t bytes_;
  State state_ = State::begins;
};

}  // namespace

// A sender that waits for room finds it in the rest of the ring.
void RingReceiver::publish_read(int peer) {
  Source& source = from(peer);
  const bool is_much = source.read - source.published_read >= segment_.ring_bytes() / unpublished_part ||
                       source.opened - source.published_opened >= Envelope::count / unpublished_part;
  if (!is_much) return;
  source.published_read = source.read;
  source.published_opened = source.opened;
  RingControl& control = segment_.ring(peer, rank_);
  control.read.store(source.read, std::memory_order_release);      // litmus: ring-read
  control.opened.store(source.opened, std::memory_order_release);  // litmus: envelope-opened
  segment_.notifier(peer).notify_often();
}

std::optional<AnnouncedMessage> RingReceiver::next(int peer) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (incoming.is_active) {
    pump(peer);
    if (incoming.is_active) return std::nullopt;
  }
  const Envelope& envelope = segment_.envelope(peer, rank_, source.opened);
  const std::uint32_t number = envelope.number.load(std::memory_order_acquire);  // litmus: envelope-look
  if (number != static_cast<std::uint32_t>(source.opened + 1)) return std::nullopt;
  const AnnouncedMessage message{{.bytes = envelope.bytes, .tag = envelope.tag, .kind = envelope.kind}, ++source.tickets};
  const std::uint32_t marks = envelope.marks;
  if ((marks & lent_mark) != 0) {
    source.lent.emplace(message.ticket, marks >> place_shift);
    ++source.opened;
    publish_read(peer);
    return message;
  }
  incoming.is_active = incoming.is_aside = true;
  incoming.ticket = message.ticket;
  incoming.header = message.header;
  incoming.received = 0;
  incoming.delivery = nullptr;
  incoming.elements = message.header.bytes <= Envelope::room ? envelope.elements : nullptr;
  if ((marks & whole_mark) != 0) source.written = std::max(source.written, source.read + in_ring(message.header.bytes));
  if ((marks & asks_mark) != 0) try_reach(peer);
  return message;
}

void RingReceiver::deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (incoming.is_active && incoming.ticket == ticket) {  // the rest goes to its destination
    if (delivery.to != nullptr) std::ranges::copy(incoming.aside, delivery.to);
    incoming.aside.clear();
    incoming.is_aside = false;
    incoming.delivery = &delivery;
    pump(peer);
    return;
  }
  if (const auto lent = source.lent.find(ticket); lent != source.lent.end()) {
    delivery.task = std::make_unique<LentReadTask>(segment_, rank_, peer, lent->second, delivery.to, header.bytes);
    source.lent.erase(lent);
    return;
  }
  const auto whole = source.aside.find(ticket);
  if (delivery.to != nullptr && header.bytes > 0) std::ranges::copy(whole->second, delivery.to);
  source.aside.erase(whole);
  delivery.is_done = true;
}

void RingReceiver::withdraw(int peer, const Delivery& delivery) noexcept {
  Incoming& incoming = from(peer).incoming;
  if (incoming.delivery == &delivery) incoming.delivery = nullptr;
}

void RingReceiver::try_reach(int peer) {
  RingControl& control = segment_.ring(peer, rank_);
  if (control.reads_sender.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(Reach::untried)) return;
  const Reach reach = reads_ && finds(segment_, peer, control.card) ? Reach::yes : Reach::no;
  control.reads_sender.store(static_cast<std::uint32_t>(reach), std::memory_order_release);
}

void RingReceiver::pump(int peer) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (!incoming.is_active) return;
  if (incoming.elements != nullptr) {
    take_part(incoming, incoming.elements, 0, static_cast<std::size_t>(incoming.header.bytes));
    return end_message(peer);
  }
  const std::byte* memory = segment_.ring_data(peer, rank_);
  const std::uint64_t total = padded(incoming.header.bytes);
  while (incoming.received < total) {
    if (source.written - source.read < total - incoming.received) {
      const std::uint64_t written = segment_.ring(peer, rank_).written.load(std::memory_order_acquire);  // litmus: ring-bytes
      source.written = std::max(source.written, written);
    }
    if (source.written == source.read) return;
    const auto part =
        static_cast<std::size_t>(std::min({total - incoming.received, source.written - source.read, static_cast<std::uint64_t>(stride())}));
    take_part(incoming, memory, source.read, part);
    incoming.received += part;
    source.read += part;
    publish_read(peer);
  }
  end_message(peer);
}

// Takes a part of a message; the padding at its end is dropped.
void RingReceiver::take_part(Incoming& incoming, const std::byte* memory, std::uint64_t position, std::size_t part) {
  const auto useful =
      static_cast<std::size_t>(std::min<std::uint64_t>(part, incoming.header.bytes - std::min(incoming.received, incoming.header.bytes)));
  if (useful == 0) return;
  if (incoming.is_aside) {
    // The memory grows with the bytes that have come, not with the announced length.
    incoming.aside.resize(static_cast<std::size_t>(incoming.received) + useful);
    out_of_ring(incoming.aside.data() + incoming.received, memory, segment_.ring_bytes(), position, useful);
  } else if (incoming.delivery != nullptr && incoming.delivery->to != nullptr) {
    out_of_ring(incoming.delivery->to + incoming.received, memory, segment_.ring_bytes(), position, useful);
  }
}

void RingReceiver::end_message(int peer) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (incoming.is_aside) source.aside.emplace(incoming.ticket, std::exchange(incoming.aside, {}));
  else if (incoming.delivery != nullptr) incoming.delivery->is_done = true;
  incoming.is_active = false;
  incoming.delivery = nullptr;
  ++source.opened;
  publish_read(peer);
}

}  // namespace unisono::engines::shm
