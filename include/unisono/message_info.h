#pragma once

#include <cstddef>

#include "unisono/tensor.h"

namespace unisono {

/// In place of a message's tag: a receive or a probe takes the next message, whatever its tag. No message is sent with it.
inline constexpr int any_tag = 0x7fffffff;

/// A message as it is known before it is received.
struct MessageInfo {
  int source = -1;  ///< the sender's rank in the group
  int tag = 0;
  DType dtype = DType::uint8;
  std::size_t count = 0;  ///< elements
  /// Sent by send_object: recv_object takes it, and its length is known then. dtype and count say nothing of it.
  bool is_object = false;
  std::size_t bytes() const noexcept { return count * size_of(dtype); }
  friend bool operator==(const MessageInfo&, const MessageInfo&) = default;
};

}  // namespace unisono
