#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "torch/python/lists.h"
#include "torch/python/work.h"
#include "unisono/membership.h"
#include "unisono/torch/memory.h"

namespace unisono::libtorch {

/// Returns the part of the store for the group that begins with `first_rank`, as numbered in the job or the parent group. Each rank of torch counts
/// the groups that it makes, so groups without a common rank may have the same name; without this they would use the same keys.
c10::intrusive_ptr<c10d::Store> place_of_group(std::int64_t first_rank, const c10::intrusive_ptr<c10d::Store>& store);

/// A process group of torch.distributed. Any number of threads may call; calls are issued one after the other and waited for concurrently.
class ProcessGroupUnisono final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    using c10d::Backend::Options::Options;
    std::string name;     // the group's name
    std::string library;  // see MembershipOptions
  };
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;

  /// Joins the group. Collective. `options->backend` is the name for profilers and messages, `engine` is the backend's name in `initialize`.
  ProcessGroupUnisono(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options, std::string engine);

  const std::string getBackendName() const override { return options_->backend; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }

  // Some versions of PyTorch since 2.7 lack these methods, so they are not marked override.
  // NOLINTBEGIN(modernize-use-override)
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) { options_->timeout = timeout; }
  /// DistributedDataParallel allocates its gradients through these.
  bool supportsTensorAlloc(c10::DeviceIndex device) { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) { return empty_shared({size}, options); }
  bool supportsSplitting() const { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options);
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<c10d::Backend::Options>& options,
                                          const int& rank, const int& size);
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void abort();
  void shutdown();
  // NOLINTEND(modernize-use-override)

  /// Carries out an operation and returns when it is done. kNoTimeout: the group's own timeout.
  void carry_out(const detail::Request& request, const at::Device& device, std::chrono::milliseconds timeout);

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits, std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  /// The outputs of a call: a list of tensors, or several lists.
  class Outputs {
   public:
    Outputs() = default;
    Outputs(const Tensors& list) : list_(&list) {}   // NOLINT(google-explicit-constructor): as torch's calls have them
    Outputs(const Lists& lists) : lists_(&lists) {}  // NOLINT(google-explicit-constructor)
    Lists copy() const { return lists_ != nullptr ? *lists_ : list_ != nullptr ? Lists{*list_} : Lists{}; }

   private:
    const Tensors* list_ = nullptr;
    const Lists* lists_ = nullptr;
  };
  /// A call's type and name in torch, and properties of it that torch is told. It refers to the caller's lists, which only a Work copies.
  struct Call {
    c10d::OpType type;
    const char* name;  // the profiler's range
    std::chrono::milliseconds timeout;
    bool is_async;
    const Tensors& inputs;
    Outputs outputs;
    int tag = 0;
  };
  /// Issues the operations together and in order. A synchronous call is done when it returns, and returns no Work.
  WorkPtr issue(const Call& call, std::span<const detail::Request> requests);
  WorkPtr issue(const Call& call, const detail::Request& request) { return issue(call, std::span(&request, 1)); }
  WorkPtr issue_message(const Call& call, const detail::MessageRequest& request);
  /// Issues the calls of `start` and makes a Work of them.
  template <class Start>
  WorkPtr follow(const Call& call, const char* profile, Start&& start);
  /// Makes the request for one reduction: `in` to `out`, or several blocks to one.
  detail::Request reduction(Operation operation, const at::Tensor& in, const at::Tensor& out, const c10d::ReduceOp& op) const;
  at::Tensor reduce_sparse(const at::Tensor& tensor, std::chrono::milliseconds timeout);
  const char* title(const char* name) const;
  std::chrono::milliseconds timeout_of(std::chrono::milliseconds given) const;
  std::size_t blocks() const { return static_cast<std::size_t>(getSize()); }
  [[noreturn]] void refuse(const char* call, const std::string& what) const;
  /// Returns the only list of a call, which has a tensor for each rank. Refuses other lists with what the call requires; {} stands for the ranks.
  const std::vector<at::Tensor>& only_list(const char* call, const std::vector<std::vector<at::Tensor>>& lists, std::string_view required) const;
  const at::Tensor& single(const char* call, const Tensors& tensors) const;
  /// Checks the tensors of a list, one for each rank, against this rank's single tensor: all must have its shape, or, where blocks may differ in
  /// length, this rank's own must.
  void require_shape(const char* call, const Tensors& list, const at::Tensor& single, bool all) const;
  Rank root_of(const char* call, std::int64_t root) const;

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<Options> options_;
  std::string engine_;
  c10::weak_intrusive_ptr<c10d::Backend> last_split_{c10::intrusive_ptr<c10d::Backend>()};
  std::string last_split_key_;
  std::mutex issuing_;  // held while a call is issued, never while one is waited for
  std::shared_ptr<Membership> membership_;
  std::optional<ProcessGroup> group_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> monitored_barriers_{0};
  std::atomic<bool> coalescing_{false};
  std::optional<std::vector<c10::intrusive_ptr<WorkUnisono>>> coalesced_;  // set between startCoalescing and endCoalescing; guarded by issuing_
};

/// Ends this process's part in all groups that are left, the newest first: by Membership::abandon if `how` says how the process ended, else by
/// Membership::leave.
void end_all(const std::string& how);

}  // namespace unisono::libtorch
