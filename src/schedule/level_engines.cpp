#include "schedule/level_engines.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/notifier.h"
#include "base/thread.h"
#include "unisono/error.h"

namespace unisono::schedule {

/// A thread that makes the blocking calls of an engine, one at a time, for asynchronous calls.
class BlockingCalls {
 public:
  /// `give_up` ends the group; it is called if a task is destroyed before its call is done. Throws Error if no thread can be started.
  BlockingCalls(base::Notifier* notifier, std::function<void()> give_up)
      : shared_(std::make_shared<Shared>()), notifier_(notifier), give_up_(std::move(give_up)), process_(::getpid()) {
    thread_ = base::Thread("asynchronous calls of an engine that blocks", [shared = shared_] { shared->loop(); });
  }
  ~BlockingCalls() {
    if (::getpid() != process_) return;  // a child of fork has no such thread
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->stop = true;
    }
    shared_->changed.notify_all();
    thread_.join();
  }
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;
  /// Starts a call. The task must be destroyed before this object; if its call is not done by then, the group ends.
  std::unique_ptr<Task> run(std::shared_ptr<Engine> engine, const CollectiveCall& call) {
    return std::make_unique<Call>(*this, std::move(engine), call);
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> job;
    bool busy = false;
    bool stop = false;

    void loop() {
      std::unique_lock lock(mutex);
      for (;;) {
        changed.wait(lock, [&] { return stop || job; });
        if (!job) return;
        const auto next = std::exchange(job, nullptr);
        lock.unlock();
        next();
        lock.lock();
        busy = false;
        changed.notify_all();
      }
    }
  };

  class Call final : public Task {
   public:
    Call(const BlockingCalls& calls, std::shared_ptr<Engine> engine, const CollectiveCall& call)
        : shared_(calls.shared_), call_(call), give_up_(calls.give_up_) {
      const std::lock_guard lock(shared_->mutex);
      shared_->busy = true;
      shared_->job = [this, engine = std::move(engine), notifier = calls.notifier_] {
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

  std::shared_ptr<Shared> shared_;
  base::Notifier* notifier_;
  std::function<void()> give_up_;
  pid_t process_;
  base::Thread thread_;
};

std::byte* Scratch::take(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 10;
  constexpr std::size_t line = 64;
  bytes = (bytes + line - 1) / line * line;
  for (; block_ < blocks_.size(); ++block_, used_ = 0) {
    if (used_ + bytes + line <= blocks_[block_].second) break;
  }
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max(bytes + line, least);
    blocks_.emplace_back(new std::byte[size], size);
    used_ = 0;
  }
  std::byte* const free = blocks_[block_].first.get() + used_;
  const std::size_t beyond_line = reinterpret_cast<std::uintptr_t>(free) % line;
  std::byte* const aligned = beyond_line == 0 ? free : free + (line - beyond_line);
  used_ = static_cast<std::size_t>(aligned - blocks_[block_].first.get()) + bytes;
  return aligned;
}

void Scratch::reset() {
  // Many pieces, or the memory of one enormous call, are not worth keeping.
  constexpr std::size_t most = std::size_t{256} << 20, most_blocks = 4;
  std::size_t total = 0;
  for (const auto& block : blocks_) total += block.second;
  if (blocks_.size() > most_blocks || total > most) blocks_.clear();
  block_ = used_ = 0;
}

LevelEngines::LevelEngines(coordination::Coordination& coordination, Engines engines)
    : coordination_(coordination), engines_(std::move(engines)), host_(coordination.host_engine()) {}

LevelEngines::~LevelEngines() = default;

const std::shared_ptr<Engine>& LevelEngines::at(Level level) const {
  switch (level) {
    case Level::host: return host_;
    case Level::rail: return engines_.rail;
    case Level::group: break;
  }
  return engines_.group;
}

// An engine's own error text is used where no peer is found that caused the failure.
coordination::FailureAttribution LevelEngines::attribution() const { return {coordination_, {.engine = engines_.group->name()}}; }

// All ranks have agreed on the call by now, and the others are in it: they are told where this rank cannot begin it.
BlockingCalls& LevelEngines::blocking_calls() {
  if (blocking_calls_) return *blocking_calls_;
  const auto give_up = [this](const std::string& why) {
    coordination_.poison({.cause = PeerFailed::Cause::aborted,
                          .culprit = coordination_.rank(),
                          .message = fmt::format("rank {} has given up a call that was under way{}", coordination_.rank(), why)});
  };
  try {
    blocking_calls_ = std::make_unique<BlockingCalls>(coordination_.notifier(), [give_up] { give_up(""); });
  } catch (const Error& error) {
    give_up(": " + error.message());
    throw;
  }
  return *blocking_calls_;
}

std::unique_ptr<Task> LevelEngines::start(const std::shared_ptr<Engine>& engine, const CollectiveCall& call) {
  if (engine->starts()) return engine->start(call);
  return blocking_calls().run(engine, call);
}

}  // namespace unisono::schedule
