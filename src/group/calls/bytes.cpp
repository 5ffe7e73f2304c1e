#include "unisono/detail/bytes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "group/calls/composed.h"
#include "group/group.h"
#include "unisono/collectives.h"
#include "unisono/detail/request.h"

namespace unisono::detail {
namespace {

TensorView line(std::span<std::uint64_t> numbers) { return {numbers.data(), DType::uint64, numbers.size()}; }
TensorView line(std::span<const std::byte> bytes) { return {const_cast<std::byte*>(bytes.data()), DType::uint8, bytes.size()}; }

int root_of(Rank root, const ProcessGroup& group) { return root.is_global() ? group.rank_of(GlobalRank{root.value()}).value_or(-1) : root.value(); }

MessageRequest message(Operation operation, const TensorView& data, std::optional<Rank> peer, std::string_view label) {
  return {.operation = operation, .data = data, .peer = peer, .label = label};
}

}  // namespace

ByteParts all_gather_bytes(std::span<const std::byte> mine, std::string_view label, const ProcessGroup& group, const CallOptions& options) {
  group::Composed call(label, group, options);
  std::array<std::uint64_t, 1> own{mine.size()};
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(group.size()));
  run(labelled({Operation::all_gather, line(own), line(sizes)}, label), group, call.options());
  ByteParts parts{.memory = {}, .sizes = sizes};
  resize_together(parts.memory, parts.sizes.total(), group);
  run(labelled(counted({Operation::all_gather_v, line(mine), line(parts.memory)}, parts.sizes), label), group, call.options());
  return parts;
}

Counts exchange_list_sizes(group::Composed& call, std::span<const std::size_t> own, Rank src) {
  const ProcessGroup& group = call.group();
  const auto n = static_cast<std::size_t>(group.size());
  // The header holds the number of parts, then their sizes.
  std::vector<std::uint64_t> header(n + 1);
  if (rank_is(src, group)) {
    header[0] = own.size();
    std::copy_n(own.begin(), std::min(n, own.size()), header.begin() + 1);
  }
  run(labelled(rooted({Operation::broadcast, line(header), line(header)}, src), call.name()), group, call.options());
  if (header[0] != n) {
    const int root = root_of(src, group);
    call.throw_invalid(root, "rank " + std::to_string(root) + " gives " + std::to_string(header[0]) + " parts to a group of " + std::to_string(n));
  }
  return std::span(header).subspan(1);
}

void send_bytes(std::span<const std::byte> bytes, Rank dst, std::string_view label, const ProcessGroup& group, const CallOptions& options) {
  group::Composed call(label, group, options);
  std::array<std::uint64_t, 1> size{bytes.size()};
  run(message(Operation::send, line(size), dst, label), group, call.options());
  if (!bytes.empty()) run(message(Operation::send, line(bytes), dst, label), group, call.options());
}

std::pair<std::vector<std::byte>, MessageInfo> recv_bytes(std::optional<Rank> src, std::string_view label, const ProcessGroup& group,
                                                          const CallOptions& options, const AcceptSize& accept) {
  group::Composed call(label, group, options);
  std::array<std::uint64_t, 1> size{};
  const MessageInfo first = run(message(Operation::recv, line(size), src, label), group, call.options());
  const auto rest = [&] {
    CallOptions next = call.options();
    next.tag = first.tag;
    return next;
  };
  std::vector<std::byte> bytes;
  try {
    if (accept) accept(size[0]);
    bytes.resize(size[0]);
  } catch (...) {
    const std::exception_ptr refusal = std::current_exception();
    try {  // a receive of another length throws the message away
      if (size[0] > 0) run(message(Operation::recv, nothing(), Rank(first.source), label), group, rest());
    } catch (const Mismatch&) {  // NOLINT(bugprone-empty-catch): see above
    }
    std::rethrow_exception(refusal);
  }
  if (!bytes.empty()) run(message(Operation::recv, line(bytes), Rank(first.source), label), group, rest());
  return {std::move(bytes), first};
}

}  // namespace unisono::detail
