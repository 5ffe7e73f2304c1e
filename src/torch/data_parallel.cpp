#include "unisono/torch/data_parallel.h"

#include <algorithm>

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "buckets.h"
#include "data_parallel_setup.h"
#include "reducer.h"
#include "unisono/context.h"

namespace unisono {
namespace libtorch {

Replica::Replica(std::shared_ptr<torch::nn::Module> module, const AutoModelOptions& options)
    : module_(std::move(module)), group_(options.group ? *options.group : world()), sync_bn_(options.sync_bn) {
  prepare_model(module_.get(), options, group_);
  if (group_.size() == 1) return;
  std::vector<at::Tensor> state = module_->parameters();
  const at::Device device = state.empty() ? at::Device(at::kCPU) : state.front().device();
  if (group_.rank() == 0) {
    LOG(INFO) << fmt::format("unisono: a model of {} parameters is trained by {} ranks together, on {}", state.size(), group_.size(), device.str());
  }
  for (at::Tensor& buffer : module_->buffers()) state.push_back(std::move(buffer));
  for (at::Tensor& tensor : state) tensor = tensor.detach();
  broadcast_tensors(state, group_);
  const BucketCaps caps = bucket_caps(options.bucket_cap_mb, device, std::min(group_.size(), nproc_per_node()));
  // The buckets have a group of their own, so that other calls of the user or of another model cannot come between them.
  reducer_ = std::make_shared<Reducer>(module_, *split_group(group_, 0, group_.rank()), options, caps);
  reducer_->attach();
}

Replica::~Replica() = default;

void Replica::before_forward() {
  if (reducer_) reducer_->before_forward();
}
void Replica::after_forward(const std::vector<at::Tensor>& outputs) {
  if (reducer_) reducer_->after_forward(outputs);
}
const ProcessGroup* Replica::batch_norm_group() const { return reducer_ && sync_bn_ && module_->is_training() ? &group_ : nullptr; }
bool Replica::wants_outputs() const { return reducer_ && reducer_->wants_outputs(); }
void Replica::hold_reduction(int change) {
  if (reducer_) reducer_->hold(change);
}
BackwardTimes Replica::times() const { return reducer_ ? reducer_->times() : BackwardTimes(); }
const ProcessGroup& Replica::group() const { return group_; }

}  // namespace libtorch

NoSync::NoSync(std::shared_ptr<libtorch::Replica> replica) : replica_(std::move(replica)) { replica_->hold_reduction(1); }
NoSync::~NoSync() {
  if (replica_) replica_->hold_reduction(-1);
}
NoSync::NoSync(NoSync&& other) noexcept = default;

}  // namespace unisono
