#include "controller/place.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error_place.h"
#include "context/state.h"
#include "unisono/detail/remote_call.h"
#include "unisono/detail/remote_errors.h"
#include "unisono/error.h"

namespace unisono {
namespace controller {
namespace {

thread_local const Place* of_thread = nullptr;
std::atomic<const Place*> of_process{nullptr};

}  // namespace

Place::Place(const Roster& roster, ProcessGroup everyone, const std::optional<ProcessGroup>& workers)
    : worker_(roster.own),
      rank_of_(roster.rank_of),
      living_(roster.living()),
      everyone_(std::move(everyone)),
      workers_(workers),
      is_of_thread_(context::of_thread() != nullptr) {
  if (is_of_thread_) of_thread = this;
  else of_process.store(this);
}

Place::~Place() {
  if (is_of_thread_) of_thread = nullptr;
  else of_process.store(nullptr);
}

int Place::blamed_by(const ErrorInfo& error) const {
  if (!error.culprit) return -1;
  if (!workers_ || error.rank < 0 || error.group.empty()) return *error.culprit;
  if (error.group == everyone_.name() && error.rank == everyone_.rank()) {
    if (*error.culprit < 0 || *error.culprit >= everyone_.size()) return -1;
    const auto found = std::ranges::find(rank_of_, everyone_.global_rank(*error.culprit));
    return found == rank_of_.end() ? -1 : static_cast<int>(found - rank_of_.begin());
  }
  // Any other group has been formed by the workers.
  const int rank = error.group == workers_->name() ? *error.culprit : error.world_culprit;
  return rank < 0 || std::cmp_greater_equal(rank, living_.size()) ? -1 : living_[static_cast<std::size_t>(rank)];
}

const Place* Place::current() noexcept { return of_thread != nullptr ? of_thread : of_process.load(std::memory_order_acquire); }

}  // namespace controller

int detail::worker_number() noexcept {
  const controller::Place* const place = controller::Place::current();
  return place == nullptr ? -1 : place->worker();
}

int detail::blamed_worker(const ErrorInfo& error) noexcept {
  const controller::Place* const place = controller::Place::current();
  return place == nullptr ? error.culprit.value_or(-1) : place->blamed_by(error);
}

ProcessGroup detail::everyone(std::source_location where) {
  return base::with_place(where, []() -> ProcessGroup {
    if (const controller::Place* const place = controller::Place::current()) return place->everyone();
    throw InvalidArgument("there is no controller here",
                          {.operation = "everyone", .hint = "it is called in the controller, or in a call on a worker"});
  });
}

}  // namespace unisono
