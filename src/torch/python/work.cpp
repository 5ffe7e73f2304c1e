#include "torch/python/work.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "torch/python/errors.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

// What waits for the thread's call to be out; null outside of one.
thread_local std::vector<std::function<void()>>* after_issuing = nullptr;

const std::vector<at::Tensor>* first_list(const std::vector<std::vector<at::Tensor>>& lists) { return lists.empty() ? nullptr : &lists.front(); }

}  // namespace

Issuing::Issuing(std::mutex& mutex) : lock_(mutex) { after_issuing = &held_; }

Issuing::~Issuing() { end(); }

void Issuing::end() {
  if (!lock_.owns_lock()) return;
  after_issuing = nullptr;
  lock_.unlock();
  for (const auto& f : std::exchange(held_, {})) f();
}

void Issuing::then(std::function<void()> f) {
  if (after_issuing != nullptr) after_issuing->push_back(std::move(f));
  else f();
}

TorchStream::TorchStream(const at::Device& device) {
  if (device.is_cpu()) return;
  is_set_ = true;
  before_ = current_stream();
  set_current_stream(c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle());
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
    Issuing::then([self = c10::intrusive_ptr<WorkUnisono>::unsafe_reclaim_from_nonowning(this)] { self->settle(); });
    return;
  }
  auto left = std::make_shared<std::atomic<std::size_t>>(works_.size());
  auto self = c10::intrusive_ptr<WorkUnisono>::unsafe_reclaim_from_nonowning(this);
  for (unisono::Work& work : works_) {
    work.on_completion([left, self] {
      if (left->fetch_sub(1) == 1) Issuing::then([self] { self->settle(); });
    });
  }
}

c10::intrusive_ptr<WorkUnisono> WorkUnisono::all_of(const std::vector<c10::intrusive_ptr<WorkUnisono>>& parts, int rank) {
  About about{.rank = rank, .type = c10d::OpType::COALESCED};
  std::vector<unisono::Work> works;
  for (const auto& part : parts) {
    works.insert(works.end(), part->works_.begin(), part->works_.end());
    about.outputs.push_back(part->result());
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
  const auto* outputs = first_list(about_.outputs);
  if (outputs != nullptr && !outputs->empty()) return outputs->front().device();
  return about_.inputs.empty() ? at::Device(at::kCPU) : about_.inputs.front().device();
}

c10::IValue WorkUnisono::value() const {
  if (about_.outputs.size() > 1) return c10::IValue(about_.outputs);
  const auto* outputs = first_list(about_.outputs);
  return c10::IValue(outputs != nullptr ? *outputs : std::vector<at::Tensor>{});
}

// All of its operations are done: says so to whoever asks or has asked. Once.
void WorkUnisono::settle() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(settled_, true)) return;
    for (const unisono::Work& work : works_) {
      if (auto error = work.exception(); error && !exception_) exception_ = as_torch_error(error);
    }
    completed_ = true;
    if (recordFunctionEndCallback_) recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
    future = future_;
  }
  cv_.notify_all();
  if (!future) return;
  if (exception_) future->setError(exception_);
  else future->markCompleted(value());
}

bool WorkUnisono::isCompleted() {
  if (!all_done()) return false;
  settle();
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
    } catch (...) {  // what became of the operation is told below, with what became of the others
      if (!work.is_completed()) throw_torch_error();
    }
  }
  if (!all_done()) return true;  // on a device, in whose order what follows is put
  settle();
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
  if (exception_) future->setError(exception_);
  else future->markCompleted(value());
  return future;
}

}  // namespace unisono::libtorch
