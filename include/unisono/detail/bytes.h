#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/counts.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/message_info.h"
#include "unisono/process_group.h"

// Bytes whose number only their owner knows. The sizes are exchanged first, exactly, and then the
// bytes, without padding.
//
// Each function makes two operations of its group under one label, a string literal, by which
// errors name it and by which the ranks' calls are compared, and under one deadline.

namespace unisono::detail {

/// The bytes of several ranks, one rank behind the other.
struct ByteParts {
  std::vector<std::byte> memory;
  Counts sizes;

  /// Returns the number of ranks.
  std::size_t size() const { return sizes.size(); }
  /// Returns the bytes of a rank.
  std::span<const std::byte> operator[](std::size_t rank) const { return std::span(memory).subspan(sizes.before(rank), sizes[rank]); }
};

/// Returns the bytes of all ranks on every rank.
UNISONO_API ByteParts all_gather_bytes(std::span<const std::byte> mine, std::string_view label, const ProcessGroup& group,
                                       const CallOptions& options);

/// Sends two messages: the size and, unless it is 0, the bytes.
UNISONO_API void send_bytes(std::span<const std::byte> bytes, Rank dst, std::string_view label, const ProcessGroup& group,
                            const CallOptions& options);

/// Is asked with the size of a message before its bytes are received.
using AcceptSize = std::function<void(std::size_t size)>;

/// Receives bytes and returns them with the message that announced them: its sender and its tag.
/// Without a source any rank may send. Bytes that `accept` refuses are received and dropped.
UNISONO_API std::pair<std::vector<std::byte>, MessageInfo> recv_bytes(std::optional<Rank> src, std::string_view label, const ProcessGroup& group,
                                                                      const CallOptions& options, const AcceptSize& accept = {});

}  // namespace unisono::detail
