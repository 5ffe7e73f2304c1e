#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>

#include "unisono/export.h"

namespace unisono::base {

/// Every thread of the library. It leaves signals to the others of the process, unless it is to run a program's own code, which may wait for them or
/// start processes. What its function throws is logged and ends that thread alone: a function that others rely on catches for itself, and tells
/// them. Exported for the plug-ins.
class UNISONO_API Thread {
 public:
  Thread() = default;
  enum class Signals { none, as_starter };
  /// `name`: as a message names it, "the store server". Error where the system has no thread to give.
  Thread(std::string name, std::function<void()> body, Signals signals = Signals::none);
  Thread(Thread&&) = default;
  /// Joins the one it had.
  Thread& operator=(Thread&& other);
  /// Joins.
  ~Thread() { join(); }

  /// It was started and not joined yet.
  bool joinable() const { return thread_.joinable(); }
  /// Nothing where there is none. A child of fork has the object and not the thread: there it lets go.
  void join();
  /// Nobody will join it: it may use only what outlives the process's last thread.
  void detach() { thread_.detach(); }

 private:
  std::thread thread_;
  pid_t process_ = 0;
};

}  // namespace unisono::base
