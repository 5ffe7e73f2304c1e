#include "unisono/torch/remote.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "torch/remote/device.h"
#include "torch/remote/generator.h"
#include "torch/remote/place.h"
#include "torch/remote/session.h"
#include "unisono/detail/remote_call.h"
#include "unisono/error.h"
#include "unisono/operation.h"

namespace unisono {
namespace {

using libtorch::Command;
using libtorch::Session;
using libtorch::WireWriter;

at::Device device_of(const std::shared_ptr<detail::RemoteWorkers>& workers, int worker) {
  if (libtorch::current_session()->workers() != workers) throw InvalidArgument("remote tensors are those of the controller that was made last");
  return remote_device(worker);
}

/// The commands of a collective for all workers, which all see collectives in one order.
void send_to_all(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& results, Operation operation, ReduceOp op, int root) {
  Session& session = *libtorch::handle_of(tensors[0]).session;
  std::vector<std::unique_lock<std::recursive_mutex>> locks;
  for (int worker = 0; worker < session.size(); ++worker) locks.emplace_back(session.channel(worker).order());
  // No worker gets its part if another one cannot: it would wait for that one.
  for (const at::Tensor& tensor : tensors) libtorch::handle_of(tensor).channel().require_now(libtorch::handle_of(tensor).generation);
  for (int worker = 0; worker < session.size(); ++worker) {
    const auto i = static_cast<std::size_t>(worker);
    session.channel(worker).send_in_order(
        [&](WireWriter& out) {
          out.code(Command::collective);
          out.code(operation);
          out.code(op);
          out.number(static_cast<std::uint64_t>(root));
          libtorch::write_tensor(out, tensors[i]);
          if (!results.empty()) libtorch::write_tensor(out, results[i]);
        },
        false);
  }
}

void check_root(const char* call, int root, std::size_t size) {
  if (root < 0 || static_cast<std::size_t>(root) >= size) {
    throw InvalidArgument(fmt::format("there is no worker {} of {}", root, size), {.operation = call});
  }
}

/// Makes a tensor of this shape on the device of another.
at::Tensor beside(const at::Tensor& like, at::IntArrayRef sizes) { return at::empty(sizes, like.options().requires_grad(false)); }

/// Returns the shape of a row of tensors whose first extent is the number of workers.
at::IntArrayRef row_of(const char* call, const at::Tensor& tensor, std::size_t size) {
  if (tensor.dim() == 0 || tensor.size(0) != static_cast<std::int64_t>(size)) {
    throw InvalidArgument(fmt::format("a tensor of shape {} has no row for each of {} workers", c10::str(tensor.sizes()), size), {.operation = call});
  }
  return tensor.sizes().slice(1);
}

/// Autograd notices that the tensors were written to.
void note_written(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

at::Device remote_device(int worker) {
  const auto [session, own] = libtorch::place_of(at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(worker)));
  return {at::kPrivateUse1, static_cast<at::DeviceIndex>(own)};
}

bool is_remote(const at::Tensor& tensor) noexcept { return tensor.defined() && libtorch::is_remote(tensor); }

void synchronize(const at::Device& device) {
  const auto [session, worker] = libtorch::place_of(device);
  session->channel(worker).ask([](WireWriter& out) { out.code(Command::synchronize); });
}

void manual_seed(std::uint64_t seed) {
  at::manual_seed(seed);
  const auto session = libtorch::current_session();
  for (int worker = 0; worker < session->size(); ++worker) {
    at::Generator generator = libtorch::default_generator(static_cast<at::DeviceIndex>(worker));
    generator.set_current_seed(seed);
  }
}

RemoteTensors::RemoteTensors(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  const auto session = libtorch::current_session();
  if (tensors_.size() != static_cast<std::size_t>(session->size())) {
    throw InvalidArgument(fmt::format("there are {} tensors for {} workers", tensors_.size(), session->size()));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (is_remote(tensors_[i]) && libtorch::handle_of(tensors_[i]).worker == static_cast<int>(i)) {
      if (libtorch::handle_of(tensors_[i]).session == session) continue;
      throw InvalidArgument(fmt::format("tensor {} belongs to a controller that has ended", i));
    }
    throw InvalidArgument(
        fmt::format("tensor {} is {}, and not on remote:{}", i, tensors_[i].defined() ? "on " + tensors_[i].device().str() : "undefined", i));
  }
}

std::vector<at::Tensor> RemoteTensors::cpu() const {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors_) copies.push_back(tensor.cpu());
  return copies;
}

RemoteTensors RemoteTensors::all_reduce(ReduceOp op) const {
  send_to_all(tensors_, {}, Operation::all_reduce, op, 0);
  note_written(tensors_);
  return *this;
}

RemoteTensors RemoteTensors::reduce(int dst, ReduceOp op) const {
  check_root("reduce", dst, size());
  send_to_all(tensors_, {}, Operation::reduce, op, dst);
  note_written(tensors_);
  return *this;
}

RemoteTensors RemoteTensors::broadcast(int src) const {
  check_root("broadcast", src, size());
  send_to_all(tensors_, {}, Operation::broadcast, ReduceOp::sum, src);
  note_written(tensors_);
  return *this;
}

RemoteTensors RemoteTensors::all_gather() const {
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : tensors_) {
    std::vector<std::int64_t> sizes{static_cast<std::int64_t>(size())};
    sizes.insert(sizes.end(), tensor.sizes().begin(), tensor.sizes().end());
    results.push_back(beside(tensor, sizes));
  }
  send_to_all(tensors_, results, Operation::all_gather, ReduceOp::sum, 0);
  return RemoteTensors(std::move(results));
}

RemoteTensors RemoteTensors::reduce_scatter(ReduceOp op) const {
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : tensors_) results.push_back(beside(tensor, row_of("reduce_scatter", tensor, size())));
  send_to_all(tensors_, results, Operation::reduce_scatter, op, 0);
  return RemoteTensors(std::move(results));
}

RemoteTensors RemoteTensors::all_to_all() const {
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : tensors_) {
    row_of("all_to_all", tensor, size());
    results.push_back(beside(tensor, tensor.sizes()));
  }
  send_to_all(tensors_, results, Operation::all_to_all, ReduceOp::sum, 0);
  return RemoteTensors(std::move(results));
}

namespace detail {

bool know_remote_device() {
  static const bool known = [] {
    observe_workers([](const std::shared_ptr<RemoteWorkers>& workers) {
      libtorch::register_device();
      libtorch::begin_session(workers);
    });
    return true;
  }();
  return known;
}

at::Tensor remote_placement_traits<at::Tensor>::on_worker(const std::shared_ptr<RemoteWorkers>& workers, int worker, const at::Tensor& tensor) {
  return tensor.to(device_of(workers, worker));
}

RemoteTensors remote_placement_traits<at::Tensor>::on_all(const std::shared_ptr<RemoteWorkers>& workers, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors;
  for (int worker = 0; worker < workers->size(); ++worker) tensors.push_back(tensor.to(device_of(workers, worker)));
  return RemoteTensors(std::move(tensors));
}

}  // namespace detail
}  // namespace unisono
