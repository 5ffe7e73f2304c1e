#include "torch/python/work.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "base/thread.h"
#include "torch/python/errors.h"
#include "torch/python/versions.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

/// Completes futures. A callback may call the group and wait for that, so each runs in a thread on which nothing else depends. There are as many
/// threads as callbacks that block.
class Completer {
 public:
  static Completer& process() {
    static auto& completer = *new Completer;  // never destroyed, because its threads may outlive all static objects
    return completer;
  }

  void post(std::function<void()> f) {
    std::unique_lock lock(mutex_);
    if (idle_ <= jobs_.size() && !start()) {  // a callback that waits for the group here makes its own progress
      lock.unlock();
      return run(f);
    }
    jobs_.push_back(std::move(f));
    wake_.notify_one();
  }

 private:
  bool start() {
    try {
      base::Thread("the callbacks of futures", [this] { loop(); }).detach();
      return true;
    } catch (const Error& error) {
      TORCH_WARN("unisono: ", error.what());
      return false;
    }
  }

  static void run(const std::function<void()>& job) {
    try {
      job();
    } catch (const std::exception& error) {  // an error in the user's callback, which is reported nowhere else
      TORCH_WARN("unisono: a callback of a future failed: ", error.what());
    }
  }

  void loop() {
    // The thread that starts this one may block signals. A callback's own threads would inherit that, so the mask is cleared.
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      constexpr std::chrono::seconds longest_idle{5};  // an idle thread ends then
      const bool any = wake_.wait_for(lock, longest_idle, [&] { return !jobs_.empty(); });
      --idle_;
      if (!any) return;
      {
        const std::function<void()> job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        run(job);
      }  // the job's captures are released here without the lock, because they may run the user's destructors
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::size_t idle_ = 0;
};

}  // namespace

TorchStream::TorchStream(const at::Device& device) {
  if (device.is_cpu()) return;
  is_set_ = true;
  before_ = current_stream();
  set_current_stream(native_handle_of(c10::impl::VirtualGuardImpl(device.type()).getStream(device)));
}

TorchStream::~TorchStream() {
  if (is_set_) set_current_stream(before_);
}

WorkUnisono::WorkUnisono(About about)
    : c10d::Work(about.rank, about.type, about.title, about.title != nullptr ? std::optional(about.inputs) : std::nullopt),
      about_(std::move(about)) {}

void WorkUnisono::follow(std::vector<unisono::Work> works) {
  works_ = std::move(works);
  if (all_done()) {
    settle();  // nobody can have asked for a future yet
    return;
  }
  auto left = std::make_shared<std::atomic<std::size_t>>(works_.size());
  auto self = c10::intrusive_ptr<WorkUnisono>::unsafe_reclaim_from_nonowning(this);
  for (unisono::Work& work : works_) {
    work.on_completion([left, self] {
      if (left->fetch_sub(1) > 1) return;
      if (auto future = self->settle()) Completer::process().post([self, future] { self->complete(*future); });
    });
  }
}

c10::intrusive_ptr<WorkUnisono> WorkUnisono::all_of(const std::vector<c10::intrusive_ptr<WorkUnisono>>& parts, int rank) {
  About about{.rank = rank, .type = c10d::OpType::COALESCED};
  std::vector<unisono::Work> works;
  for (const auto& part : parts) {
    works.insert(works.end(), part->works_.begin(), part->works_.end());
    about.outputs.push_back(part->result());
    about.inputs.insert(about.inputs.end(), part->about_.inputs.begin(), part->about_.inputs.end());
    about.sequence = part->about_.sequence;
  }
  auto whole = c10::make_intrusive<WorkUnisono>(std::move(about));
  whole->follow(std::move(works));
  return whole;
}

bool WorkUnisono::all_done() const {
  return std::ranges::all_of(works_, [](const unisono::Work& work) { return work.is_completed(); });
}

at::Device WorkUnisono::device() const {
  if (!about_.outputs.empty() && !about_.outputs.front().empty()) return about_.outputs.front().front().device();
  return about_.inputs.empty() ? at::Device(at::kCPU) : about_.inputs.front().device();
}

// Completes the future once all operations are done; it does so once.
c10::intrusive_ptr<c10::ivalue::Future> WorkUnisono::settle() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(settled_, true)) return nullptr;
  for (const unisono::Work& work : works_) {
    if (auto error = work.exception(); error && !exception_) exception_ = as_torch_error(error);
  }
  completed_ = true;
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
  recordFunctionEndCallback_ = nullptr;
  return future_;
}

void WorkUnisono::complete(c10::ivalue::Future& future) const {
  if (exception_) {  // it no longer changes
    future.setError(exception_);
  } else if (about_.outputs.size() > 1) {
    future.markCompleted(about_.outputs);
  } else {
    future.markCompleted(about_.outputs.empty() ? std::vector<at::Tensor>{} : about_.outputs.front());
  }
}

bool WorkUnisono::isCompleted() {
  if (!all_done()) return false;
  if (auto future = settle()) complete(*future);
  return true;
}

bool WorkUnisono::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return !exception_;
}

std::exception_ptr WorkUnisono::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

int WorkUnisono::sourceRank() const { return works_.size() == 1 ? works_.front().source_rank() : -1; }

std::vector<at::Tensor> WorkUnisono::result() {
  std::vector<at::Tensor> all;
  for (const auto& list : about_.outputs) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void WorkUnisono::synchronize() { wait(); }

bool WorkUnisono::wait(std::chrono::milliseconds timeout) {
  const auto begun = std::chrono::steady_clock::now();
  const TorchStream stream(device());
  for (unisono::Work& work : works_) {
    try {
      if (timeout == kNoTimeout) {
        work.wait();
      } else {
        const auto gone = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
        if (!work.wait_for(std::max(timeout - gone, std::chrono::milliseconds(0)))) {
          throw Timeout(fmt::format("{} was not done within {} ms", c10d::opTypeToString(retrieveOpType()), timeout.count()),
                        {.hint = "it goes on; wait for it again, or abort the group"});
        }
        work.wait();
      }
    } catch (...) {  // the result is given below, with those of the other operations
      if (!work.is_completed()) throw_torch_error();
    }
  }
  if (!all_done()) return true;  // on a device the following work runs in the stream's order
  if (auto future = settle()) complete(*future);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
    if (exception_) std::rethrow_exception(exception_);
  }
  if (future) future->wait();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkUnisono::getFuture() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    const c10::TypePtr tensors = c10::ListType::create(c10::TensorType::get());
    const c10::TypePtr type = about_.outputs.size() > 1 ? c10::TypePtr(c10::ListType::create(tensors)) : tensors;
    future = future_ =
        c10::make_intrusive<c10::ivalue::Future>(type, device().is_cpu() ? std::vector<at::Device>{} : std::vector<at::Device>{device()});
    if (!settled_) return future;
  }
  complete(*future);
  return future;
}

}  // namespace unisono::libtorch
