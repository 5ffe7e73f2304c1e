#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "group/composed.h"
#include "group/group.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono::detail {
namespace {

constexpr std::uint64_t no_root = UINT64_MAX;

std::string text_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.message();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

template <class T>
std::vector<T> all_gather_line(group::Composed& call, std::span<const T> own) {
  std::vector<T> all(own.size() * static_cast<std::size_t>(call.group().size()));
  Request request{.operation = Operation::all_gather, .in = view_of(own), .out = view_of(all), .label = call.name()};
  run(request, call.group(), call.options());
  return all;
}

/// The rank in the group; InvalidArgument where it is none.
int find_root(std::string_view label, Rank root, const ProcessGroup& group, const CallOptions& options) {
  check_exchanging({.operation = Operation::broadcast, .in = nothing(), .out = nothing(), .root = root, .label = label}, group, options);
  return root.is_global() ? group.rank_of(GlobalRank{root.value()}).value() : root.value();
}

/// What every rank says before anything is moved.
class Lines {
 public:
  enum Item : std::size_t { fingerprint, root, bytes, limit, failed, items };

  Lines(group::Composed& call, const ObjectType& type, std::uint64_t own_root, std::size_t own_bytes, const std::exception_ptr& error)
      : call_(call), error_(error) {
    const std::array<std::uint64_t, items> own{type.fingerprint, own_root, own_bytes, object_limits().bytes, error ? std::uint64_t{1} : 0};
    numbers_ = all_gather_line<std::uint64_t>(call, own);
    same_roots();
    same_types(type);
    nobody_failed();
    within_limits();
  }

 private:
  using Text = std::array<char, 256>;

  std::uint64_t of(int rank, Item item) const { return numbers_[static_cast<std::size_t>(rank) * items + item]; }
  std::uint64_t mine(Item item) const { return of(call_.group().rank(), item); }
  template <class F>
  std::optional<int> first(F&& holds) const {
    for (int r = 0; r < call_.group().size(); ++r) {
      if (holds(r)) return r;
    }
    return std::nullopt;
  }
  /// The rank to blame: the first one that differs from rank 0, and for those that are like it, rank 0.
  std::optional<int> odd_one(Item item) const {
    const auto odd = first([&](int r) { return of(r, item) != of(0, item); });
    return odd && of(*odd, item) == mine(item) ? 0 : odd;
  }
  /// The beginning of what a rank has to say.
  std::string text_from(int rank, std::string_view own) const {
    Text text{};
    std::copy_n(own.begin(), std::min(own.size(), text.size() - 1), text.begin());
    const auto all = all_gather_line<char>(call_, text);
    return all.data() + static_cast<std::size_t>(rank) * text.size();
  }

  void same_roots() const {
    if (const auto odd = odd_one(root)) {
      call_.throw_mismatch(*odd, fmt::format("the root is rank {} here, and rank {} on rank {}", mine(root), of(*odd, root), *odd));
    }
  }
  void same_types(const ObjectType& type) const {
    if (const auto odd = odd_one(fingerprint)) {
      call_.throw_mismatch(*odd, fmt::format("the object is {} here, and {} on rank {}", type.name, text_from(*odd, type.name), *odd));
    }
  }
  void nobody_failed() const {
    const auto rank = first([&](int r) { return of(r, failed) != 0; });
    if (!rank) return;
    const std::string text = text_from(*rank, text_of(error_));
    if (!error_) call_.throw_invalid(*rank, fmt::format("rank {} has nothing to give: {}", *rank, text));
    try {
      std::rethrow_exception(error_);
    } catch (const InvalidArgument& error) {
      call_.throw_invalid(call_.group().rank(), error.message());
    }
  }
  void within_limits() const {
    std::uint64_t most = mine(limit);
    for (int r = 0; r < call_.group().size(); ++r) most = std::min(most, of(r, limit));
    if (const auto large = first([&](int r) { return of(r, bytes) > most; })) {
      call_.throw_invalid(*large,
                          fmt::format("the object of rank {} has {} bytes, the limit is {} (set_object_limits)", *large, of(*large, bytes), most));
    }
  }

  group::Composed& call_;
  const std::exception_ptr& error_;
  std::vector<std::uint64_t> numbers_;
};

// Under this name no plain receive takes one of its messages for elements.
constexpr std::string_view message_label = "send_object";

}  // namespace

ByteParts all_gather_parcels(std::string_view label, const ObjectType& type, const Parcel& own, const ProcessGroup& group,
                             const CallOptions& options) {
  group::Composed call(label, group, options);
  Lines(call, type, no_root, own.bytes.size(), own.error);
  return all_gather_bytes(own.bytes, label, group, call.options());
}

std::optional<ByteParts> gather_parcels(std::string_view label, const ObjectType& type, const Parcel& own, Rank dst, const ProcessGroup& group,
                                        const CallOptions& options) {
  const int root = find_root(label, dst, group, options);
  group::Composed call(label, group, options);
  Lines(call, type, static_cast<std::uint64_t>(root), own.bytes.size(), own.error);
  return gather_bytes(own.bytes, root, label, group, call.options());
}

std::vector<std::byte> broadcast_parcel(std::string_view label, const ObjectType& type, Parcel own, Rank src, const ProcessGroup& group,
                                        const CallOptions& options) {
  const int root = find_root(label, src, group, options);
  group::Composed call(label, group, options);
  Lines(call, type, static_cast<std::uint64_t>(root), own.bytes.size(), own.error);
  broadcast_bytes(own.bytes, root, label, group, call.options());
  return std::move(own.bytes);
}

std::vector<std::byte> scatter_parcels(std::string_view label, const ObjectType& type, const std::vector<std::vector<std::byte>>& parts,
                                       const std::exception_ptr& error, Rank src, const ProcessGroup& group, const CallOptions& options) {
  const int root = find_root(label, src, group, options);
  group::Composed call(label, group, options);
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  Lines(call, type, static_cast<std::uint64_t>(root), bytes, error);
  return scatter_bytes(parts, root, label, group, call.options());
}

void send_parcel(const std::vector<std::byte>& bytes, Rank dst, const ProcessGroup& group, const CallOptions& options) {
  send_bytes(bytes, dst, message_label, group, options);
}

std::pair<std::vector<std::byte>, int> recv_parcel(const ObjectType& type, std::optional<Rank> src, const ProcessGroup& group,
                                                   const CallOptions& options) {
  const group::Composed call("recv_object", group, options);
  const auto within_limit = [](std::span<const std::size_t> sizes) {
    const std::size_t limit = object_limits().bytes;
    if (sizes[0] > limit) throw InvalidArgument(fmt::format("the object has {} bytes, the limit is {} (set_object_limits)", sizes[0], limit));
  };
  int source = -1;
  try {
    auto received = recv_bytes(src, message_label, group, options, within_limit);
    source = received.second;
    ObjectReader in(received.first);
    in.array_of(2);
    std::uint64_t found = 0;
    in.number(DType::uint64, &found);
    check_fingerprint(type, found);
    return received;
  } catch (const Mismatch& mismatch) {
    ErrorInfo info = mismatch.info();
    info.operation = call.name();
    info.group = group.name();
    info.rank = group.rank();
    if (source >= 0) info.culprit = source;
    if (info.culprit) info.host = group.implementation()->host_name(*info.culprit);
    throw Mismatch(mismatch.message(), std::move(info));
  }
}

}  // namespace unisono::detail
