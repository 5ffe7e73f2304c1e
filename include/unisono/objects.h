#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/any_value.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/object_bytes.h"
#include "unisono/detail/object_exchange.h"
#include "unisono/error.h"
#include "unisono/point_to_point.h"
#include "unisono/process_group.h"

// Collectives and messages of objects, whose size only their owner knows.
//
// An object is a number, an enum, a std::string (bytes of any kind), a std::filesystem::path, a
// time of std::chrono; a std::optional, variant, tuple, pair or unique_ptr of objects; a container
// of the standard library of them, in any depth; or a type with UNISONO_FIELDS or object_traits.
// Literals and std::string_view are sent as std::string.
//
// ```cpp
// struct Report {
//   std::string host;
//   std::map<std::string, double> seconds;
//   UNISONO_FIELDS(host, seconds)
// };
// std::vector<Report> reports = all_gather_object(own_report);
// ```
//
// Objects travel as MessagePack: data and nothing else, in exactly the type that they have. Nothing
// that is received is ever executed, in contrast to the pickles of Python. Every rank gives the
// same type, else all ranks throw Mismatch before anything is moved. What is received is a copy,
// also in a group of one.
//
// An object that is larger than the limit (ObjectLimits) and one that a rank fails to write are
// errors on all ranks alike, and leave the group usable: the rank that fails throws what went
// wrong, the others InvalidArgument. An exception of object_traits while reading is thrown where it
// happens, after the call is complete on all ranks.

