#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/detail/byte_parts.h"
#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"

// Bytes whose number only their owner knows: the sizes are exchanged first, exactly, then the bytes, without padding. Each of these is two
// operations of its group under one label (a string literal), by which errors name it and by which the ranks' calls are compared, and under one
// deadline.

namespace unisono::detail {

/// Asked on every rank alike, with the same sizes (of all parts that the call moves, in group order), before any of them is allocated or moved.
/// What it throws leaves the group usable, since all ranks throw it.
using AcceptSizes = std::function<void(std::span<const std::size_t> sizes)>;

UNISONO_API ByteParts all_gather_bytes(std::span<const std::byte> mine, std::string_view label, const ProcessGroup& group, const CallOptions& options,
                                       const AcceptSizes& accept = {});
/// nullopt everywhere but at `dst`. All sizes are known to, and accepted by, every rank.
UNISONO_API std::optional<ByteParts> gather_bytes(std::span<const std::byte> mine, Rank dst, std::string_view label, const ProcessGroup& group,
                                                  const CallOptions& options, const AcceptSizes& accept = {});
/// `bytes` of `src` replace those of the others.
UNISONO_API void broadcast_bytes(std::vector<std::byte>& bytes, Rank src, std::string_view label, const ProcessGroup& group,
                                 const CallOptions& options, const AcceptSizes& accept = {});
/// `parts` of `src`: one for each rank, else all ranks throw InvalidArgument. Elsewhere they do not count.
UNISONO_API std::vector<std::byte> scatter_bytes(std::span<const std::vector<std::byte>> parts, Rank src, std::string_view label,
                                                 const ProcessGroup& group, const CallOptions& options, const AcceptSizes& accept = {});

/// Two messages: the size, and unless it is 0 the bytes.
UNISONO_API void send_bytes(std::span<const std::byte> bytes, Rank dst, std::string_view label, const ProcessGroup& group,
                            const CallOptions& options);
/// No source: from anybody. Returns the sender as well. What `accept` refuses is taken off the line and thrown away.
UNISONO_API std::pair<std::vector<std::byte>, int> recv_bytes(std::optional<Rank> src, std::string_view label, const ProcessGroup& group,
                                                              const CallOptions& options, const AcceptSizes& accept = {});

}  // namespace unisono::detail
