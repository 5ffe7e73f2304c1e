#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

namespace unisono::engines::mpi {

/// The kind of MPI that this plug-in was built against: "openmpi" or "mpich".
inline constexpr std::string_view kind = UNISONO_MPI_KIND;

/// Throws std::runtime_error with MPI's own text where `code` is an error.
void check(int code, const char* call);

/// The MPI of this process. There is only one, whoever initialised it. It is made at the first `join` and lives as long as the process.
///
/// An MPI that we initialised is finalised when the process exits with code 0, since it cannot be initialised again. It is not finalised after the
/// death of a process, for which MPI_Finalize would wait, or with a call still pending, which would make it fail. The program finalises an MPI that
/// it has initialised.
class Library {
 public:
  /// The threads that may call MPI, by the thread level that it was initialised with.
  enum class Access {
    any,          ///< MPI_THREAD_MULTIPLE
    one_by_one,   ///< MPI_THREAD_SERIALIZED: under `lock()`
    main_thread,  ///< MPI_THREAD_FUNNELED and MPI_THREAD_SINGLE: the thread that initialised it
  };

  /// Initialises MPI, or takes over the one that the program has initialised. Waits for the other ranks of the launcher; where these do not come
  /// within `timeout`, the process ends. Throws BackendUnavailable where the program has finalised MPI.
  static Library& join(std::chrono::milliseconds timeout);
  /// Returns true between MPI_Init and MPI_Finalize, whoever called it.
  static bool is_joined();
  /// Returns true then for an MPI that the program has initialised, not this library.
  static bool is_the_programs();
  /// Returns false in a process that was forked from the one that joined.
  static bool is_of_this_process();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int largest_tag() const noexcept { return largest_tag_; }
  Access access() const noexcept { return access_; }

  /// Returns true where this thread may call MPI.
  bool may_call() const { return access_ != Access::main_thread || is_main_thread(); }
  /// Throws InvalidArgument, with a hint, where it may not.
  void require_call() const;
  /// Returns a lock to hold during calls of MPI; it owns nothing where MPI needs no lock.
  std::unique_lock<std::mutex> lock() { return access_ == Access::one_by_one ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>(); }

  /// Records that a pending call of MPI was given up.
  void leave_behind() noexcept { left_behind_ = true; }
  /// Records that a process of this MPI is dead: nothing more can be begun in this process.
  void give_up(const std::string& why);
  /// Returns the text given to `give_up`; empty: MPI is usable.
  std::string given_up() const;
  bool is_given_up() const noexcept { return given_up_.load(std::memory_order_acquire); }

 private:
  Library(bool ours);
  static bool is_main_thread();
  static void at_exit(int status, void* library);

  const bool ours_;
  int rank_ = 0, size_ = 1;
  int largest_tag_ = 32767;  // the least that MPI guarantees
  Access access_ = Access::main_thread;
  std::mutex mutex_;
  std::atomic<bool> given_up_{false}, left_behind_{false};
  mutable std::mutex why_mutex_;
  std::string why_;
};

}  // namespace unisono::engines::mpi
