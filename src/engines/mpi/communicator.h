#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

#include "engines/mpi/collective.h"
#include "engines/mpi/library.h"
#include "unisono/engine.h"

namespace unisono::engines::mpi {

/// An operation that waits for a thread which may call MPI.
class Postponed {
 public:
  /// Begins the operation: called once by a thread that may call MPI, in the order of the group's calls.
  virtual void begin() = 0;

 protected:
  ~Postponed() = default;
};

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
  void put_off(Postponed& operation);
  void forget(Postponed& operation) noexcept;
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
  std::deque<Postponed*> put_off_;
};

}  // namespace unisono::engines::mpi
