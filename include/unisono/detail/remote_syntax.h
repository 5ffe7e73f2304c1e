#pragma once

#include <source_location>
#include <utility>

// What is written of calls of a controller (controller.h), with the place where it is written.

namespace unisono::detail {

// `call` and `make` with the place of the call in the program, which a parameter behind the arguments takes: so there is one for each number of them.
#define UNISONO_DETAIL_LIST(...) __VA_ARGS__
#define UNISONO_DETAIL_CALL(types, parameters, names)                                                                         \
  template <class F, UNISONO_DETAIL_LIST types>                                                                               \
  auto call(const F& f, UNISONO_DETAIL_LIST parameters, std::source_location where = std::source_location::current()) const { \
    return self().call_at(where, f, UNISONO_DETAIL_LIST names);                                                               \
  }
#define UNISONO_DETAIL_MAKE(types, parameters, names)                                                             \
  template <class T, UNISONO_DETAIL_LIST types>                                                                   \
  auto make(UNISONO_DETAIL_LIST parameters, std::source_location where = std::source_location::current()) const { \
    return self().template make_at<T>(where, UNISONO_DETAIL_LIST names);                                          \
  }
#define UNISONO_DETAIL_EACH_NUMBER(define)                                                                                                 \
  define((class A), (A && a), (std::forward<A>(a))) define((class A, class B), (A && a, B && b), (std::forward<A>(a), std::forward<B>(b))) \
      define((class A, class B, class C), (A && a, B && b, C && c), (std::forward<A>(a), std::forward<B>(b), std::forward<C>(c)))          \
          define((class A, class B, class C, class D), (A && a, B && b, C && c, D && d),                                                   \
                 (std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d)))                                         \
              define((class A, class B, class C, class D, class E), (A && a, B && b, C && c, D && d, E && e),                              \
                     (std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d), std::forward<E>(e)))                 \
                  define((class A, class B, class C, class D, class E, class G), (A && a, B && b, C && c, D && d, E && e, G && g),         \
                         (std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d), std::forward<E>(e), std::forward<G>(g)))

/// The types that can be called: a controller, a worker, and the handles of objects. Of a call with
/// more than six arguments no error tells the line.
template <class Self>
class Callable {
 public:
  /// Calls a function, or a method of an object, on the worker or on each of them, with these arguments. Returns at once: a Future, or Futures in the
  /// order of the workers.
  ///
  /// `f` is registered by UNISONO_REMOTE or UNISONO_ACTOR. Arguments that are rvalues are moved: large vectors and strings of numbers are never
  /// copied on this side then.
  ///
  /// @throws InvalidArgument for a function that is not registered, and for arguments above the limit of objects
  /// @throws NotInitialized after the end of the controller
  template <class F>
  auto call(const F& f, std::source_location where = std::source_location::current()) const {
    return self().call_at(where, f);
  }
  UNISONO_DETAIL_EACH_NUMBER(UNISONO_DETAIL_CALL)
  template <class F, class... A>
  requires(sizeof...(A) > 6) auto call(const F& f, A&&... arguments) const { return self().call_at({}, f, std::forward<A>(arguments)...); }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

/// The types that can make objects: a controller and a worker. Of more than six arguments no error
/// tells the line.
template <class Self>
class ObjectMaker {
 public:
  /// Makes an object of T from these arguments, on the worker or on each of them. Returns at once: a Handle, or Handles in the order of the workers.
  template <class T>
  auto make(std::source_location where = std::source_location::current()) const {
    return self().template make_at<T>(where);
  }
  UNISONO_DETAIL_EACH_NUMBER(UNISONO_DETAIL_MAKE)
  template <class T, class... A>
  requires(sizeof...(A) > 6) auto make(A&&... arguments) const { return self().template make_at<T>({}, std::forward<A>(arguments)...); }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};
#undef UNISONO_DETAIL_EACH_NUMBER
#undef UNISONO_DETAIL_MAKE
#undef UNISONO_DETAIL_CALL

}  // namespace unisono::detail
