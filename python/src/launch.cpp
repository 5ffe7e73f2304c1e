// Ranks that are threads of this process.

#include "unisono/launch.h"

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include "failure.h"
#include "module.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// Runs the ranks beside the caller, who watches for signals meanwhile.
nb::object run_as_threads(int ranks, nb::object function) {
  std::vector<nb::object> results(ranks > 0 ? static_cast<std::size_t>(ranks) : 0);
  std::atomic<bool> interrupted{false};
  std::future<void> running = std::async(std::launch::async, [&] {
    detail::run_threads(ranks, [&](int rank) {
      const RankThread here(interrupted);
      const nb::gil_scoped_acquire locked;
      try {
        results[static_cast<std::size_t>(rank)] = function(rank);
      } catch (nb::python_error& error) {
        std::rethrow_exception(as_cpp(error.value()));
      }
    });
  });
  const auto is_running = [&] {
    const nb::gil_scoped_release released;
    return running.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
  };
  nb::object interruption;
  while (is_running()) {
    if (interruption.is_valid() || PyErr_CheckSignals() == 0) continue;
    nb::python_error raised;
    interruption = nb::borrow(raised.value());
    interrupted.store(true);
  }
  if (interruption.is_valid()) throw Raised(interruption);
  running.get();
  nb::list list;
  for (const nb::object& result : results) list.append(result);
  return list;
}

}  // namespace

void bind_launch(nb::module_& m) { m.def("_run_threads", &run_as_threads, "ranks"_a, "function"_a); }

}  // namespace unisono::python
