#include "base/reminder.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "unisono/error.h"

namespace unisono::base {

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
