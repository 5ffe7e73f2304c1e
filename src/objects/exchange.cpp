#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/hash.h"
#include "group/calls/composed.h"
#include "group/group.h"
#include "objects/lines.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/detail/object_stream.h"
#include "unisono/detail/object_type.h"
#include "unisono/error.h"

namespace unisono::detail {

std::uint64_t fingerprint_of(std::string_view name) noexcept { return base::stable_hash(name); }

void check_fingerprint(const ObjectType& type, std::uint64_t found) {
  if (found == type.fingerprint) return;
  throw Mismatch(fmt::format("the bytes are of an object of another type than {}", type.name),
                 {.hint = "the type that is read must be exactly the type that was written"});
}

namespace {

constexpr std::uint64_t no_root = UINT64_MAX;

/// Returns the root's rank in the group. Throws InvalidArgument where the root is no member.
int find_root(std::string_view label, Rank root, const ProcessGroup& group, const CallOptions& options) {
  check_exchanging({.operation = Operation::broadcast, .in = nothing(), .out = nothing(), .root = root, .label = label}, group, options);
  return root.is_global() ? group.rank_of(GlobalRank{root.value()}).value() : root.value();
}

/// Checks before anything is moved that all ranks give the same type and root, that no rank has failed, and that nothing is too large. Returns what
/// every rank brings.
std::vector<ObjectSize> compare(group::Composed& call, const ObjectType& type, std::uint64_t own_root, const ObjectSize& own,
                                const std::exception_ptr& error) {
  enum Item : std::size_t { fingerprint, root, bytes, limit, head, number, codes };
  std::vector<std::uint64_t> line{type.fingerprint, own_root, own.bytes, object_limits().bytes, own.head};
  const bool has_codes = call.group().implementation()->seals().need() == group::Seals::Need::codes;
  if (has_codes) line.insert(line.end(), {own.codes.number, own.codes.head[0], own.codes.head[1], own.codes.body[0], own.codes.body[1]});
  const objects::Lines lines(call, std::move(line), error);
  if (const auto found = lines.difference_in(root)) {
    const int other = found->other;
    call.throw_mismatch(*found, fmt::format("the root is rank {} here, and rank {} on rank {}", lines.mine(root), lines.of(other, root), other));
  }
  // Each rank compares its name with that of another rank, so every rank sends its name if one differs.
  if (const auto found = lines.difference_in(fingerprint)) {
    const int other = found->other;
    call.throw_mismatch(*found, fmt::format("the object is {} here, and {} on rank {}", type.name, lines.text_from(other, type.name), other));
  }
  lines.nobody_failed();
  lines.nothing_too_large(bytes, limit);
  std::vector<ObjectSize> sizes;
  for (int r = 0; r < call.group().size(); ++r) {
    ObjectSize size{.bytes = static_cast<std::size_t>(lines.of(r, bytes)), .head = static_cast<std::size_t>(lines.of(r, head))};
    if (has_codes) {
      size.codes = {.number = lines.of(r, number),
                    .head = {lines.of(r, codes), lines.of(r, codes + 1)},
                    .body = {lines.of(r, codes + 2), lines.of(r, codes + 3)}};
    }
    sizes.push_back(size);
  }
  return sizes;
}

ObjectSize size_of(std::span<const std::byte> bytes, const ObjectSeal& seal) {
  ObjectSize size{.bytes = bytes.size(), .head = 0, .codes = {.number = seal.take_number()}};
  size.codes.body = seal.code(size.codes.number, ObjectSeal::body, bytes);
  return size;
}
void check(const ObjectSeal& seal, int sender, const ObjectCodes& codes, std::span<const std::byte> bytes) {
  seal.check(sender, codes.number, ObjectSeal::body, bytes, codes.body);
  seal.check_number(sender, codes.number);
}
void check(const ObjectSeal& seal, const std::vector<ObjectSize>& sizes, const ByteParts& parts) {
  for (std::size_t r = 0; r < parts.size(); ++r) check(seal, static_cast<int>(r), sizes[r].codes, parts[r]);
}

Counts counts_of(const std::vector<ObjectSize>& sizes) {
  std::vector<std::size_t> bytes;
  for (const ObjectSize& size : sizes) bytes.push_back(size.bytes);
  return bytes;
}

// The label keeps a plain receive from taking an object's message for elements.
constexpr std::string_view message_label = "send_object";

/// Throws away the further messages of an object that another language has sent.
void discard_rest(ObjectReader& in, int source, const ProcessGroup& group, const CallOptions& options) {
  std::uint64_t messages = 0;
  in.number(DType::uint64, &messages);
  for (; messages > 0; --messages) {
    try {  // a receive of another length throws the message away
      run(MessageRequest{.operation = Operation::recv, .data = nothing(), .peer = Rank(source), .label = message_label}, group, options);
    } catch (const Mismatch&) {  // NOLINT(bugprone-empty-catch): that is its length
    }
  }
}

}  // namespace

std::vector<ObjectSize> compare_objects(std::string_view label, const ObjectType& type, std::optional<Rank> root, const ObjectSize& own,
                                        const std::exception_ptr& error, const ProcessGroup& group, CallOptions& options) {
  const std::uint64_t own_root = root ? static_cast<std::uint64_t>(find_root(label, *root, group, options)) : no_root;
  group::Composed call(label, group, options);
  auto sizes = compare(call, type, own_root, own, error);
  options = call.options();
  return sizes;
}

ByteParts all_gather_parcels(std::string_view label, const ObjectType& type, const Parcel& own, const ProcessGroup& group,
                             const CallOptions& options) {
  group::Composed call(label, group, options);
  const ObjectSeal seal(label, std::nullopt, group);
  const auto sizes = compare(call, type, no_root, size_of(own.bytes, seal), own.error);
  ByteParts parts{.memory = {}, .sizes = counts_of(sizes)};
  resize_together(parts.memory, parts.sizes.total(), group);
  run(labelled(counted({Operation::all_gather_v, view_of(own.bytes), view_of(parts.memory)}, parts.sizes), label), group, call.options());
  check(seal, sizes, parts);
  return parts;
}

std::optional<ByteParts> gather_parcels(std::string_view label, const ObjectType& type, const Parcel& own, Rank dst, const ProcessGroup& group,
                                        const CallOptions& options) {
  const int root = find_root(label, dst, group, options);
  group::Composed call(label, group, options);
  const ObjectSeal seal(label, root, group);
  const auto sizes = compare(call, type, static_cast<std::uint64_t>(root), size_of(own.bytes, seal), own.error);
  const bool is_root = group.rank() == root;
  ByteParts parts{.memory = {}, .sizes = counts_of(sizes)};
  if (is_root) resize_together(parts.memory, parts.sizes.total(), group);
  run(labelled(rooted(counted({Operation::gather_v, view_of(own.bytes), view_of(parts.memory)}, parts.sizes), root), label), group, call.options());
  if (!is_root) return std::nullopt;
  check(seal, sizes, parts);
  return parts;
}

std::vector<std::byte> broadcast_parcel(std::string_view label, const ObjectType& type, Parcel own, Rank src, const ProcessGroup& group,
                                        const CallOptions& options) {
  const int root = find_root(label, src, group, options);
  group::Composed call(label, group, options);
  const ObjectSeal seal(label, root, group);
  const auto sizes = compare(call, type, static_cast<std::uint64_t>(root), group.rank() == root ? size_of(own.bytes, seal) : ObjectSize{}, own.error);
  if (group.rank() != root) resize_together(own.bytes, sizes[static_cast<std::size_t>(root)].bytes, group);
  const TensorView bytes = view_of(own.bytes);
  run(labelled(rooted({Operation::broadcast, bytes, bytes}, root), label), group, call.options());
  check(seal, root, sizes[static_cast<std::size_t>(root)].codes, own.bytes);
  return std::move(own.bytes);
}

std::vector<std::byte> scatter_parcels(std::string_view label, const ObjectType& type, std::vector<std::vector<std::byte>> parts,
                                       const std::exception_ptr& error, Rank src, const ProcessGroup& group, const CallOptions& options) {
  const int root = find_root(label, src, group, options);
  group::Composed call(label, group, options);
  const ObjectSeal seal(label, root, group);
  ObjectSize own{.bytes = 0, .head = 0, .codes = {.number = seal.take_number()}};
  for (auto& part : parts) own.bytes += part.size();
  for (std::size_t r = 0; seal.is_needed() && r < parts.size(); ++r) {  // each part ends with its own code
    const ObjectCode code = seal.code(own.codes.number, ObjectSeal::body, parts[r], static_cast<int>(r));
    const auto bytes = std::as_bytes(std::span(code));
    parts[r].insert(parts[r].end(), bytes.begin(), bytes.end());
  }
  const auto sizes = compare(call, type, static_cast<std::uint64_t>(root), own, error);
  std::vector<std::size_t> own_sizes;
  std::vector<std::byte> all, part;
  for (const auto& each : parts) own_sizes.push_back(each.size());
  const Counts lengths = exchange_list_sizes(call, own_sizes, root);
  if (group.rank() == root) {
    resize_together(all, lengths.total(), group);
    auto end = all.begin();
    for (const auto& each : parts) end = std::copy(each.begin(), each.end(), end);
  }
  resize_together(part, lengths[static_cast<std::size_t>(group.rank())], group);
  run(labelled(rooted(counted({Operation::scatter_v, view_of(all), view_of(part)}, lengths), root), label), group, call.options());
  if (!seal.is_needed()) return part;
  ObjectCode code{};
  const std::size_t content = part.size() - std::min(part.size(), sizeof code);
  std::memcpy(code.data(), part.data() + content, part.size() - content);
  part.resize(content);
  const std::uint64_t number = sizes[static_cast<std::size_t>(root)].codes.number;
  seal.check(root, number, ObjectSeal::body, part, code, group.rank());
  seal.check_number(root, number);
  return part;
}

void send_parcel(std::vector<std::byte> bytes, Rank dst, const ProcessGroup& group, const CallOptions& options) {
  ObjectSeal::of_message(group.rank(), dst, options.tag, group).append_trailer(bytes);
  send_bytes(bytes, dst, message_label, group, options);
}

std::pair<std::vector<std::byte>, int> recv_parcel(const ObjectType& type, std::optional<Rank> src, const ProcessGroup& group,
                                                   const CallOptions& options) {
  const group::Composed call("recv_object", group, options);
  const auto within_limit = [&](std::size_t size) {
    const std::size_t limit = object_limits().bytes;
    if (size <= limit || size - limit <= ObjectSeal::trailer_bytes) return;
    throw InvalidArgument(fmt::format("the object has {} bytes, the limit is {}", size, limit),
                          {.operation = std::string(call.name()),
                           .group = group.name(),
                           .sequence = group.implementation()->facts().sequence(),
                           .rank = group.rank(),
                           .hint = "raise the limit with set_object_limits; this object is gone, the next one can be received",
                           .where = options.where});
  };
  int source = -1;
  try {
    auto [bytes, message] = recv_bytes(src, message_label, group, options, within_limit);
    source = message.source;
    const auto content = ObjectSeal::of_message(source, group.rank(), message.tag, group).checked(source, bytes).first;
    bytes.resize(content.size());
    ObjectReader in(bytes);
    in.array_of(2);
    std::uint64_t found = 0;
    in.number(DType::uint64, &found);
    if (found == fingerprint_of(python_object)) discard_rest(in, source, group, options);
    check_fingerprint(type, found);
    return {std::move(bytes), source};
  } catch (const Mismatch& mismatch) {
    ErrorInfo info = mismatch.info();
    info.operation = call.name();
    info.group = group.name();
    info.rank = group.rank();
    info.where = options.where;
    if (source >= 0) info.culprit = source;
    if (info.culprit) info.host = group.implementation()->facts().host_name(*info.culprit);
    throw Mismatch(mismatch.message(), std::move(info));
  }
}

}  // namespace unisono::detail
