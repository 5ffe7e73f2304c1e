#include "torch/remote/passing.h"

#include <fmt/format.h>

#include "torch/remote/session.h"
#include "torch/remote/worker.h"
#include "unisono/detail/remote_call.h"
#include "unisono/error.h"

// Remote tensors in calls and objects.

namespace unisono::libtorch {

std::vector<std::byte> described_for_worker(const at::Tensor& tensor) {
  const Handle& handle = handle_of(tensor);
  if (handle.session->generation(handle.worker) != handle.generation) {
    throw InvalidArgument(fmt::format("the elements of a tensor on remote:{} are gone, with its controller or its worker", handle.worker));
  }
  WireWriter out;
  out.number(static_cast<std::uint64_t>(handle.worker));
  out.byte(flags_of(tensor));
  write_tensor(out, tensor);
  return out.take();
}

at::Tensor tensor_of_worker(std::span<const std::byte> description) {
  WireReader in(description);
  const auto worker = static_cast<int>(in.number());
  if (const int own = detail::worker_number(); own != worker) {
    throw InvalidArgument(
        fmt::format("a tensor on remote:{} was sent to {}", worker, own < 0 ? "a process that is not a worker" : fmt::format("worker {}", own)),
        {.hint = fmt::format("its elements are in the process of worker {}: to() moves them, cpu() copies them", worker)});
  }
  const std::uint8_t flags = in.byte();
  return read_tensor(in, flags);
}

}  // namespace unisono::libtorch
