#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/detail/bytes.h"
#include "unisono/detail/object_seal.h"
#include "unisono/detail/object_type.h"
#include "unisono/export.h"
#include "unisono/process_group.h"

// Objects between ranks, once they are bytes.
//
// Each collective begins with a line of numbers from every rank: the type, the size and the limit
// of what it brings, its root, and whether it could make its bytes. So all ranks learn before
// anything is moved, and alike, that types or roots differ (Mismatch), or that an object is too
// large or a rank has none to give (InvalidArgument). `label` is the function that the user called,
// a string literal.

namespace unisono::detail {

/// The bytes that a rank brings, or the exception that kept it from making them.
struct Parcel {
  std::vector<std::byte> bytes = {};
  std::exception_ptr error = {};
};

/// Makes the bytes and keeps what is thrown meanwhile.
template <class F>
Parcel make_parcel(F&& make) noexcept {
  try {
    return {std::forward<F>(make)(), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

/// Makes the bytes on the root alone. If the root is not a rank of the group, the call itself says so.
template <class F>
Parcel parcel_at(Rank root, const ProcessGroup& group, F&& make) {
  const int own = root.is_global() ? group.global_rank(group.rank()) : group.rank();
  return own == root.value() ? std::forward<F>(make)() : Parcel{};
}

/// The part of one rank: the number of its bytes, the length of the first part if they travel in two
/// parts, and the codes of both.
struct ObjectSize {
  std::size_t bytes = 0, head = 0;
  ObjectCodes codes = {};
};

/// The type of what the Python package sends, which ranks compare. Its messages begin as objects of C++ do, with the
/// fingerprint; then follow, as a uint64 of MessagePack, the number of further messages that belong to it.
inline constexpr std::string_view python_object = "an object of Python (pickled, format 1)";

/// Makes the first step of each of the following calls, for bindings that move the bytes by operations
/// of their own under the same label, and check it against the codes. Throws on all ranks alike, or
/// returns what every rank brings. Subtracts the time that it takes from the timeout of `options`.
UNISONO_API std::vector<ObjectSize> compare_objects(std::string_view label, const ObjectType& type, std::optional<Rank> root, const ObjectSize& own,
                                                    const std::exception_ptr& error, const ProcessGroup& group, CallOptions& options);

/// Returns the bytes of all ranks on every rank.
UNISONO_API ByteParts all_gather_parcels(std::string_view label, const ObjectType& type, const Parcel& own, const ProcessGroup& group,
                                         const CallOptions& options);

/// Returns the bytes of all ranks on rank `dst`, and std::nullopt on every other rank.
UNISONO_API std::optional<ByteParts> gather_parcels(std::string_view label, const ObjectType& type, const Parcel& own, Rank dst,
                                                    const ProcessGroup& group, const CallOptions& options);

/// Returns the bytes of rank `src` on every rank.
UNISONO_API std::vector<std::byte> broadcast_parcel(std::string_view label, const ObjectType& type, Parcel own, Rank src, const ProcessGroup& group,
                                                    const CallOptions& options);

/// Returns part r of rank `src` on rank r. `error` is the exception that kept that rank from making
/// the parts.
UNISONO_API std::vector<std::byte> scatter_parcels(std::string_view label, const ObjectType& type, std::vector<std::vector<std::byte>> parts,
                                                   const std::exception_ptr& error, Rank src, const ProcessGroup& group, const CallOptions& options);

/// Sends the bytes of an object to rank `dst`.
UNISONO_API void send_parcel(std::vector<std::byte> bytes, Rank dst, const ProcessGroup& group, const CallOptions& options);

/// Receives the bytes of an object and returns them with the sender's rank. Without a source any
/// rank may send.
UNISONO_API std::pair<std::vector<std::byte>, int> recv_parcel(const ObjectType& type, std::optional<Rank> src, const ProcessGroup& group,
                                                               const CallOptions& options);

}  // namespace unisono::detail
