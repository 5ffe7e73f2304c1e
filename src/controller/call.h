#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "controller/errors.h"
#include "unisono/detail/remote_call.h"

namespace unisono::controller {

class Call;

/// What a call needs of its controller.
class CallDriver {
 public:
  using Lock = std::unique_lock<std::mutex>;
  CallDriver() = default;
  virtual ~CallDriver() = default;
  CallDriver(const CallDriver&) = delete;
  CallDriver& operator=(const CallDriver&) = delete;

  virtual Lock lock() = 0;
  /// Waits until `done`, which is called under the lock, or until the deadline; returns whether it is. The caller holds the lock, and holds it
  /// afterwards.
  virtual bool drive(Lock& lock, const std::function<bool()>& done, const base::Deadline* deadline) = 0;
  /// Takes what has come, without waiting.
  virtual void poll() = 0;

  // Under the lock.

  /// Asks the worker to acknowledge this call, if it has no result.
  virtual void flush_for(const Call& call) = 0;
  /// Asks the worker to leave out the call.
  virtual void cancel(const Call& call) = 0;
  /// Somebody listens to a call: a thread sees to it if nobody else waits.
  virtual void need_thread() = 0;
  /// Runs without the lock what calls have left to be run, and returns with it.
  virtual void run_callbacks(Lock& lock) = 0;
};

/// A call that was made: its request while it is under way, and its end. All but `is_done` is under the lock of the controller.
class Call final : public detail::RemoteCall, public std::enable_shared_from_this<Call> {
 public:
  Call(std::shared_ptr<CallDriver> driver, int worker, std::uint64_t sequence, detail::RemoteRequest&& request);

  bool is_done() const noexcept override { return done_.load(std::memory_order_acquire); }
  bool poll() override;
  bool wait(std::optional<std::chrono::milliseconds> at_most) override;
  detail::Frame take() override;
  std::exception_ptr error() const override;
  bool cancel() override;
  void then(std::function<void()> f) override;
  int worker() const noexcept override { return worker_; }

  CallDriver& driver() const { return *driver_; }

  // Under the lock.

  std::uint64_t sequence() const { return sequence_; }
  bool has_result() const { return has_result_; }
  /// Returns what makes the memory of its result; null: part_memory does.
  const std::shared_ptr<const detail::PartMemory>& memory() const { return memory_; }
  bool has_listeners() const { return !listeners_.empty(); }
  /// `host`, `rank`: of its worker.
  CallText text(const std::string& host, int rank) const;
  /// Returns what makes the memory of its result, which goes with the call's end.
  std::shared_ptr<const detail::PartMemory> take_memory() { return std::move(memory_); }
  /// Ends the call. Returns the functions that are to be called then, without the lock.
  std::vector<std::function<void()>> end(detail::Frame&& result, std::exception_ptr error);

 private:
  const std::shared_ptr<CallDriver> driver_;
  const int worker_;
  const std::uint64_t sequence_;
  const detail::RemoteFunction* const function_;
  const std::string types_;
  const std::source_location where_;
  const bool has_result_;
  std::shared_ptr<const detail::PartMemory> memory_;
  std::atomic<bool> done_{false};
  bool is_taken_ = false;
  detail::Frame result_;
  std::exception_ptr error_;
  std::vector<std::function<void()>> listeners_;
};

}  // namespace unisono::controller
