#include "controller/place.h"

#include <atomic>
#include <utility>

#include "base/error_place.h"
#include "context/state.h"
#include "unisono/detail/remote_call.h"
#include "unisono/error.h"

namespace unisono {
namespace controller {
namespace {

thread_local const Place* of_thread = nullptr;
std::atomic<const Place*> of_process{nullptr};

}  // namespace

Place::Place(int worker, ProcessGroup everyone) : worker_(worker), everyone_(std::move(everyone)), is_of_thread_(context::of_thread() != nullptr) {
  if (is_of_thread_) of_thread = this;
  else of_process.store(this);
}

Place::~Place() {
  if (is_of_thread_) of_thread = nullptr;
  else of_process.store(nullptr);
}

const Place* Place::current() noexcept { return of_thread != nullptr ? of_thread : of_process.load(std::memory_order_acquire); }

}  // namespace controller

int detail::worker_number() noexcept {
  const controller::Place* const place = controller::Place::current();
  return place == nullptr ? -1 : place->worker();
}

ProcessGroup detail::everyone(std::source_location where) {
  return base::with_place(where, []() -> ProcessGroup {
    if (const controller::Place* const place = controller::Place::current()) return place->everyone();
    throw InvalidArgument("there is no controller here",
                          {.operation = "everyone", .hint = "it is called in the controller, or in a call on a worker"});
  });
}

}  // namespace unisono
