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

/// Is asked on every rank alike, with the sizes of all parts that the call moves in group order,
/// before any of them is allocated or moved. An exception that it throws leaves the group usable,
/// since all ranks throw it.
using AcceptSizes = std::function<void(std::span<const std::size_t> sizes)>;

/// Returns the bytes of all ranks on every rank.
UNISONO_API ByteParts all_gather_bytes(std::span<const std::byte> mine, std::string_view label, const ProcessGroup& group, const CallOptions& options,
                                       const AcceptSizes& accept = {});

/// Returns the bytes of all ranks on rank `dst`, and std::nullopt on every other rank. Every rank
/// knows and accepts all sizes.
UNISONO_API std::optional<ByteParts> gather_bytes(std::span<const std::byte> mine, Rank dst, std::string_view label, const ProcessGroup& group,
                                                  const CallOptions& options, const AcceptSizes& accept = {});

/// Replaces the bytes on every rank by those of rank `src`.
UNISONO_API void broadcast_bytes(std::vector<std::byte>& bytes, Rank src, std::string_view label, const ProcessGroup& group,
                                 const CallOptions& options, const AcceptSizes& accept = {});

/// Returns part r of rank `src` on rank r. There is one for each rank, else all ranks throw
/// InvalidArgument; the parts of the other ranks are ignored.
UNISONO_API std::vector<std::byte> scatter_bytes(std::span<const std::vector<std::byte>> parts, Rank src, std::string_view label,
                                                 const ProcessGroup& group, const CallOptions& options, const AcceptSizes& accept = {});

/// Sends two messages: the size and, unless it is 0, the bytes.
UNISONO_API void send_bytes(std::span<const std::byte> bytes, Rank dst, std::string_view label, const ProcessGroup& group,
                            const CallOptions& options);

/// Receives bytes and returns them with the message that announced them: who has sent them, with
/// which tag. Without a source any rank may send. Bytes that `accept` refuses are received and
/// dropped.
UNISONO_API std::pair<std::vector<std::byte>, MessageInfo> recv_bytes(std::optional<Rank> src, std::string_view label, const ProcessGroup& group,
                                                                      const CallOptions& options, const AcceptSizes& accept = {});

}  // namespace unisono::detail
