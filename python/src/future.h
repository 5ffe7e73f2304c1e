#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>

#include "unisono/detail/remote_call.h"

namespace unisono::python {

namespace nb = nanobind;

/// What is known of a call beside its arguments.
struct CallText {
  std::string function;  ///< "train.step(int, ndarray)"
  int worker = -1;
  std::source_location where = {};
  bool may_pickle = true;  ///< whether the controller may read pickles
};

/// A call on a worker, as Python waits for it. All functions are called with the interpreter lock.
class Future {
 public:
  Future(std::shared_ptr<detail::RemoteCall> call, CallText text) : call_(std::move(call)), text_(std::move(text)) {}
  /// A call that was not sent, because of this.
  Future(nb::object error, CallText text) : text_(std::move(text)), is_settled_(true), error_(std::move(error)) {}
  ~Future();
  Future(const Future&) = delete;
  Future& operator=(const Future&) = delete;

  nb::object result(nb::handle timeout);
  nb::object exception(nb::handle timeout);
  bool is_done();
  bool cancel();
  bool is_cancelled();
  int worker() const { return text_.worker; }
  std::string text();
  static void add_done_callback(nb::handle self, nb::object callback);

  /// Returns the index of one that is done; std::nullopt if none is after so long.
  static std::optional<std::size_t> wait_any(const nb::list& futures, std::optional<std::chrono::milliseconds> at_most);

 private:
  /// Waits, and takes what has come. Returns whether the call is done.
  bool settle(std::optional<std::chrono::milliseconds> at_most);
  void settle_in_time(nb::handle timeout, const char* operation);
  void take(const detail::Frame& frame);

  std::shared_ptr<detail::RemoteCall> call_;  // null: not sent
  const CallText text_;
  std::mutex mutex_;  // never waited for with the interpreter lock
  bool is_settled_ = false;
  nb::object value_, error_;
};

/// Whether the object is a Future.
bool is_future(nb::handle x);

}  // namespace unisono::python
