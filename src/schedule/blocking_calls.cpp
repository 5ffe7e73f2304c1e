#include "schedule/blocking_calls.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <utility>

namespace unisono::schedule {

struct BlockingCalls::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> job;
  bool busy = false;
  bool stop = false;
};

class BlockingCalls::Call final : public Task {
 public:
  Call(std::shared_ptr<Shared> shared, std::shared_ptr<Engine> engine, const CollectiveCall& call, base::Notifier* notifier,
       const std::function<void()>& give_up)
      : shared_(std::move(shared)), call_(call), give_up_(give_up) {
    const std::lock_guard lock(shared_->mutex);
    shared_->busy = true;
    shared_->job = [this, engine = std::move(engine), notifier] {
      try {
        engine->run(call_);
      } catch (...) {
        error_ = std::current_exception();
      }
      done_.store(true, std::memory_order_seq_cst);
      if (notifier != nullptr) notifier->notify();
    };
    shared_->changed.notify_all();
  }
  ~Call() override {
    if (!done_.load(std::memory_order_acquire)) give_up_();
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return !shared_->busy; });
  }
  bool advance() override {
    if (!done_.load(std::memory_order_acquire)) return false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  std::shared_ptr<Shared> shared_;
  CollectiveCall call_;
  const std::function<void()>& give_up_;
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

BlockingCalls::BlockingCalls(base::Notifier* notifier, std::function<void()> give_up)
    : shared_(std::make_shared<Shared>()), notifier_(notifier), give_up_(std::move(give_up)), process_(::getpid()) {
  thread_ = base::Thread("asynchronous calls of an engine that blocks", [shared = shared_] {
    std::unique_lock lock(shared->mutex);
    for (;;) {
      shared->changed.wait(lock, [&] { return shared->stop || shared->job; });
      if (!shared->job) return;
      const auto job = std::exchange(shared->job, nullptr);
      lock.unlock();
      job();
      lock.lock();
      shared->busy = false;
      shared->changed.notify_all();
    }
  });
}

BlockingCalls::~BlockingCalls() {
  if (::getpid() != process_) return;  // a child of fork has no such thread
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  thread_.join();
}

std::unique_ptr<Task> BlockingCalls::run(std::shared_ptr<Engine> engine, const CollectiveCall& call) {
  return std::make_unique<Call>(shared_, std::move(engine), call, notifier_, give_up_);
}

}  // namespace unisono::schedule
