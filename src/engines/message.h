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

/// A send or a receive, as a group hands it on. `peer` is a rank in the group, -1 for a receive from any source.
struct MessageCall {
  TensorView data{nullptr, DType::uint8, std::size_t{0}};
  int peer = -1;
  int tag = 0;
  std::uint64_t sequence = 0;
  std::string_view label = {};  ///< as of a CollectiveCall
};

inline constexpr std::uint32_t labelled_kind = 0x80;

/// The number on which the two sides of a message agree beside its length: the dtype in the lowest byte, with a mark where there is a label, and a
/// hash of the label above it.
inline std::uint32_t kind_of(DType dtype, std::string_view label) {
  const auto number = static_cast<std::uint32_t>(dtype);
  return label.empty() ? number : number | (static_cast<std::uint32_t>(base::stable_hash(label)) << 8) | labelled_kind;
}
inline std::uint32_t kind_of(const MessageCall& call) { return kind_of(call.data.dtype(), call.label); }
inline DType dtype_of_kind(std::uint32_t kind) { return static_cast<DType>(kind & (labelled_kind - 1)); }

/// The label of the message by which a sender of device memory announces it.
inline constexpr std::string_view device_announcement = "send of device memory";

/// Tags below it are the library's own: no program gives one, and no receive of any tag takes their messages.
inline constexpr int lowest_tag = std::numeric_limits<int>::min() + (1 << 24);

/// Whether a receive takes a message of that tag.
inline bool takes_tag(int wanted, int tag) { return wanted == tag || (wanted == any_tag && tag >= lowest_tag); }

/// The header goes ahead of the elements of a message.
struct MessageHeader {
  std::uint64_t bytes = 0;
  std::int32_t tag = 0;
  std::uint32_t kind = 0;
};

/// A message that has come, as far as its header. `ticket`: the carrier's name for it among those of its source.
struct AnnouncedMessage {
  MessageHeader header;
  std::uint64_t ticket = 0;
};

/// The way of one message's elements to a receive that has taken it. Stays in one place until it is done or withdrawn.
struct Delivery {
  std::byte* to = nullptr;     ///< null: the elements are dropped
  bool is_done = false;        ///< set by the carrier
  std::unique_ptr<Task> task;  ///< the carrier's own
};

/// Carries messages between this rank and its peers, in the order of the sends from each to each. It knows nothing of tags and of receives from any
/// source: the group's matcher decides which receive takes which message. Peers are named as the carrier's maker names them. One thread at a time.
class MessageCarrier {
 public:
  virtual ~MessageCarrier() = default;
  /// Takes what has come from anywhere, before `next` and `progress` are asked.
  virtual void poll() {}
  virtual std::unique_ptr<Task> send(int peer, const MessageHeader& header, const void* data) = 0;
  /// The next message of that peer that was not returned before; none: it has not come yet. A message that was returned and is not delivered does not
  /// keep those behind it from coming: its elements are kept aside.
  virtual std::optional<AnnouncedMessage> next(int peer) = 0;
  /// Moves what can be moved of messages that have been returned. For a peer of which nothing new is wanted.
  virtual void progress(int peer) = 0;
  /// A receive takes the message. From now on `advance` brings its elements to `delivery.to`.
  virtual void deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) = 0;
  virtual void advance(int peer, Delivery& delivery) = 0;
  /// The delivery's memory is no longer there. Returns true if nothing of the message has been taken yet, so that another receive may take it; else
  /// the rest of its elements is dropped.
  virtual bool withdraw(int peer, std::uint64_t ticket, Delivery& delivery) noexcept = 0;
};

}  // namespace unisono::engines
