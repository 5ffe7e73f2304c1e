#pragma once

#include <sys/types.h>

#include <string_view>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// A small process that ends the job after a launcher was ended by SIGKILL. It holds one end of a connection whose other end only the launcher has:
/// end of file without a goodbye means that the launcher is gone.
///
/// PDEATHSIG alone reaches the rank itself; the watchdog also reaches processes that a rank has started (a shell's children).
class Watchdog {
 public:
  /// Forks. Call it before threads exist.
  explicit Watchdog(std::string_view job_id);
  ~Watchdog();  ///< says goodbye; the watchdog then leaves without signalling any process
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Returns when the watchdog has left the launcher's process group and hidden its environment. Until then the end of an outer job would end it
  /// together with the launcher, and nobody would end the ranks; so no rank starts before. Not for several threads at once.
  void await_apart() const noexcept;
  /// A new rank calls this between fork and exec, so that it is guarded at every moment. Async-signal-safe.
  void guard_self_group() const noexcept;
  /// Call it when the group is empty and before its leader is reaped, while no other process can have its number.
  void forget(pid_t group) const noexcept;

  pid_t pid() const noexcept { return pid_; }

 private:
  base::FileDescriptor life_line_;
  pid_t pid_ = -1;
  mutable bool is_apart_ = false;
};

}  // namespace unisono::launcher
