// Ctrl-C while a call waits. The handler of Python only notes that a signal has come; the main thread, which sleeps in the library, is to look.

#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>

#include "failure.h"
#include "imports.h"
#include "module.h"
#include "unisono/interruption.h"

namespace unisono::python {
namespace {

std::uintptr_t main_thread = 0;
thread_local const std::atomic<bool>* rank_interrupted = nullptr;
thread_local bool is_in_call = false;

std::atomic<unsigned> interrupts{0};
std::atomic<int> interruptible_waits{0};
std::atomic<bool> is_unseen{false};  // an interrupt that no wait has ended with yet
thread_local const unsigned* interrupts_before = nullptr;
struct sigaction handler_before {};

void note_interrupt(int number, siginfo_t* info, void* context) {
  if (interruptible_waits.load() > 0) {
    is_unseen.store(true);
    interrupts.fetch_add(1);
    return;
  }
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) handler_before.sa_sigaction(number, info, context);
  else handler_before.sa_handler(number);
}

void look() {
  if (interrupts_before != nullptr && interrupts.load() != *interrupts_before) {
    is_unseen.store(false);
    throw Interrupted();
  }
  if (rank_interrupted != nullptr && rank_interrupted->load(std::memory_order_relaxed)) throw Interrupted();
  if (!is_in_call || static_cast<std::uintptr_t>(::pthread_self()) != main_thread || Py_IsInitialized() == 0) return;
  const nb::gil_scoped_acquire locked;
  if (!locked.is_valid() || PyErr_CheckSignals() == 0) return;
  nb::python_error raised;
  throw Raised(raised);
}

}  // namespace

Unlocked::Unlocked() noexcept : before_(is_in_call) { is_in_call = true; }
Unlocked::~Unlocked() { is_in_call = before_; }

Locked::Locked() noexcept : before_(is_in_call) { is_in_call = false; }
Locked::~Locked() { is_in_call = before_; }

Interruptible::Interruptible() : since_(interrupts.load()) {
  interrupts_before = &since_;
  interruptible_waits.fetch_add(1);
}
Interruptible::~Interruptible() {
  interrupts_before = nullptr;
  interruptible_waits.fetch_sub(1);
  if (is_unseen.exchange(false)) ::kill(::getpid(), SIGINT);  // it came too late for this wait
}

Uninterrupted::Uninterrupted() : before_(interrupts_before) { interrupts_before = nullptr; }
Uninterrupted::~Uninterrupted() { interrupts_before = before_; }

void end_waits_on_interrupt() {
  static bool done = false;
  const nb::object handlers = nb::borrow(imported("signal"));
  if (done || !handlers.attr("getsignal")(SIGINT).is(handlers.attr("default_int_handler"))) return;
  if (::sigaction(SIGINT, nullptr, &handler_before) != 0 || handler_before.sa_handler == SIG_DFL || handler_before.sa_handler == SIG_IGN) return;
  struct sigaction own = handler_before;
  own.sa_flags |= SA_SIGINFO;
  own.sa_sigaction = note_interrupt;
  done = ::sigaction(SIGINT, &own, nullptr) == 0;
}

bool is_rank_thread() noexcept { return rank_interrupted != nullptr; }

RankThread::RankThread(const std::atomic<bool>& interrupted) { rank_interrupted = &interrupted; }
RankThread::~RankThread() { rank_interrupted = nullptr; }

void watch_signals() {
  main_thread = nb::cast<std::uintptr_t>(imported("threading").attr("main_thread")().attr("ident"));
  set_interruption_check(look);
}

}  // namespace unisono::python
