#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "base/hash.h"
#include "unisono/message_info.h"
#include "unisono/task.h"
#include "unisono/tensor.h"

namespace unisono::engines {

/// A send or a receive, as a group passes it on. `peer` is a rank in the group, -1 for a receive from any source.
struct MessageCall {
  TensorView data{nullptr, DType::uint8, std::size_t{0}};
  int peer = -1;
  int tag = 0;
  std::uint64_t sequence = 0;
  std::string_view label = {};  ///< as in a CollectiveCall
};

/// A bit that no dtype uses: there is a label, whose hash stands above the lowest byte.
inline constexpr std::uint32_t labelled_kind = 0x80;

/// Returns the number on which the two sides of a message must agree beside its length: the dtype in the lowest byte, marked where there is a label,
/// and a hash of the label above it.
inline std::uint32_t kind_of(DType dtype, std::string_view label) {
  const auto number = static_cast<std::uint32_t>(dtype);
  return label.empty() ? number : number | (static_cast<std::uint32_t>(base::stable_hash(label)) << 8) | labelled_kind;
}
inline std::uint32_t kind_of(const MessageCall& call) { return kind_of(call.data.dtype(), call.label); }
inline DType dtype_of_kind(std::uint32_t kind) { return static_cast<DType>(kind & (labelled_kind - 1)); }

/// The label of the message by which a sender of device memory announces it.
inline constexpr std::string_view device_announcement = "send of device memory";

/// Tags below this are reserved for the library: no program uses them, and no receive of any tag takes their messages.
inline constexpr int reserved_tags = 1 << 24;
inline constexpr int lowest_tag = std::numeric_limits<int>::min() + reserved_tags;

/// Returns true where a receive takes a message of that tag.
inline bool takes_tag(int wanted, int tag) { return wanted == tag || (wanted == any_tag && tag >= lowest_tag); }

/// The header that precedes the elements of a message.
struct MessageHeader {
  std::uint64_t bytes = 0;
  std::int32_t tag = 0;
  std::uint32_t kind = 0;
};

/// A message whose header has arrived. `ticket`: the carrier's number for it among the messages of its source.
struct AnnouncedMessage {
  MessageHeader header;
  std::uint64_t ticket = 0;
};

/// The transfer of a message's elements to the receive that has taken it. Stays in one place until it is done or withdrawn.
struct Delivery {
  std::byte* to = nullptr;     ///< null: the elements are discarded
  bool is_done = false;        ///< set by the carrier
  std::unique_ptr<Task> task;  ///< the carrier's own
};

/// Carries messages between this rank and its peers, in the order of the sends of each pair. It knows neither tags nor receives from any source: the
/// group's matcher decides which receive takes which message. Peers are numbered as the carrier's maker numbers them. One thread at a time may use
/// it.
class MessageCarrier {
 public:
  virtual ~MessageCarrier() = default;
  /// Receives what has come from any peer, for `next` and `progress`. Returns false where there is nothing to do for that.
  virtual bool poll() { return false; }
  /// Says, before a send to that peer, whether receives of its messages are posted: then elements may soon move in both directions.
  virtual void note_receives(int /*peer*/, bool /*any*/) {}
  virtual std::unique_ptr<Task> send(int peer, const MessageHeader& header, const void* data) = 0;
  /// The outcome of a try to send a message at once, whole. Where it is not sent, nothing has happened.
  enum class Tried { sent, no_room, never };
  virtual Tried try_send(int /*peer*/, const MessageHeader& /*header*/, const void* /*data*/) { return Tried::never; }
  /// Whether a send of a message that is small enough to leave without a receive (base::eager_bytes) had better lend its memory for a moment: now, or
  /// once the receiver has taken something that is lent already. Its task ends soon all the same: where the receiver does not come, the task takes
  /// the memory back, and leaves a copy that outlives this rank.
  enum class Lending { no, later, now };
  virtual Lending lends(int /*peer*/, std::uint64_t /*bytes*/) { return Lending::no; }
  /// Whether a send of a message that waits for its receiver would leave all of the work to that now.
  virtual bool leaves_to_receiver(int /*peer*/, std::uint64_t /*bytes*/) { return false; }
  /// Returns the next message of that peer; none: it has not come yet. A message that was returned and is not delivered does not block those behind
  /// it: its elements are kept aside.
  virtual std::optional<AnnouncedMessage> next(int peer) = 0;
  /// Moves elements of messages that have been returned, for a peer from which no new message is wanted.
  virtual void progress(int peer) = 0;
  /// Assigns the message to a receive. From then on `advance` brings its elements to `delivery.to`.
  virtual void deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) = 0;
  virtual void advance(int peer, Delivery& delivery) = 0;
  /// Tells the carrier that the delivery's memory is gone. Returns true if nothing of the message has been taken yet, so that another receive may
  /// take it; otherwise the rest of its elements is discarded.
  virtual bool withdraw(int peer, std::uint64_t ticket, Delivery& delivery) noexcept = 0;
};

}  // namespace unisono::engines
