#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engines/nccl/calls.h"
#include "engines/nccl/runtime.h"
#include "base/deadline.h"
#include "unisono/store.h"

namespace unisono::engines::nccl {

/// Communicators that were formed together: one of this process, or one for each of several devices that it uses. They meet through the store. All
/// NCCL calls are non-blocking, so that `abort` ends every pending one. Any thread may call.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Shape {
    std::string key;           ///< its key in the store, different from all others
    int size = 1;              ///< communicators of all processes
    int first_rank = 0;        ///< of this process's communicators
    std::vector<int> devices;  ///< a device for each of this process's communicators
  };
  Communicator(std::shared_ptr<const Vendor> vendor, std::shared_ptr<Store> store, Shape shape);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Continues to form the communicators; returns true when they are formed. Throws the error of a failure.
  bool form();
  /// Returns the formed communicator of a process that has only one, for calls of NCCL beside those of `launch`.
  Comm comm() const { return members_.front().comm; }
  /// Returns the number of a call to be enqueued: all ranks enqueue calls in this order.
  std::uint64_t take_turn() { return next_turn_++; }
  bool is_turn(std::uint64_t turn) const { return turn == turn_; }
  void end_turn() { ++turn_; }
  /// Puts a CollectiveCall on the streams of all members, or a Message, for which the communicator has two ranks. A blocking call of the only member
  /// goes to the stream of its caller, which comes behind what the communicator has on other streams.
  template <class Work>
  void launch(const Work& work);
  /// Looks whether it was aborted or closed, and with `for_errors` whether NCCL has failed in the background, and throws then. Does nothing and
  /// returns false while another thread calls NCCL: who watches a call holds the queue, and must not keep other calls from it meanwhile.
  bool try_look(bool for_errors);
  /// Returns an event at the end of the calls enqueued so far; null while NCCL has yet to enqueue the last ones. Throws the error of these calls, or
  /// of earlier ones.
  std::shared_ptr<DeviceEvent> completion();

  void abort() noexcept;
  /// Ends the communicators in order; those that take longer are aborted.
  void close(std::chrono::milliseconds at_most) noexcept;
  const Shape& shape() const { return shape_; }

 private:
  class Completion;
  CudaEvent& record_end(const Member& member, Stream stream);
  void give_back(const std::vector<CudaEvent*>& events) noexcept;
  Stream stream_for(const std::optional<void*>& of_caller);
  std::optional<UniqueId> meet();
  void begin(const UniqueId& id);
  bool settled_locked();
  bool is_passed(std::uint64_t completion) const { return completion <= passed_.load(std::memory_order_relaxed); }
  void note_passed(std::uint64_t completion) {
    auto last = passed_.load(std::memory_order_relaxed);
    while (last < completion && !passed_.compare_exchange_weak(last, completion, std::memory_order_relaxed)) {
    }
  }
  void require_alive() const;
  [[noreturn]] void fail(const char* function, Result result, Comm comm) const;

  std::shared_ptr<const Vendor> vendor_;
  std::shared_ptr<Store> store_;
  Shape shape_;
  std::mutex mutex_;  // guards the members below
  std::vector<Member> members_;
  Stream launched_on_ = nullptr;   // of the only member's last operation
  CudaEvent* last_end_ = nullptr;  // of the same, once it is recorded
  Stream last_stream_ = nullptr;   // where that is
  enum class State { meeting, forming, ready, over };
  std::atomic<State> state_{State::meeting};
  base::Clock::time_point next_look_{};
  std::uint64_t completions_ = 0;
  std::atomic<std::uint64_t> next_turn_{0};
  std::atomic<std::uint64_t> turn_{0};
  std::atomic<std::uint64_t> passed_{0};            // the last completion that the devices are known to have passed: they come one after the other
  std::mutex events_mutex_;                         // guards the two below
  std::vector<std::unique_ptr<CudaEvent>> events_;  // all that were made
  std::map<int, std::vector<CudaEvent*>> spare_;    // of them, by device
};

}  // namespace unisono::engines::nccl
