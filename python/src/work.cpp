// The calls that are under way, as Python waits for them.

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "calls.h"
#include "docs/work.h"
#include "failure.h"
#include "future.h"
#include "module.h"
#include "signals.h"
#include "unisono/cuda.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// What operations have worked on that nobody waits for. It is given back with the interpreter lock, by the next operation.
class LeftBehind {
 public:
  void add(std::shared_ptr<Memory> memory) {
    const std::lock_guard lock(mutex_);
    memory_.push_back(std::move(memory));
  }
  void clear() {
    std::vector<std::shared_ptr<Memory>> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(memory_);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Memory>> memory_;
};
LeftBehind& left_behind() {
  static auto& instance = *new LeftBehind;  // operations may end after the destructors of static objects
  return instance;
}

std::optional<void*> stream_of(const std::vector<Buffer>& buffers) {
  for (const Buffer& buffer : buffers) {
    if (buffer.stream()) return buffer.stream();
  }
  return std::nullopt;
}

bool is_awaited(const std::vector<Buffer>& buffers) { return std::ranges::any_of(buffers, &Buffer::is_awaited); }

/// Without the interpreter lock, with the device's stream as the current one.
template <class F>
auto on_stream(const std::optional<void*>& stream, F&& f) {
  const Unlocked released;
  if (!stream) [[likely]]
    return f();
  const CurrentStream current(*stream);
  return f();
}

/// A Work, and what it works on: kept until the operation is done, also where nobody keeps the Work.
class PythonWork {
 public:
  PythonWork(Work work, Memory memory);
  ~PythonWork();
  PythonWork(const PythonWork&) = delete;
  PythonWork& operator=(const PythonWork&) = delete;

  void wait();
  bool wait_for(nb::handle timeout);
  bool is_completed();
  bool cancel();
  void on_completion(nb::object callback);
  nb::object exception();
  nb::object result();
  int source_rank() const { return work_.source_rank(); }
  int tag() const { return work_.tag(); }

  static void wait_all(nb::handle works);
  static nb::object wait_any(nb::handle works, nb::handle timeout);

 private:
  /// Calls it without the interpreter lock. An error ends the use of the buffers.
  template <class F>
  auto waiting(F&& f);
  void let_go();