namespace unisono {

namespace detail {

/// Writes an object to bytes, or keeps the exception that writing throws.
template <object_argument X>
Parcel parcel_of(const X& x) {
  return make_parcel([&] {
    using O = sent_as_t<X>;
    if constexpr (std::same_as<O, std::remove_cvref_t<X>>) {
      return to_bytes<O>(x);
    } else {
      if constexpr (std::is_pointer_v<X>) {
        if (x == nullptr) throw InvalidArgument("a null pointer is not a text");
      }
      return to_bytes<O>(O(x));
    }
  });
}

/// Reads the objects of all ranks.
template <object O>
std::vector<O> objects_of(const ByteParts& parts) {
  std::vector<O> objects;
  objects.reserve(parts.size());
  for (std::size_t r = 0; r < parts.size(); ++r) objects.push_back(from_bytes<O>(parts[r]));
  return objects;
}

/// Carries out all_gather_object under the name that the user called.
template <object_argument X>
std::vector<sent_as_t<X>> all_gather_as(std::string_view label, const X& x, const ProcessGroup& group, const CallOptions& options) {
  using O = sent_as_t<X>;
  return objects_of<O>(all_gather_parcels(label, object_type<O>(), parcel_of(x), group, options));
}

/// Carries out gather_object under the name that the user called.
template <object_argument X>
std::optional<std::vector<sent_as_t<X>>> gather_as(std::string_view label, const X& x, Rank dst, const ProcessGroup& group,
                                                   const CallOptions& options) {
  using O = sent_as_t<X>;
  const auto parcels = gather_parcels(label, object_type<O>(), parcel_of(x), dst, group, options);
  if (!parcels) return std::nullopt;
  return objects_of<O>(*parcels);
}
}  // namespace detail

/// Returns the objects of all ranks on every rank; element r is that of rank r.
template <detail::object_argument X>
[[nodiscard]] std::vector<detail::sent_as_t<X>> all_gather_object(const X& x, const ProcessGroup& group = current_world(),
                                                                  const CallOptions& options = {}) {
  return detail::all_gather_as("all_gather_object", x, group, options);
}

/// Returns the objects of all ranks on rank `dst`, and std::nullopt on every other rank.
template <detail::object_argument X>
[[nodiscard]] std::optional<std::vector<detail::sent_as_t<X>>> gather_object(const X& x, Rank dst = 0, const ProcessGroup& group = current_world(),
                                                                             const CallOptions& options = {}) {
  return detail::gather_as("gather_object", x, dst, group, options);
}

/// Replaces `x` on every rank by that of rank `src`, which keeps its own.
template <detail::object O>
void broadcast_object(O& x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Parcel own = detail::parcel_at(src, group, [&] { return detail::parcel_of(x); });
  const auto bytes = detail::broadcast_parcel("broadcast_object", detail::object_type<O>(), std::move(own), src, group, options);
  if (!detail::rank_is(src, group)) x = detail::from_bytes<O>(bytes);
}

/// Replaces the list on every rank by that of rank `src`, whose length it takes as well.
template <detail::object O>
void broadcast_object_list(std::vector<O>& list, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  using List = std::vector<O>;
  detail::Parcel own = detail::parcel_at(src, group, [&] { return detail::parcel_of(list); });
  const auto bytes = detail::broadcast_parcel("broadcast_object_list", detail::object_type<List>(), std::move(own), src, group, options);
  if (!detail::rank_is(src, group)) list = detail::from_bytes<List>(bytes);
}

/// Returns element r of rank `src`'s list on rank r.
///
/// That list has group.size() elements; otherwise all ranks throw InvalidArgument. The lists of the
/// other ranks are ignored.
template <detail::object O>
[[nodiscard]] O scatter_object(const std::vector<O>& list, Rank src = 0, const ProcessGroup& group = current_world(),
                               const CallOptions& options = {}) {
  std::vector<std::vector<std::byte>> parts;
  const detail::Parcel none = detail::parcel_at(src, group, [&] {
    return detail::make_parcel([&]() -> std::vector<std::byte> {
      if (list.size() != static_cast<std::size_t>(group.size())) {
        throw InvalidArgument("the list has " + std::to_string(list.size()) + " objects for a group of " + std::to_string(group.size()));
      }
      for (const O& x : list) parts.push_back(detail::to_bytes<O>(x));
      return {};
    });
  });
  const auto bytes = detail::scatter_parcels("scatter_object", detail::object_type<O>(), std::move(parts), none.error, src, group, options);
  return detail::from_bytes<O>(bytes);
}

/// Sends an object to rank `dst`, which receives it with recv_object. Up to 64 KiB the call does
/// not wait for that.
template <detail::object_argument X>
void send_object(const X& x, Rank dst, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  detail::Parcel parcel = detail::parcel_of(x);
  if (parcel.error) std::rethrow_exception(parcel.error);
  detail::send_parcel(std::move(parcel.bytes), dst, group, options);
}

/// Receives an object of rank `src`, or of any_source, and returns it: `recv_object<Report>(1)`.
///
/// An object of another type, and a message that `send` has sent, are Mismatch and are gone then.
/// An object is two messages: a plain `recv` that meets them is Mismatch as well.
template <detail::object O>
[[nodiscard]] O recv_object(Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::from_bytes<O>(detail::recv_parcel(detail::object_type<O>(), src.rank(), group, options).first);
}

/// Receives an object of rank `src`, or of any_source, into `x` and returns the sender's rank.
template <detail::object O>
int recv_object(O& x, Source src, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  const auto [bytes, source] = detail::recv_parcel(detail::object_type<O>(), src.rank(), group, options);
  x = detail::from_bytes<O>(bytes);
  return source;
}

// An object that is not a buffer may stand wherever a value may.

/// Returns the object of rank `src` on every rank; the other ranks' objects are ignored. An object that
/// is not a buffer may stand wherever a value may.
template <detail::object_value X>
[[nodiscard]] detail::sent_as_t<X> broadcast(X&& x, Rank src = 0, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  using O = detail::sent_as_t<X>;
  detail::Parcel own = detail::parcel_at(src, group, [&] { return detail::parcel_of(x); });
  return detail::from_bytes<O>(detail::broadcast_parcel("broadcast", detail::object_type<O>(), std::move(own), src, group, options));
}

/// Returns the objects of all ranks on every rank.
template <detail::object_value X>
[[nodiscard]] std::vector<detail::sent_as_t<X>> all_gather(X&& x, const ProcessGroup& group = current_world(), const CallOptions& options = {}) {
  return detail::all_gather_as("all_gather", x, group, options);
}

/// Returns the objects of all ranks on rank `dst`, and std::nullopt on every other rank.
template <detail::object_value X>
[[nodiscard]] std::optional<std::vector<detail::sent_as_t<X>>> gather(X&& x, Rank dst = 0, const ProcessGroup& group = current_world(),
                                                                      const CallOptions& options = {}) {
  return detail::gather_as("gather", x, dst, group, options);
}

// These refuse arguments that are no objects.

template <class X, class... Rest>
requires(!detail::object_argument<X>) void all_gather_object(X&&, Rest&&...) { detail::refuse_as_object<X>(); }
template <class X, class... Rest>
requires(!detail::object_argument<X>) void gather_object(X&&, Rest&&...) { detail::refuse_as_object<X>(); }
template <class X, class... Rest>
requires(!detail::object_argument<X>) void broadcast_object(X&&, Rest&&...) { detail::refuse_as_object<X>(); }
template <class X, class... Rest>
requires(!detail::object<X>) void broadcast_object_list(std::vector<X>&, Rest&&...) { detail::refuse_as_object<X>(); }
template <class X, class... Rest>
requires(!detail::object<X>) void scatter_object(const std::vector<X>&, Rest&&...) { detail::refuse_as_object<X>(); }
template <class X, class... Rest>
requires(!detail::object_argument<X>) void send_object(X&&, Rest&&...) { detail::refuse_as_object<X>(); }

/// Returns the value of rank `src` on every rank, whatever it is: the other ranks know nothing of
/// it and pass std::nullopt, or anything, since it is ignored.
///
/// @throws InvalidArgument on all ranks if rank `src` passes std::nullopt
[[nodiscard]] UNISONO_API AnyValue broadcast_any(const std::optional<AnyValue>& value, Rank src = 0, const ProcessGroup& group = current_world(),
                                                 const CallOptions& options = {});

}  // namespace unisono
