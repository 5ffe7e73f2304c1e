#pragma once

#include <memory>
#include <string_view>

#include "controller/core.h"
#include "controller/local_job.h"
#include "controller/meeting.h"
#include "controller/place.h"
#include "unisono/context.h"
#include "unisono/detail/remote_call.h"

namespace unisono::controller {

/// The controller's process: its workers, and its part in the job, from their meeting to their end.
class Workers final : public detail::RemoteWorkers {
 public:
  /// Meets the workers, which do the same in `serve`. `local`: the processes that were started for it; may be null. `context`: one that
  /// was made for it, and ends with it; may be null.
  Workers(const ControllerOptions& options, std::unique_ptr<LocalJob> local, std::unique_ptr<Context> context, std::source_location where);
  ~Workers() override;

  int size() const noexcept override { return core_->size(); }
  std::shared_ptr<detail::RemoteCall> begin(int worker, detail::RemoteRequest request) override;
  std::uint64_t new_object() noexcept override { return core_->new_object(); }
  void release(int worker, std::uint64_t object) noexcept override { core_->release(worker, object); }
  std::exception_ptr failure(int worker) override { return core_->failure(worker); }
  int generation(int worker) const override { return core_->generation(worker); }
  void replace(int worker, std::source_location where) override;
  ProcessGroup everyone() const override;
  void end(std::string_view reason) override;

 private:
  /// Has the living members leave their pairs, takes newcomers in, and meets them all again. Returns whether any have come.
  bool regroup(const Introduction& own, std::source_location where);

  const ControllerOptions options_;
  std::unique_ptr<LocalJob> local_;
  std::unique_ptr<Context> context_;
  Roster roster_;
  std::unique_ptr<Place> place_;
  std::shared_ptr<Core> core_;
};

/// The process of a worker, from the meeting to its end. Returns its exit code. The context that there is ends meanwhile, but for that of a thread.
int serve(const ControllerOptions& options, std::source_location where);

}  // namespace unisono::controller
