#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bucket_reduction.h"
#include "unisono/process_group.h"
#include "unisono/torch/data_parallel.h"

namespace unisono::libtorch {

/// Returns text such as "float32 [10, 5] on cpu".
std::string describe(at::ScalarType dtype, at::IntArrayRef sizes, const at::Device& device);

/// Copies the tensors of rank 0 to all ranks, packed by dtype into a few large broadcasts. All ranks have the same dtypes and sizes.
void broadcast_tensors(const std::vector<at::Tensor>& tensors, const ProcessGroup& group);

/// Tells whether the forward pass of a backward pass has gone through the wrapper of a module.
class ForwardWatch {
 public:
  /// Adds what accumulates the gradient of a parameter of the module.
  void add(const torch::autograd::Node* accumulator) { accumulators_.insert(accumulator); }

  /// A forward pass through the wrapper makes a graph.
  void makes_graph() { graph_waits_ = true; }
  /// It has made the graph.
  void made_graph();
  /// Returns true where a forward pass has made a graph, and no backward pass has come since.
  bool graph_waits() const { return graph_waits_; }
  /// A backward pass begins. Returns true where its forward pass has gone around the wrapper.
  bool begin_backward();

 private:
  bool went_around() const;

  std::unordered_set<const torch::autograd::Node*> accumulators_;
  bool graph_waits_ = false;
  bool forwarded_ = false;         // a forward pass has gone through the wrapper, and no backward pass has come since
  std::uint64_t forward_end_ = 0;  // the number that autograd's next node had after the latest forward pass
};

/// Averages the gradients of one module over a group of its own. Each gradient that autograd has accumulated is put into its bucket. Full buckets are
/// reduced in the order of the buckets, and the end of the backward pass waits for all of them.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  Reducer(std::shared_ptr<torch::nn::Module> module, ProcessGroup group, const AutoModelOptions& options, BucketCaps caps);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  /// Installs the hooks of the parameters. Call it once.
  void attach();

  void before_forward();
  void after_forward(const std::vector<at::Tensor>& outputs);
  bool wants_outputs() const noexcept { return find_unused_; }
  void hold(int change) noexcept { held_ += change; }
  BackwardTimes times() const;

 private:
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  using Clock = std::chrono::steady_clock;

  struct Trained {
    std::string name;
    at::Tensor parameter;
    Accumulator accumulator;
    std::uintptr_t hook = 0;
    BucketReduction::Position place = {};
    bool ready = false;      // in this pass
    bool used = false;       // since the last reduction, on this rank
    at::Tensor before = {};  // the gradient of an unused parameter, which lies in the bucket
  };
  /// The state of a parameter when the module was wrapped.
  struct Known {
    std::string name;
    at::Tensor parameter;
    bool trained;
    at::ScalarType dtype;
    at::Device device;
    std::vector<std::int64_t> sizes;
    Accumulator accumulator;
  };

  void check_module() const;
  void share_buffers();
  void lay_out(const std::vector<std::size_t>& order);
  void reorder();

  void arrived(std::size_t trained);
  void reached();
  void begin();
  bool will_arrive(const Trained& trained) const;
  void make_ready(std::size_t trained, bool used);
  void fill(Trained& trained, bool used);
  void finish();
  void settle(const at::Tensor& used_anywhere);
  [[noreturn]] void throw_missing(const std::vector<std::string>& own) const;
  [[noreturn]] void throw_gone_around(int culprit) const;

  std::shared_ptr<torch::nn::Module> module_;
  ProcessGroup group_;
  const bool find_unused_, broadcast_buffers_;
  std::vector<Known> known_;
  std::atomic<int> held_{0};

  mutable std::mutex mutex_;  // guards the members below, because hooks run in autograd's threads
  std::vector<Trained> trained_;
  std::vector<at::Tensor> parameters_;  // the trained ones
  BucketReduction buckets_;
  ForwardWatch forward_;
  std::weak_ptr<void> pass_;  // lives as long as a backward pass that is under way or was broken off
  bool reducing_ = false;     // true if this pass reduces
  bool went_around_ = false;  // the forward pass of this backward pass has not gone through the wrapper
  bool ordered_ = false;      // the buckets are in the order of arrival
  std::vector<std::size_t> arrivals_;
  BackwardTimes times_;
};

}  // namespace unisono::libtorch
