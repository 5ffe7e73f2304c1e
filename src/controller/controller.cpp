#include "unisono/controller.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "base/error_place.h"
#include "base/error_text.h"
#include "base/log.h"
#include "context/state.h"
#include "unisono/detail/ending.h"

namespace unisono {

Controller::Controller(const ControllerOptions& options, std::source_location where) : exceptions_(std::uncaught_exceptions()) {
  auto meeting = detail::meet_workers(options, where);
  workers_ = std::move(meeting.workers);
  if (workers_) return;
  if (context::of_thread() != nullptr) throw detail::EndOfRank();
  std::exit(meeting.exit_code);  // NOLINT(concurrency-mt-unsafe): the process of a worker has nothing else to do
}

Controller::~Controller() {
  try {
    workers_->end(std::uncaught_exceptions() > exceptions_ ? "an exception left the scope of its Controller" : "");
  } catch (...) {
    base::warn("the end of a controller: " + base::what_of(std::current_exception()));
  }
}

Worker Controller::operator[](int number) const {
  static_cast<void>(workers_->generation(number));  // throws where there is none
  return {workers_, number};
}

detail::RemoteObject::RemoteObject(const std::shared_ptr<RemoteWorkers>& workers, int worker)
    : workers_(workers), worker_(worker), generation_(workers->generation(worker)), id_(workers->new_object()) {}

detail::RemoteObject::~RemoteObject() {
  if (const auto workers = workers_.lock(); workers && workers->generation(worker_) == generation_) workers->release(worker_, id_);
}

std::shared_ptr<detail::RemoteWorkers> detail::RemoteObject::workers(std::source_location where) const {
  auto workers = workers_.lock();
  if (!workers)
    throw NotInitialized("the object is gone: its controller has ended", {.operation = "call", .group = base::group_of_workers, .where = where});
  if (workers->generation(worker_) == generation_) return workers;
  throw InvalidArgument(
      "the object is gone: worker " + std::to_string(worker_) + " was replaced by another process",
      {.operation = "call", .group = base::group_of_workers, .culprit = worker_, .hint = "make another object there", .where = where});
}

}  // namespace unisono
