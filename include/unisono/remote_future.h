#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/remote_call.h"
#include "unisono/detail/remote_values.h"
#include "unisono/detail/standard.h"
#include "unisono/error.h"

// The results of calls that a controller makes on its workers (controller.h).

namespace unisono {

/// The result of a call on a worker, which may not have come yet. Copies refer to the same call.
///
/// A future may be waited for by any thread, and may outlive the controller: a call that is under way
/// at its end has NotInitialized as its error. Dropping a future does not cancel the call: it is run,
/// and nobody learns of its error.
template <class R>
class [[nodiscard]] Future {
 public:
  /// Waits for the call and returns its result, once: a second `get` throws InvalidArgument.
  ///
  /// The thread that waits drives all calls of the controller meanwhile.
  ///
  /// @throws the exception of the call: an error of unisono in its own type, anything else as RemoteError. The text has worker, function, types of
  /// the
  ///   arguments, and the line of the call
  /// @throws PeerFailed if the worker is lost; `culprit()` is its number
  /// @throws Cancelled if the call was cancelled before it began
  R get() const { return detail::result_of<R>(call().take()); }
  /// Waits for the call, well or not.
  void wait() const { call().wait(); }
  /// Waits for at most that long, and returns whether the call is done, well or not.
  bool wait_for(std::chrono::milliseconds at_most) const { return call().wait(at_most); }
  /// Tells whether the call is done. Looks for what has come, and never blocks.
  bool is_completed() const { return call().poll(); }
  /// Asks the worker to leave the call out if it has not begun: `get` throws Cancelled then. Returns false if it is done already. After true the call
  /// may still have been too far.
  bool cancel() const { return call().cancel(); }
  /// Returns the error; null while the call is under way, and if it went well.
  std::exception_ptr exception() const { return call().error(); }
  /// Calls `f` once with this future, when it is done: at once in this thread if it is, otherwise in
  /// the thread that learns of it. `f` must not throw. It may make calls, and holds no lock.
  template <class F>
  void then(F&& f) const {
    static_assert(std::is_invocable_v<F&, Future>, "unisono: what is given to `then` is called with the future: [](unisono::Future<int> done) { … }");
    call().then([f = std::forward<F>(f), done = *this]() mutable { f(std::move(done)); });
  }
  /// Returns the number of the worker.
  int worker() const { return call().worker(); }

  /// Makes a future that refers to no call; every use of it except assignment throws InvalidArgument.
  Future() = default;
  /// Makes the future of a call. The library calls it.
  explicit Future(std::shared_ptr<detail::RemoteCall> call) noexcept : call_(std::move(call)) {}
  /// Returns the call. The library calls it.
  const std::shared_ptr<detail::RemoteCall>& shared_call() const noexcept { return call_; }

 private:
  detail::RemoteCall& call() const {
    if (!call_) throw InvalidArgument("this future refers to no call");
    return *call_;
  }
  std::shared_ptr<detail::RemoteCall> call_;
};

/// The results of a call on several workers, in their order.
template <class R>
class [[nodiscard]] Futures {
 public:
  /// Waits for all, and returns their results in the order of the workers, or nothing. If calls have failed, throws the first error in that order;
  /// the futures of the others still have their results then.
  auto get() const {
    wait();
    for (const auto& future : futures_) {
      if (const std::exception_ptr error = future.exception()) std::rethrow_exception(error);
    }
    if constexpr (!std::is_void_v<R>) {
      std::vector<R> results;
      results.reserve(futures_.size());
      for (const auto& future : futures_) results.push_back(future.get());
      return results;
    }
  }
  /// Waits for all, well or not.
  void wait() const {
    for (const auto& future : futures_) future.wait();
  }
  /// Asks all workers to leave the call out if it has not begun.
  void cancel() const {
    for (const auto& future : futures_) future.cancel();
  }
  std::size_t size() const noexcept { return futures_.size(); }
  const Future<R>& operator[](std::size_t i) const { return futures_.at(i); }
  auto begin() const noexcept { return futures_.begin(); }
  auto end() const noexcept { return futures_.end(); }

  explicit Futures(std::vector<Future<R>> futures) noexcept : futures_(std::move(futures)) {}

 private:
  std::vector<Future<R>> futures_;
};

namespace detail {
template <class List>
std::optional<std::size_t> wait_any_of(const List& futures, std::optional<std::chrono::milliseconds> at_most) {
  std::vector<std::shared_ptr<RemoteCall>> calls;
  for (const auto& future : futures) calls.push_back(future.shared_call());
  return wait_any(calls, at_most);
}
}  // namespace detail

/// Waits until one of the calls is done, well or not, and returns its index. One that was done before counts.
///
/// @throws InvalidArgument for an empty list, and for futures of several controllers
template <class R>
std::size_t wait_any(const Futures<R>& futures) {
  return *detail::wait_any_of(futures, {});
}
template <class R>
std::size_t wait_any(const std::vector<Future<R>>& futures) {
  return *detail::wait_any_of(futures, {});
}
/// The same for at most that long; std::nullopt if none is done then.
template <class R>
std::optional<std::size_t> wait_any(const Futures<R>& futures, std::chrono::milliseconds at_most) {
  return detail::wait_any_of(futures, at_most);
}
template <class R>
std::optional<std::size_t> wait_any(const std::vector<Future<R>>& futures, std::chrono::milliseconds at_most) {
  return detail::wait_any_of(futures, at_most);
}

}  // namespace unisono
