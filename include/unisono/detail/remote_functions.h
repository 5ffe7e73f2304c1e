#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "unisono/detail/remote_call.h"
#include "unisono/detail/remote_values.h"
#include "unisono/error.h"

// From functions and methods of a program to what is registered of them.

namespace unisono::detail {

/// A pointer to a function, or to a member function, with its types.
template <class Pointer>
struct remote_pointer;
template <class R, class... P>
struct remote_pointer<R (*)(P...)> {
  using result_type = R;
  static constexpr std::size_t parameters = sizeof...(P);
  static constexpr bool is_sound = check_remote_result<R>() && (check_parameter<P>() && ...);
  static std::string signature() { return signature_of<R, P...>(); }
  static PartMemory memory() { return &memory_of_arguments<P...>; }
  template <class... A>
  static Frame frame(A&&... arguments) {
    return frame_of<P...>(std::forward<A>(arguments)...);
  }
  template <class... A>
  static constexpr bool takes = sizeof...(A) == sizeof...(P);
  static RemoteFunction function(const std::string& name, R (*f)(P...)) {
    return {.name = name,
            .signature = signature(),
            .run = [f](RemoteRun&, Frame&& arguments) { return run_with_frame<R, P...>(f, arguments); },
            .memory = memory()};
  }
};

template <class C, class Self, class Pointer, class R, class... P>
struct remote_method_of : remote_pointer<R (*)(P...)> {
  using actor_type = C;
  static RemoteFunction function(const std::string& name, Pointer f) {
    return {.name = name,
            .signature = signature_of<R, P...>(),
            .kind = RemoteFunction::Kind::method,
            .actor = type_text(typeid(C)),
            .run =
                [f](RemoteRun& run, Frame&& arguments) {
                  auto& object = *static_cast<Self*>(run.object.get());
                  return run_with_frame<R, P...>([&](auto&&... values) -> R { return (object.*f)(std::forward<decltype(values)>(values)...); },
                                                 arguments);
                },
            .memory = remote_pointer<R (*)(P...)>::memory()};
  }
};
template <class C, class R, class... P>
struct remote_pointer<R (C::*)(P...)> : remote_method_of<C, C, R (C::*)(P...), R, P...> {};
template <class C, class R, class... P>
struct remote_pointer<R (C::*)(P...) const> : remote_method_of<C, const C, R (C::*)(P...) const, R, P...> {};
template <class R, class... P>
struct remote_pointer<R (*)(P...) noexcept> : remote_pointer<R (*)(P...)> {};
template <class C, class R, class... P>
struct remote_pointer<R (C::*)(P...) noexcept> : remote_pointer<R (C::*)(P...)> {};
template <class C, class R, class... P>
struct remote_pointer<R (C::*)(P...) const noexcept> : remote_pointer<R (C::*)(P...) const> {};

/// A function, a pointer to one, or a lambda without captures that has a name.
template <class F>
concept has_remote_pointer = std::is_function_v<std::remove_pointer_t<std::remove_cvref_t<F>>> ||
    std::is_member_function_pointer_v<std::remove_cvref_t<F>> || requires(const std::remove_cvref_t<F>& f) {
  +f;
};

/// Returns what identifies a function: a pointer to it.
template <class F>
auto pointer_of(const F& f) {
  static_assert(
      has_remote_pointer<F>,
      "unisono: a worker calls functions, and methods of actors: what a lambda has captured, or a function object holds, stays in this process. "
      "Register a function with UNISONO_REMOTE(function), and pass what it needs as arguments");
  if constexpr (std::is_member_function_pointer_v<F>) return f;
  else if constexpr (has_remote_pointer<F>) return +f;
  else return static_cast<void (*)()>(nullptr);
}

template <class Pointer>
std::span<const std::byte> bytes_of_pointer(const Pointer& pointer) {
  return {reinterpret_cast<const std::byte*>(&pointer), sizeof pointer};
}

/// Registers a function under the name by which it was written.
template <class F>
const RemoteFunction& declare_pointer(std::string_view written, const F& f) {
  const auto pointer = pointer_of(f);
  using Pointer = std::remove_const_t<decltype(pointer)>;
  static_assert(remote_pointer<Pointer>::is_sound);
  while (!written.empty() && (written.front() == '&' || written.front() == ' ')) written.remove_prefix(1);
  const RemoteFunction* const function = &declare_remote(remote_pointer<Pointer>::function(std::string(written), pointer));
  name_remote(typeid(Pointer), bytes_of_pointer(pointer), *function);
  return *function;
}

/// Returns the next name of a list as a macro has it, and takes it off.
inline std::string_view take_name(std::string_view& list) {
  int depth = 0;
  std::size_t end = 0;
  for (; end < list.size() && (depth > 0 || list[end] != ','); ++end) {
    if (list[end] == '(' || list[end] == '<') ++depth;
    if (list[end] == ')' || (list[end] == '>' && list[end - 1] != '-')) --depth;
  }
  std::string_view name = list.substr(0, end);
  list.remove_prefix(end < list.size() ? end + 1 : end);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return name;
}

/// Registers the methods of a type.
template <class T, class... Method>
bool declare_actor(std::string_view written, Method... methods) {
  static_assert((std::is_member_function_pointer_v<Method> && ...),
                "unisono: UNISONO_ACTOR takes a type and its methods: UNISONO_ACTOR(Trainer, &Trainer::step, &Trainer::loss)");
  static_assert((std::is_same_v<typename remote_pointer<Method>::actor_type, T> && ...),
                "unisono: a method in UNISONO_ACTOR belongs to another type, perhaps to a base: give the methods of the type itself");
  (static_cast<void>(declare_pointer(take_name(written), methods)), ...);
  return true;
}

/// Returns what a pointer was registered as. InvalidArgument if it was not.
template <class Pointer>
const RemoteFunction& registered(const Pointer& pointer) {
  const RemoteFunction* const function = find_remote(typeid(Pointer), bytes_of_pointer(pointer));
  if (function != nullptr) return *function;
  if constexpr (std::is_member_function_pointer_v<Pointer>) {
    throw InvalidArgument("a method of " + type_text(typeid(typename remote_pointer<Pointer>::actor_type)) + " is called that is not registered",
                          {.operation = "call", .hint = "name it in UNISONO_ACTOR(Type, &Type::method), in a source of every process's program"});
  } else {
    throw InvalidArgument("a function of the type " + type_text(typeid(std::remove_pointer_t<Pointer>)) + " is called that is not registered",
                          {.operation = "call", .hint = "write UNISONO_REMOTE(function) after it, in a source of every process's program"});
  }
}

/// The function that makes a T on a worker from arguments of these types.
template <class T, class... A>
struct Maker {
  static const RemoteFunction& declare() {
    static_assert((check_parameter<A>() && ...));
    const std::string type = type_text(typeid(T)), signature = signature_of<void, A...>();
    if (const RemoteFunction* const known = find_remote(type, signature)) return *known;  // a library of the program has it, too
    return declare_remote({.name = type,
                           .signature = signature,
                           .kind = RemoteFunction::Kind::maker,
                           .actor = type,
                           .run =
                               [](RemoteRun& run, Frame&& arguments) {
                                 return run_with_frame<void, A...>(
                                     [&](auto&&... values) { run.object = std::make_shared<T>(std::forward<decltype(values)>(values)...); },
                                     arguments);
                               },
                           .memory = &memory_of_arguments<A...>});
  }
  /// Registered before main, in every process that runs this program.
  static inline const RemoteFunction& function = declare();
};

}  // namespace unisono::detail
