#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

namespace unisono::engines::mpi {

/// The kind of MPI this plug-in was built against: "openmpi" or "mpich".
inline constexpr std::string_view kind = UNISONO_MPI_KIND;

/// std::runtime_error with MPI's own sentence where `code` is an error.
void check(int code, const char* call);

/// The MPI of this process: there is only one, whoever initialised it. Made at the first `join`; lives as long as the process.
///
/// What we have initialised is finalised when the process exits with code 0: earlier than that nobody could initialize again. After a death
/// MPI_Finalize would wait for the dead, and with a call of ours still under way it fails: then it is not called. What the program has initialised is
/// the program's to finalise.
class Library {
 public:
  /// Who may call MPI, by the thread level that it was initialised with.
  enum class Access {
    any,          ///< MPI_THREAD_MULTIPLE
    one_by_one,   ///< MPI_THREAD_SERIALIZED: under `lock()`
    main_thread,  ///< MPI_THREAD_FUNNELED and MPI_THREAD_SINGLE: the thread that initialised it
  };

  /// Initialises MPI, or takes over what the program has initialised. Waits for the other ranks of the launcher; where these do not come within
  /// `timeout`, the process ends. BackendUnavailable where the program has finalised MPI.
  static Library& join(std::chrono::milliseconds timeout);
  /// Between MPI_Init and MPI_Finalize, whoever called it.
  static bool is_joined();
  /// The same, of an MPI that the program has initialised, not this library.
  static bool is_the_programs();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int largest_tag() const noexcept { return largest_tag_; }
  Access access() const noexcept { return access_; }

  /// Whether this thread may call MPI at all.
  bool may_call() const { return access_ != Access::main_thread || is_main_thread(); }
  /// InvalidArgument, saying what to do, where it may not.
  void require_call() const;
  /// To be held while MPI is called; owns nothing where MPI needs no lock.
  std::unique_lock<std::mutex> lock() { return access_ == Access::one_by_one ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>(); }

  /// A call was given up that MPI has not done yet.
  void leave_behind() noexcept { left_behind_ = true; }
  /// A process that belongs to this MPI is dead: nothing more can be begun, by anybody.
  void give_up(const std::string& why);
  /// What `give_up` was told; empty: MPI is sound.
  std::string given_up() const;
  bool is_given_up() const noexcept { return given_up_.load(std::memory_order_acquire); }

 private:
  Library(bool ours);
  static bool is_main_thread();
  static void at_exit(int status, void* library);

  const bool ours_;
  int rank_ = 0, size_ = 1, largest_tag_ = 32767;
  Access access_ = Access::main_thread;
  std::mutex mutex_;
  std::atomic<bool> given_up_{false}, left_behind_{false};
  mutable std::mutex why_mutex_;
  std::string why_;
};

}  // namespace unisono::engines::mpi
