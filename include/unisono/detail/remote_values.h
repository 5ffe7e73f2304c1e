#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/object_bytes.h"
#include "unisono/detail/remote_call.h"
#include "unisono/detail/standard.h"
#include "unisono/error.h"

// Arguments and results of calls as frames: objects in the body, one behind the other, and large vectors and strings as
// parts, whose slot is the number of the argument.

namespace unisono::detail {

/// Elements that a function takes as a std::span: the received part itself, without a copy.
template <class T>
struct ReceivedSpan {
  std::shared_ptr<void> owner = {};
  std::span<T> view = {};
};

/// The type as which a parameter of a function, or a result, travels.
template <class P>
struct travelling_as {
  using type = sent_as_t<P>;
};
template <class T>
requires numeric<std::remove_const_t<T>>
struct travelling_as<std::span<T>> {
  using type = ReceivedSpan<std::remove_const_t<T>>;
};
template <class P>
using travelling_t = typename travelling_as<std::remove_cvref_t<P>>::type;

template <class V>
inline constexpr bool is_received_span = false;
template <class T>
inline constexpr bool is_received_span<ReceivedSpan<T>> = true;

/// A type whose bytes lie together, so that they may travel as a part.
template <class V>
inline constexpr bool is_block = false;
template <numeric T, class A>
inline constexpr bool is_block<std::vector<T, A>> = !std::same_as<T, bool>;
template <>
inline constexpr bool is_block<std::string> = true;

/// A parameter or a result that can travel.
template <class P>
concept can_travel = is_received_span<travelling_t<P>> || object<travelling_t<P>>;

/// Fails to compile, with a sentence, for parameters that no call can be given.
template <class P>
constexpr bool check_parameter() {
  static_assert(!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
                "unisono: a function that is called on a worker takes its parameters by value or by const reference: what it writes to others stays "
                "there");
  static_assert(can_travel<P>,
                "unisono: this parameter is not an object: a function that is called on a worker takes numbers, strings, standard containers of "
                "them, types with UNISONO_FIELDS or unisono::object_traits, and spans of numbers");
  return true;
}
/// The same for its result.
template <class R>
constexpr bool check_remote_result() {
  static_assert(!std::is_reference_v<R>, "unisono: a function that is called on a worker returns a value: what a reference refers to stays there");
  static_assert(std::is_void_v<R> || (can_travel<R> && !is_received_span<travelling_t<R>>),
                "unisono: this result is not an object: a function that is called on a worker returns nothing, a number, a string, a standard "
                "container of them, or a type with UNISONO_FIELDS or unisono::object_traits");
  return true;
}

/// Appends the name of the type as which a parameter travels.
template <class P>
void add_travelling(TypeName& name) {
  if constexpr (std::is_void_v<P>) {
    name << "nothing";
  } else if constexpr (is_received_span<travelling_t<P>>) {
    name.add<std::vector<std::remove_const_t<typename std::remove_cvref_t<P>::element_type>>>();
  } else {
    name.add<travelling_t<P>>();
  }
}

/// Returns a text like "(string, int32) -> float64".
template <class R, class... P>
std::string signature_of() {
  TypeName name;
  name << "(";
  [[maybe_unused]] std::string_view between;
  ((name << std::exchange(between, ", "), add_travelling<P>(name)), ...);
  name << ") -> ";
  add_travelling<R>(name);
  return name.take();
}

/// Adds contiguous elements to a frame: as a part, whose memory is that of `block`, if they are many.
template <class Block>
void put_block(ObjectWriter& out, Frame& frame, std::uint32_t slot, Block&& block) {
  using V = std::remove_cvref_t<Block>;
  const std::size_t bytes = block.size() * sizeof(typename V::value_type);
  if (bytes < least_part) {
    codec<V>::write(out, block);
    return;
  }
  auto owner = std::make_shared<V>(std::forward<Block>(block));
  auto* const data = reinterpret_cast<std::byte*>(owner->data());
  frame.parts.push_back({.data = data, .bytes = bytes, .owner = std::move(owner), .slot = slot});
}

/// Adds an argument for a parameter of type P. Only an lvalue is copied.
template <class P, class A>
void put_argument(ObjectWriter& out, Frame& frame, std::uint32_t slot, A&& argument) {
  using V = travelling_t<P>;
  if constexpr (is_received_span<V>) {
    using T = typename std::remove_cvref_t<P>::element_type;
    using Vector = std::vector<std::remove_const_t<T>>;
    if constexpr (std::same_as<Vector, std::remove_cvref_t<A>>) {
      put_block(out, frame, slot, std::forward<A>(argument));
    } else {
      const std::span<const T> elements(argument);
      put_block(out, frame, slot, Vector(elements.begin(), elements.end()));
    }
  } else if constexpr (!std::same_as<V, std::remove_cvref_t<A>>) {
    V converted(std::forward<A>(argument));
    put_argument<V>(out, frame, slot, std::move(converted));
  } else if constexpr (is_block<V>) {
    put_block(out, frame, slot, std::forward<A>(argument));
  } else {
    codec<V>::write(out, argument);
  }
}

template <class... P, class... A, std::size_t... I>
Frame make_frame(std::index_sequence<I...>, A&&... arguments) {
  Frame frame;
  ObjectWriter out;
  (put_argument<P>(out, frame, static_cast<std::uint32_t>(I), std::forward<A>(arguments)), ...);
  frame.body = out.take();
  return frame;
}

/// Puts the arguments for parameters of the types P into a frame.
template <class... P, class... A>
Frame frame_of(A&&... arguments) {
  return make_frame<P...>(std::index_sequence_for<P...>(), std::forward<A>(arguments)...);
}

/// Makes the memory of a part: a vector or a string that becomes the argument.
template <class V>
FramePart memory_for(std::uint32_t slot, std::size_t bytes) {
  if constexpr (is_block<V>) {
    constexpr std::size_t size = sizeof(typename V::value_type);
    if (bytes % size != 0) throw ProtocolError("a part of a call has no whole number of elements");
    auto owner = std::make_shared<V>();
    owner->resize(bytes / size);
    auto* const data = reinterpret_cast<std::byte*>(owner->data());
    return {.data = data, .bytes = bytes, .owner = std::move(owner), .slot = slot};
  } else {
    return part_memory(slot, bytes);
  }
}

/// Makes the memory of the parts of a call with these parameters.
template <class... P>
FramePart memory_of_arguments(std::uint32_t slot, std::size_t bytes) {
  FramePart part;
  std::uint32_t number = 0;
  [[maybe_unused]] const auto is_it = [&]<class V>(std::type_identity<V>) {
    if (number++ == slot) part = memory_for<V>(slot, bytes);
  };
  (is_it(std::type_identity<travelling_t<P>>()), ...);
  if (part.owner == nullptr) throw ProtocolError("a part of a call belongs to no argument");
  return part;
}

/// Takes a value out of a frame that was received.
template <class V>
V take_value(ObjectReader& in, Frame& frame, std::uint32_t slot) {
  if constexpr (is_block<V> || is_received_span<V>) {
    auto part = frame.parts.begin();
    while (part != frame.parts.end() && part->slot != slot) ++part;
    if constexpr (is_received_span<V>) {
      using T = typename decltype(V::view)::element_type;
      if (part != frame.parts.end()) return {part->owner, {reinterpret_cast<T*>(part->data), part->bytes / sizeof(T)}};
      auto owner = std::make_shared<std::vector<T>>(codec<std::vector<T>>::read(in));
      const std::span<T> view(*owner);
      return {std::move(owner), view};
    } else {
      if (part == frame.parts.end()) return codec<V>::read(in);
      return std::move(*static_cast<V*>(part->owner.get()));  // of memory_for
    }
  } else {
    return codec<V>::read(in);
  }
}

template <class... P, std::size_t... I>
std::tuple<travelling_t<P>...> take_values(std::index_sequence<I...>, Frame& frame) {
  ObjectReader in(frame.body);
  std::tuple<travelling_t<P>...> values{take_value<travelling_t<P>>(in, frame, static_cast<std::uint32_t>(I))...};  // in the order of the list
  in.finish();
  return values;
}

/// Takes the arguments for parameters of the types P out of a frame.
template <class... P>
std::tuple<travelling_t<P>...> arguments_of(Frame& frame) {
  return take_values<P...>(std::index_sequence_for<P...>(), frame);
}

/// Passes a value that was received on to a parameter of type P.
template <class P, class V>
decltype(auto) pass_on(V& value) {
  if constexpr (is_received_span<V>) return std::remove_cvref_t<P>(value.view);
  else if constexpr (std::is_lvalue_reference_v<P>) return static_cast<const V&>(value);
  else if constexpr (std::same_as<std::remove_cvref_t<P>, V>) return static_cast<V&&>(value);
  else return std::remove_cvref_t<P>(value);  // a string view
}

/// Calls `f` with arguments for parameters of the types P, and puts what it returns into a frame.
template <class R, class... P, class F>
Frame run_with_frame(F&& f, Frame& arguments) {
  auto values = arguments_of<P...>(arguments);
  const auto call = [&](auto&... value) -> R { return f(pass_on<P>(value)...); };
  if constexpr (std::is_void_v<R>) {
    std::apply(call, values);
    return {};
  } else {
    return frame_of<R>(std::apply(call, values));
  }
}

/// Takes a result out of a frame.
template <class R>
R result_of(Frame&& frame) {
  if constexpr (!std::is_void_v<R>) return std::get<0>(arguments_of<R>(frame));
}

}  // namespace unisono::detail
