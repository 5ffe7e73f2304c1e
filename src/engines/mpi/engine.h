#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/mpi/collective.h"
#include "engines/mpi/library.h"
#include "unisono/engine.h"

namespace unisono::engines::mpi {

class RequestTask;

/// The data that an engine and its operations share: the group's communicator, and whether it may still be used.
class Communicator {
 public:
  Communicator(Library& library, const EngineOptions& options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Library& library() noexcept { return library_; }
  const Members& members() const noexcept { return members_; }
  const std::string& name() const noexcept { return name_; }

  /// Throws std::runtime_error where the group is over.
  void require_sound() const;
  void abort(const Failure& failure) noexcept;
  void leave() noexcept;
  /// Returns when the group's requests that were given up must be done. It is counted from the first of them, so that many of them take no longer.
  std::chrono::steady_clock::time_point end_of_patience() noexcept;

  /// Queues operations where only one thread may call MPI: other threads hand them over, and they begin in the order of their calls.
  void put_off(RequestTask& operation);
  void forget(RequestTask& operation) noexcept;
  void begin_put_off();

  /// Marks a call of MPI that does not return before its peers have come. `abort` waits for it for a short time, and ends the process then.
  class InMpi {
   public:
    explicit InMpi(Communicator& communicator);
    ~InMpi();
    InMpi(const InMpi&) = delete;
    InMpi& operator=(const InMpi&) = delete;

   private:
    Communicator& communicator_;
  };

 private:
  Library& library_;
  Members members_;
  std::string name_;
  std::atomic<bool> aborted_{false};
  std::atomic<int> in_mpi_{0};
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::string why_;
  std::chrono::steady_clock::time_point end_of_patience_{};
  std::mutex put_off_mutex_;
  std::deque<RequestTask*> put_off_;
};

/// A group's communicator as an engine.
class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(const EngineOptions& options);
  ~MpiEngine() override;

  std::string_view name() const noexcept override { return "mpi"; }
  bool offers(const CollectiveCall& call) const override;
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  /// Returns true where waiting within MPI is faster, and where only the thread that initialised MPI may call it, so that it has to wait there.
  bool blocks() const noexcept override { return blocks_; }
  bool starts() const noexcept override { return true; }
  void run(const CollectiveCall& call) override;
  bool has_channels() const noexcept override { return true; }
  std::unique_ptr<Task> start_send(const void* data, std::size_t bytes, int peer, std::uint32_t channel) override;
  std::unique_ptr<Task> start_recv(void* data, std::size_t bytes, int peer, std::uint32_t channel) override;
  std::uint32_t largest_channel() const noexcept override;
  void abort(const Failure& failure) noexcept override { communicator_->abort(failure); }
  void leave() override;

 private:
  std::unique_ptr<Task> start(std::unique_ptr<RequestTask> operation);
  int tag_of(std::uint32_t channel) const;

  std::shared_ptr<Communicator> communicator_;
  const bool crowded_;
  bool blocks_;
};

}  // namespace unisono::engines::mpi
