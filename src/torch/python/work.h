#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "unisono/work.h"

namespace unisono::libtorch {

/// The Work that torch.distributed gets for an operation under way: one of ours, or several that together make one of torch's.
class WorkUnisono final : public c10d::Work {
 public:
  /// The description of an operation. `title` names the profiler's range and lives for ever; null if nobody profiles.
  struct About {
    int rank = -1;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr;
    std::vector<at::Tensor> inputs = {};
    std::vector<std::vector<at::Tensor>> outputs = {};
    std::uint64_t sequence = 0;
  };

  /// Begins the profiler's range, so make it before the operation.
  explicit WorkUnisono(About about);
  /// Takes the operations. Their tensors stay alive until they are done, even if this object is gone.
  void follow(std::vector<unisono::Work> works);
  /// Returns a Work that is done when all parts are done.
  static c10::intrusive_ptr<WorkUnisono> all_of(const std::vector<c10::intrusive_ptr<WorkUnisono>>& parts, int rank);
  at::Device device() const;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return about_.sequence; }

 private:
  bool all_done() const;
  /// Returns the future to complete, if this call has settled it and there is one.
  c10::intrusive_ptr<c10::ivalue::Future> settle();
  void complete(c10::ivalue::Future& future) const;

  About about_;
  std::vector<unisono::Work> works_;
  bool settled_ = false;                            // guarded by mutex_
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // guarded by mutex_; made when it is asked for
};

/// Makes torch's current stream the calling thread's current stream, for memory on a device.
class TorchStream {
 public:
  explicit TorchStream(const at::Device& device);
  ~TorchStream();
  TorchStream(const TorchStream&) = delete;
  TorchStream& operator=(const TorchStream&) = delete;

 private:
  bool is_set_ = false;
  void* before_ = nullptr;
};

}  // namespace unisono::libtorch
