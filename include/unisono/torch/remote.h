#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "unisono/controller.h"
#include "unisono/export.h"
#include "unisono/reduce_op.h"

// Tensors on the workers of a controller: PyTorch's device "remote:2" is worker 2.
//
// ```cpp
// unisono::Controller workers;
// at::Tensor x = workers[2].tensor(at::ones({3}));                  // or torch::ones({3}, torch::Device("remote:2"))
// at::Tensor y = (x * 2).relu();                                    // computed there; returns before it is done
// std::cout << y.cpu();                                             // fetched
// ```
//
// Every operator of PyTorch works, and so do modules, autograd, optimizers and torch::save: an operator is sent to the worker by its name, with its
// arguments, and what it makes stays there. Shapes and dtypes are known at once. Only what depends on elements waits for the worker: cpu(), item(),
// nonzero, masks as indices. All tensors of an operator are on one worker, but for numbers on the cpu; to() moves them, from worker to worker as
// well.
//
// An operator that fails on the worker is thrown as RemoteError by the next call that waits for that worker: it names the operator and the shapes.
// What it should have made stays an error; what it should have changed stays as it was. PeerFailed: the worker is lost. A tensor whose controller has
// ended is NotInitialized, and one whose worker was replaced InvalidArgument.
//
// torch::manual_seed(7) seeds every worker with 7 (PyTorch 2.6 and newer; manual_seed of this header with any): each then draws what a single process
// with this seed would draw. A worker's default generator is that of its own functions, too.
//
// As an argument of a call, or in an object that is sent, a remote tensor arrives on its worker as the tensor that it is there, which shares its
// memory; any other process refuses it.

namespace unisono {

/// Returns the device of a worker: "remote:2".
UNISONO_API at::Device remote_device(int worker);
/// Tells whether a tensor is on a worker.
UNISONO_API bool is_remote(const at::Tensor& tensor) noexcept;
/// Waits until a worker has run all operators that were sent to it.
///
/// @throws RemoteError if one of them has failed
/// @throws PeerFailed if the worker is lost
UNISONO_API void synchronize(const at::Device& device);
/// Seeds the default generator of this process, and of every worker.
UNISONO_API void manual_seed(std::uint64_t seed);

/// A tensor on each worker, in their order, as one: what ranks hold in a program of many. Collectives run among the workers, on the tensors there,
/// and return before they are done.
class UNISONO_API RemoteTensors {
 public:
  /// Takes tensors on workers 0 to n - 1.
  ///
  /// @throws InvalidArgument if that is not where they are, or if there are not as many as workers
  explicit RemoteTensors(std::vector<at::Tensor> tensors);

  std::size_t size() const noexcept { return tensors_.size(); }
  const at::Tensor& operator[](std::size_t worker) const { return tensors_.at(worker); }
  auto begin() const noexcept { return tensors_.begin(); }
  auto end() const noexcept { return tensors_.end(); }
  /// Returns copies on the cpu.
  std::vector<at::Tensor> cpu() const;

  /// Replaces each tensor by the combination of all, or that of worker `dst` alone. Returns the same tensors.
  RemoteTensors all_reduce(ReduceOp op = ReduceOp::sum) const;
  RemoteTensors reduce(int dst, ReduceOp op = ReduceOp::sum) const;
  /// Replaces each tensor by that of worker `src`. Returns the same tensors.
  RemoteTensors broadcast(int src = 0) const;
  /// Returns, on each worker, all tensors stacked: shape (n, …).
  RemoteTensors all_gather() const;
  /// Combines tensors of shape (n, …), and returns row i of that on worker i.
  RemoteTensors reduce_scatter(ReduceOp op = ReduceOp::sum) const;
  /// Returns, on worker i, the rows i of all workers' tensors of shape (n, …).
  RemoteTensors all_to_all() const;

 private:
  std::vector<at::Tensor> tensors_;
};

namespace detail {

/// Has unisono::Controller make PyTorch's device "remote". Including this header calls it.
UNISONO_API bool know_remote_device();
inline const bool remote_device_is_known = know_remote_device();

/// Makes Worker::tensor and Controller::tensor of at::Tensor.
template <>
struct remote_placement_traits<at::Tensor> {
  UNISONO_API static at::Tensor on_worker(const std::shared_ptr<RemoteWorkers>& workers, int worker, const at::Tensor& tensor);
  UNISONO_API static RemoteTensors on_all(const std::shared_ptr<RemoteWorkers>& workers, const at::Tensor& tensor);
};

}  // namespace detail
}  // namespace unisono