  Work work_;
  std::shared_ptr<Memory> memory_;
  std::optional<void*> stream_;
  bool is_awaited_;  // see Buffer::is_awaited
};

std::vector<PythonWork*> works_of(nb::handle works, const char* operation) {
  std::vector<PythonWork*> list;
  for (const nb::handle each : works) {
    if (!nb::isinstance<PythonWork>(each)) throw_invalid(operation, "not all of these are Works");
    list.push_back(&content_of<PythonWork>(each, operation));
  }
  return list;
}

PythonWork::PythonWork(Work work, Memory memory)
    : work_(std::move(work)),
      memory_(std::make_shared<Memory>(std::move(memory))),
      stream_(stream_of(memory_->buffers)),
      is_awaited_(is_awaited(memory_->buffers)) {
  left_behind().clear();
}

PythonWork::~PythonWork() {
  if (memory_->buffers.empty() || work_.is_completed()) return;
  work_.on_completion([memory = std::move(memory_)]() mutable { left_behind().add(std::move(memory)); });
}

void PythonWork::let_go() { memory_->buffers.clear(); }

template <class F>
auto PythonWork::waiting(F&& f) {
  try {
    return on_stream(stream_, std::forward<F>(f));
  } catch (const Error&) {
    let_go();
    const nb::object exception = as_python(std::current_exception());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw nb::python_error();
  }
}

void PythonWork::wait() {
  waiting([&] {
    work_.wait();
    if (is_awaited_) synchronize_stream();
  });
  let_go();
}

bool PythonWork::wait_for(nb::handle timeout) {
  const auto at_most = timeout_or(timeout, std::chrono::milliseconds(0), "wait_for");
  const bool done = waiting([&] { return work_.wait_for(at_most); });
  if (done) let_go();
  return done;
}

bool PythonWork::is_completed() {
  const bool done = work_.is_completed();
  if (done) let_go();
  return done;
}

bool PythonWork::cancel() {
  const bool is_cancelled = on_stream(stream_, [&] { return work_.cancel(); });
  if (is_cancelled) let_go();
  return is_cancelled;
}

void PythonWork::on_completion(nb::object callback) {
  if (PyCallable_Check(callback.ptr()) == 0) throw_invalid("on_completion", "the argument must be a function without arguments");
  const Unlocked released;
  work_.on_completion([kept = Kept(std::move(callback))] {
    if (Py_IsInitialized() == 0) return;
    const Locked locked;
    try {
      kept.object()();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(kept.object());  // sys.unraisablehook: there is nobody to raise it to
    }
  });
}

nb::object PythonWork::exception() {
  const std::exception_ptr error = work_.exception();
  return error ? as_python(error) : nb::none();
}

nb::object PythonWork::result() {
  wait();
  return memory_->result;
}

void PythonWork::wait_all(nb::handle works) {
  std::exception_ptr first;
  for (PythonWork* const work : works_of(works, "wait_all")) {
    try {
      work->wait();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

nb::object PythonWork::wait_any(nb::handle works, nb::handle timeout) {
  const nb::list given(works);
  if (given.size() > 0 && is_future(given[0])) return nb::cast(Future::wait_any(given, timeout_of(timeout, "wait_any")));
  if (!timeout.is_none()) throw_invalid("wait_any", "a timeout is for Futures", "a Work has wait_for");
  const std::vector<PythonWork*> list = works_of(given, "wait_any");
  std::vector<Work> all;
  for (const PythonWork* const work : list) all.push_back(work->work_);
  std::size_t index = 0;
  if (all.empty()) throw_invalid("wait_any", "there is nothing to wait for");
  try {
    index = unlocked([&] { return unisono::wait_any(all); });
  } catch (const Error&) {
    for (PythonWork* const work : list) {
      if (work->is_completed() && work->work_.exception()) work->wait();  // which says where that one was called
    }
    throw;
  }
  list[index]->wait();
  return nb::cast(index);
}

template <class Request>
nb::object start_call(const Request& request, const Trailing& trailing, Memory memory) {
  Work work = on_stream(stream_of(memory.buffers), [&] { return detail::start(request, trailing.group, trailing.options); });
  return as_object(std::move(work), std::move(memory));
}

}  // namespace

void carry_out(const detail::Request& request, const Trailing& trailing, const std::optional<void*>& stream, const Buffer* out) {
  on_stream(out != nullptr && !stream ? out->stream() : stream, [&] {
    detail::run(request, trailing.group, trailing.options);
    if (out != nullptr && out->is_awaited()) synchronize_stream();
  });
}

nb::object carry_out(const detail::Request& request, const Trailing& trailing, const Memory& memory) {
  carry_out(request, trailing, stream_of(memory.buffers), memory.buffers.empty() ? nullptr : &memory.buffers.back());
  return memory.result;
}

nb::object as_object(Work work, Memory memory) { return nb::cast(new PythonWork(std::move(work), std::move(memory)), nb::rv_policy::take_ownership); }

nb::object start(const detail::Request& request, const Trailing& trailing, Memory memory) { return start_call(request, trailing, std::move(memory)); }
nb::object start(const detail::MessageRequest& request, const Trailing& trailing, Memory memory) {
  return start_call(request, trailing, std::move(memory));
}

void bind_work(nb::module_& m) {
  nb::class_<PythonWork>(m, "Work", docstring(docs::work).c_str())
      .def("wait", &PythonWork::wait, docs::wait)
      .def("wait_for", &PythonWork::wait_for, "timeout"_a, nb::sig("def wait_for(self, timeout: float | datetime.timedelta) -> bool"), docs::wait_for)
      .def("is_completed", &PythonWork::is_completed, "Tells whether it is done, well or not. Never blocks.")
      .def("cancel", &PythonWork::cancel, docs::cancel)
      .def("on_completion", &PythonWork::on_completion, "callback"_a.none(),
           nb::sig("def on_completion(self, callback: collections.abc.Callable[[], object]) -> None"), docs::on_completion)
      .def("exception", &PythonWork::exception, nb::sig("def exception(self) -> BaseException | None"), docs::work_exception)
      .def("result", &PythonWork::result, nb::sig("def result(self) -> typing.Any"), docs::work_result)
      .def("source_rank", &PythonWork::source_rank, "Returns the sender's rank in the group, of a receive that is done. -1 for anything else.")
      .def("tag", &PythonWork::tag, "Returns the tag of the message that a receive has taken. 0 for anything else.");
  m.def("wait_all", &PythonWork::wait_all, "works"_a, nb::sig("def wait_all(works: collections.abc.Iterable[Work]) -> None"),
        docstring(docs::wait_all).c_str());
  m.def("wait_any", &PythonWork::wait_any, "works"_a, "timeout"_a = nb::none(),
        nb::sig("def wait_any(works: collections.abc.Iterable[Work | Future], timeout: Seconds = None) -> int | None"),
        docstring(docs::wait_any).c_str());
}

}  // namespace unisono::python
