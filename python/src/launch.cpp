// Ranks that are threads of this process.

#include "unisono/launch.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "failure.h"
#include "module.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// What a rank's function has returned, or raised.
struct Ending {
  nb::object result = nb::none();
};

/// Runs the ranks beside the caller, who watches for signals meanwhile.
class Run {
 public:
  void start(int ranks, const std::function<void(int)>& body) {
    thread_ = std::thread([this, ranks, body] {
      std::exception_ptr error;
      try {
        detail::run_threads(ranks, body);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      error_ = error;
      done_ = true;
      changed_.notify_all();
    });
  }
  /// True when all ranks have ended.
  bool wait(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return done_; });
  }
  std::exception_ptr join() {
    thread_.join();
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

nb::object run_as_threads(int ranks, nb::object function) {
  std::vector<Ending> endings(ranks > 0 ? static_cast<std::size_t>(ranks) : 0);
  std::atomic<bool> interrupted{false};
  const auto body = [&](int rank) {
    const RankThread here(interrupted);
    const nb::gil_scoped_acquire locked;
    try {
      endings[static_cast<std::size_t>(rank)].result = function(rank);
    } catch (nb::python_error& error) {
      std::rethrow_exception(as_cpp(error.value()));
    }
  };
  Run run;
  std::exception_ptr error;
  nb::object interruption;
  {
    std::unique_ptr<nb::gil_scoped_release> unlocked = std::make_unique<nb::gil_scoped_release>();
    run.start(ranks, body);
    while (!run.wait(std::chrono::milliseconds(50))) {
      unlocked.reset();
      if (!interruption.is_valid() && PyErr_CheckSignals() != 0) {
        nb::python_error raised;
        interruption = nb::borrow(raised.value());
        interrupted.store(true);
      }
      unlocked = std::make_unique<nb::gil_scoped_release>();
    }
    error = run.join();
  }
  if (interruption.is_valid()) throw Raised(interruption);
  if (error) std::rethrow_exception(error);
  nb::list results;
  for (const Ending& ending : endings) results.append(ending.result);
  return results;
}

}  // namespace

void bind_launch(nb::module_& m) { m.def("_run_threads", &run_as_threads, "ranks"_a, "function"_a); }

}  // namespace unisono::python
