#include "base/thread.h"

#include <signal.h>
#include <unistd.h>

#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

void run(const std::string& name, const std::function<void()>& body) noexcept {
  try {
    try {
      body();
    } catch (...) {
      log(LogLevel::error, fmt::format("the thread of {} has ended: {}", name, what_of(std::current_exception())));
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is no memory for the message either
  }
}

/// Blocks all signals in the calling thread, and in the threads it starts, during its lifetime.
class Quiet {
 public:
  Quiet() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~Quiet() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Thread::Thread(std::string name, std::function<void()> body, Signals signals) : process_(::getpid()) {
  std::optional<Quiet> quiet;
  if (signals == Signals::none) quiet.emplace();
  try {
    thread_ = std::thread([name, body = std::move(body)] { run(name, body); });
  } catch (const std::system_error& error) {
    throw Error(fmt::format("the thread of {} cannot be started: {}", name, error.code().message()),
                {.hint = "look at ulimit -u, and at the limit of processes of the container (pids.max)"});
  }
}

Thread& Thread::operator=(Thread&& other) {  // NOLINT(performance-noexcept-move-constructor): join may throw
  if (this != &other) {
    join();
    thread_ = std::move(other.thread_);
    process_ = other.process_;
  }
  return *this;
}

void Thread::join() {
  if (!thread_.joinable()) return;
  if (::getpid() == process_) thread_.join();
  else thread_.detach();
}

Reminder::Reminder(Pace pace, std::function<std::string()> text, std::function<void(const std::string&)> say)
    : pace_(pace), text_(std::move(text)), say_(std::move(say)) {
  try {
    thread_ = Thread("the word about whom is waited for", [this] { remind(); });
  } catch (const Error& error) {  // the reminder is only a help: the caller waits without it
    debug(error.what());
  }
}

Reminder::~Reminder() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Reminder::remind() noexcept {
  try {
    std::unique_lock lock(mutex_);
    for (auto pause = pace_.first; !changed_.wait_for(lock, pause, [&] { return done_; }); pause = pace_.again) {
      lock.unlock();  // the text may have to be asked for over a network
      const std::string text = text_();
      lock.lock();
      if (done_) return;
      if (!text.empty()) say_(text);
    }
  } catch (const std::exception& error) {  // the waiting caller meets the same error and reports it
    log(LogLevel::debug, error.what());
  }
}

}  // namespace unisono::base
