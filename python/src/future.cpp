// Calls that are under way on workers.

#include "future.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>
#include <vector>

#include "arguments.h"
#include "docs/work.h"
#include "failure.h"
#include "frames.h"
#include "imports.h"
#include "module.h"
#include "places.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

[[noreturn]] void raise(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

/// Calls the function with the future. There is nobody to whom it could raise.
void call_back(const nb::object& callback, const nb::object& future) {
  try {
    callback(future);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(callback);
  }
}

}  // namespace

bool is_future(nb::handle x) { return nb::isinstance<Future>(x); }

/// The last call of a controller that has ended may end its thread, which may want the lock.
Future::~Future() {
  const Unlocked released;
  call_.reset();
}

void Future::take(const detail::Frame& frame) {
  if (!text_.may_pickle && form_of(frame) == Form::pickle) {
    throw ProtocolError("worker " + std::to_string(text_.worker) + " has answered by a pickle, and none are allowed here", {.operation = "call"});
  }
  const Received answer = received(frame);
  if (!answer.is_failure) {
    value_ = answer.object;
    return;
  }
  error_ = imported("unisono._serving").attr("arrived")(answer.object, text_.may_pickle, text_.function, text_.worker, as_place(text_.where));
}

bool Future::settle(std::optional<std::chrono::milliseconds> at_most) {
  if (is_settled_) return true;
  std::unique_lock lock(mutex_, std::defer_lock);
  detail::Frame frame;
  std::exception_ptr failure;
  {
    const Unlocked released;
    if (!call_->wait(at_most)) return false;
    lock.lock();
    try {
      if (!is_settled_) frame = call_->take();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (is_settled_) return true;
  try {
    if (failure) error_ = as_python(failure);
    else take(frame);
  } catch (nb::python_error& error) {  // what has come cannot be read here
    error_ = nb::borrow(error.value());
  } catch (const Error&) {
    error_ = as_python(std::current_exception());
  }
  is_settled_ = true;
  return true;
}

void Future::settle_in_time(nb::handle timeout, const char* operation) {
  if (settle(timeout_of(timeout, operation))) return;
  throw Timeout("worker " + std::to_string(text_.worker) + ": " + text_.function + " is not done after " + nb::cast<std::string>(nb::str(timeout)) +
                    " s; it goes on",
                {.operation = operation, .where = text_.where});
}

nb::object Future::result(nb::handle timeout) {
  settle_in_time(timeout, "result");
  if (error_.is_valid()) raise(error_);
  return value_;
}

nb::object Future::exception(nb::handle timeout) {
  settle_in_time(timeout, "exception");
  return error_.is_valid() ? error_ : nb::none();
}

bool Future::is_done() {
  return is_settled_ || unlocked([&] { return call_->poll(); });
}

bool Future::cancel() {
  return call_ != nullptr && unlocked([&] { return call_->cancel(); });
}

bool Future::is_cancelled() {
  if (!is_done()) return false;
  settle(std::nullopt);
  return error_.is_valid() && nb::isinstance(error_, imported("unisono._errors").attr("Cancelled"));
}

std::string Future::text() {
  return "<unisono.Future of " + text_.function + " on worker " + std::to_string(text_.worker) + ": " + (is_done() ? "done" : "under way") + ">";
}

void Future::add_done_callback(nb::handle self, nb::object callback) {
  if (PyCallable_Check(callback.ptr()) == 0) throw_invalid("add_done_callback", "the argument must be a function of the future");
  const std::shared_ptr<detail::RemoteCall> call = content_of<Future>(self, "add_done_callback").call_;
  if (call == nullptr) return call_back(callback, nb::borrow(self));
  Kept future(nb::borrow(self)), kept(std::move(callback));  // made while this thread has the interpreter
  const Unlocked released;
  call->then([future = std::move(future), kept = std::move(kept)] {
    if (Py_IsInitialized() == 0) return;
    const Locked locked;
    call_back(kept.object(), future.object());
  });
}

std::optional<std::size_t> Future::wait_any(const nb::list& futures, std::optional<std::chrono::milliseconds> at_most) {
  std::vector<std::shared_ptr<detail::RemoteCall>> calls;
  for (const nb::handle each : futures) {
    if (!is_future(each)) throw_invalid("wait_any", "not all of these are Futures");
    const Future& future = content_of<Future>(each, "wait_any");
    if (future.is_settled_) return calls.size();
    calls.push_back(future.call_);
  }
  return unlocked([&] { return detail::wait_any(calls, at_most); });
}

void bind_future(nb::module_& m) {
  nb::class_<Future>(m, "Future", docs::future)
      .def("result", &Future::result, "timeout"_a = nb::none(), nb::sig("def result(self, timeout: Seconds = None) -> typing.Any"),
           docs::future_result)
      .def("exception", &Future::exception, "timeout"_a = nb::none(), nb::sig("def exception(self, timeout: Seconds = None) -> BaseException | None"),
           docs::future_exception)
      .def("done", &Future::is_done, "Tells whether the call is done, well or not. Never blocks.")
      .def("cancel", &Future::cancel, docs::future_cancel)
      .def("cancelled", &Future::is_cancelled, "Tells whether the call was left out.")
      .def("add_done_callback", &Future::add_done_callback, "callback"_a,
           nb::sig("def add_done_callback(self, callback: collections.abc.Callable[[Future], object]) -> None"), docs::add_done_callback)
      .def_prop_ro("worker", &Future::worker, "The number of the worker, from 0.")
      .def(
          "__await__", [](nb::handle self) { return imported("unisono._futures").attr("wait_for")(self); },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, typing.Any]"))
      .def("__repr__", &Future::text);
}

}  // namespace unisono::python
