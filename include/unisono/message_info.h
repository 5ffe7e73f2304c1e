#pragma once

#include <concepts>
#include <cstddef>
#include <optional>

#include "unisono/process_group.h"
#include "unisono/tensor.h"

namespace unisono {

/// The type of any_source.
struct AnySource {};

/// In place of the sender's rank: a receive or a probe takes the next message of any rank.
///
/// ```cpp
/// const int sender = recv(x, any_source);
/// ```
inline constexpr AnySource any_source{};

/// The source that a receive or a probe is given: a rank, as the Rank of other calls, or any_source.
class Source {
 public:
  template <std::convertible_to<Rank> R>
  constexpr Source(R rank) noexcept : rank_(rank) {}  // NOLINT(google-explicit-constructor): a rank stands for itself
  constexpr Source(AnySource) noexcept {}             // NOLINT(google-explicit-constructor)

  /// Returns the rank; std::nullopt for any.
  constexpr std::optional<Rank> rank() const noexcept { return rank_; }

 private:
  std::optional<Rank> rank_;
};

/// In place of a message's tag: a receive or a probe takes the next message, whatever its tag. A
/// send with it is InvalidArgument.
inline constexpr int any_tag = 0x7fffffff;

/// A message as it is known before, or after, it has been received.
struct MessageInfo {
  /// The sender's rank in the group.
  int source = -1;
  /// The tag that the sender gave.
  int tag = 0;
  /// The type of its elements. Nothing is converted: a receive has the same dtype.
  DType dtype = DType::uint8;
  /// The number of its elements; a single value counts as 1.
  std::size_t count = 0;
  /// True for a message of send_object, which recv_object takes. `dtype` and `count` say nothing of
  /// it: its length is known once it has been received.
  bool is_object = false;
  /// Returns the bytes that the elements take.
  std::size_t bytes() const noexcept { return count * size_of(dtype); }
  friend bool operator==(const MessageInfo&, const MessageInfo&) = default;
};

}  // namespace unisono
