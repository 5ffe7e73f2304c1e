#pragma once

#include <memory>

#include "unisono/process_group.h"

namespace unisono::controller {

/// What this process, or this thread of run_threads, is in the job of a controller, as long as the object lives. A program's own threads have the
/// place of their process.
class Place {
 public:
  /// `worker`: its number; -1: it is the controller.
  Place(int worker, ProcessGroup everyone);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  int worker() const { return worker_; }
  const ProcessGroup& everyone() const { return everyone_; }
  /// Returns the place of the caller; null if there is none.
  static const Place* current() noexcept;

 private:
  const int worker_;
  const ProcessGroup everyone_;
  const bool is_of_thread_;
};

}  // namespace unisono::controller
