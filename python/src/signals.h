#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <exception>
#include <utility>

#include "failure.h"

namespace unisono::python {

namespace nb = nanobind;

/// Releases the interpreter lock for a scope in which the library may wait. Signals that arrive meanwhile are handled there; calls of other
/// extensions on the library, which would not know what is thrown, go on undisturbed.
class Unlocked {
 public:
  Unlocked() noexcept;
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  bool before_;
  nb::gil_scoped_release released_;
};

/// The result of a call without the interpreter lock.
template <class F>
auto unlocked(F&& f) {
  const Unlocked released;
  return std::forward<F>(f)();
}

/// Takes the interpreter lock for a call of the program's within a scope of Unlocked.
class Locked {
 public:
  Locked() noexcept;
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  nb::gil_scoped_acquire locked_;
  bool before_;
};

/// Calls it with the interpreter lock, within a scope of Unlocked. What it raises goes through the library.
template <class F>
auto locked(F&& f) {
  const Locked lock;
  try {
    return std::forward<F>(f)();
  } catch (nb::python_error& error) {
    std::rethrow_exception(as_cpp(error.value()));
  }
}

/// Ends a wait for which nobody holds an exception of Python.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "the program was interrupted (KeyboardInterrupt)"; }
};

/// The calling thread waits on behalf of a program that Python's own handler of signals does not reach (XLA's): Ctrl-C ends its waits with
/// Interrupted.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  unsigned since_;
};
/// Not within this scope.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

 private:
  const unsigned* before_;
};
/// From now on SIGINT ends the waits that are Interruptible, and goes to the handler that there is where nobody waits so: an exception of Python
/// that is raised while another one leaves XLA would reach nobody. Only where the program has no handler of its own.
void end_waits_on_interrupt();

/// The calling thread is a rank of run_threads: its calls end once the flag is set.
class RankThread {
 public:
  explicit RankThread(const std::atomic<bool>& interrupted);
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;
};

/// Whether the calling thread is one.
bool is_rank_thread() noexcept;

}  // namespace unisono::python
