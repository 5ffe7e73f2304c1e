// What Python calls for tensors on the workers of a controller: operators torch.ops.unisono.remote_…, and a function for ctypes.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <cstring>
#include <string>
#include <vector>

#include "torch/remote/device.h"
#include "torch/remote/generator.h"
#include "torch/remote/passing.h"
#include "torch/remote/place.h"
#include "torch/remote/session.h"
#include "unisono/error.h"
#include "unisono/reduce_op.h"
#include "unisono/torch/remote.h"

namespace {

using unisono::libtorch::current_worker;

at::DeviceIndex index_of(std::int64_t worker) { return static_cast<at::DeviceIndex>(worker); }

/// Makes the device known, if there is a controller; later ones make it known themselves.
void begin() { unisono::detail::know_remote_device(); }

std::int64_t device_count() {
  const auto session = unisono::libtorch::find_session();
  return session && session->workers() ? session->size() : 0;
}

std::int64_t current_device() { return current_worker(); }
void set_device(std::int64_t worker) { unisono::libtorch::set_current_worker(unisono::remote_device(static_cast<int>(worker)).index()); }
void synchronize(std::int64_t worker) { unisono::synchronize(unisono::remote_device(static_cast<int>(worker))); }

void seed(std::int64_t worker, std::int64_t value) {
  at::Generator generator = unisono::libtorch::default_generator(index_of(worker));
  generator.set_current_seed(static_cast<std::uint64_t>(value));
}
at::Tensor get_state(std::int64_t worker) { return unisono::libtorch::default_generator(index_of(worker)).get_state(); }
void set_state(std::int64_t worker, const at::Tensor& state) {
  at::Generator generator = unisono::libtorch::default_generator(index_of(worker));
  generator.set_state(state);
}

/// Where a tensor is, as bytes that travel with a call.
at::Tensor place_of(const at::Tensor& tensor) {
  const auto bytes = unisono::libtorch::described_for_worker(tensor);
  at::Tensor place = at::empty({static_cast<std::int64_t>(bytes.size())}, at::TensorOptions(at::kByte).device(at::kCPU));
  std::memcpy(place.mutable_data_ptr(), bytes.data(), bytes.size());
  return place;
}
at::Tensor tensor_at_place(const at::Tensor& place) {
  return unisono::libtorch::tensor_of_worker({static_cast<const std::byte*>(place.const_data_ptr()), place.nbytes()});
}

std::vector<at::Tensor> collective(const std::string& name, std::vector<at::Tensor> given, const std::string& reduction, std::int64_t root) {
  const unisono::RemoteTensors tensors(std::move(given));
  const auto op = unisono::parse_reduce_op(reduction);
  const auto all = [](const unisono::RemoteTensors& results) { return std::vector<at::Tensor>(results.begin(), results.end()); };
  if (name == "all_reduce") return all(tensors.all_reduce(op));
  if (name == "reduce") return all(tensors.reduce(static_cast<int>(root), op));
  if (name == "broadcast") return all(tensors.broadcast(static_cast<int>(root)));
  if (name == "all_gather") return all(tensors.all_gather());
  if (name == "reduce_scatter") return all(tensors.reduce_scatter(op));
  if (name == "all_to_all") return all(tensors.all_to_all());
  throw unisono::InvalidArgument(fmt::format("there is no collective \"{}\" of remote tensors", name));
}

TORCH_LIBRARY_FRAGMENT(unisono, operators) {
  operators.def("remote_begin", begin);
  operators.def("remote_device_count", device_count);
  operators.def("remote_current_device", current_device);
  operators.def("remote_set_device", set_device);
  operators.def("remote_synchronize", synchronize);
  operators.def("remote_seed", seed);
  operators.def("remote_get_state", get_state);
  operators.def("remote_set_state", set_state);
  operators.def("remote_place_of", place_of);
  operators.def("remote_tensor_at_place", tensor_at_place);
  operators.def("remote_collective", collective);
}

}  // namespace

/// Has this function called before the first command for each worker, with the worker's number.
extern "C" UNISONO_API void unisono_torch_prepare_workers(void (*prepare)(int)) { unisono::libtorch::prepare_workers(prepare); }
