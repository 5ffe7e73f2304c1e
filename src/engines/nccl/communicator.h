#pragma once

#include <atomic>
#include <chrono>
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

/// Communicators that were formed together: one of this process, or one for each of several devices that it drives. They meet through the store, and
/// nothing here waits: every NCCL call is a non-blocking one, so that `abort` ends whatever is under way. Any thread may call.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Shape {
    std::string key;           ///< under which it meets, of no other in the store
    int size = 1;              ///< communicators, of all processes
    int first_rank = 0;        ///< of this process's
    std::vector<int> devices;  ///< one for each of this process's communicators
  };
  Communicator(std::shared_ptr<const Vendor> vendor, std::shared_ptr<Store> store, Shape shape);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Goes on with forming it; true when it is there. Throws what went wrong.
  bool form();
  /// The number of a call to be enqueued: calls are enqueued in this order on all ranks.
  std::uint64_t take_turn();
  bool is_turn(std::uint64_t turn) const { return turn == turn_; }
  void end_turn() { ++turn_; }
  void launch(const CollectiveCall& call);
  /// The communicator has two ranks. `after`: the events that the message's memory waits for.
  void launch(const Message& message, const std::vector<std::shared_ptr<DeviceEvent>>& after);
  /// Whether NCCL is done with what it was told last, which is to enqueue it. Throws what went wrong, also with what was enqueued before.
  bool settled();
  /// Throws where it was aborted or closed.
  void expect_alive();
  /// The end of what is enqueued now.
  std::shared_ptr<DeviceEvent> completion();

  void abort() noexcept;
  /// Lets go of the communicators in order; of those that take longer, by aborting them.
  void close(std::chrono::milliseconds at_most) noexcept;
  const Shape& shape() const { return shape_; }

 private:
  class Completion;
  std::optional<UniqueId> meet();
  void begin(const UniqueId& id);
  bool settled_locked();
  template <class Enqueue>
  void launch_on_all(const std::vector<std::shared_ptr<DeviceEvent>>& after, Enqueue&& enqueue_on);
  void require_alive() const;
  [[noreturn]] void fail(const char* function, Result result, Comm comm) const;

  std::shared_ptr<const Vendor> vendor_;
  std::shared_ptr<Store> store_;
  Shape shape_;
  std::mutex mutex_;  // of what follows
  std::vector<Member> members_;
  enum class State { meeting, forming, ready, over } state_ = State::meeting;
  base::Clock::time_point next_look_{};
  std::uint64_t next_turn_ = 0;
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace unisono::engines::nccl
