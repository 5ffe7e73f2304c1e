#include "harness/device.h"

#include <sched.h>

#include <fmt/format.h>

#include "base/deadline.h"
#include "unisono/cuda.h"
#include "unisono/error.h"

namespace unisono::bench {

BenchDevice::BenchDevice(std::shared_ptr<const engines::nccl::Vendor> vendor, int rank, std::chrono::milliseconds timeout)
    : place_{.type = Device::Type::cuda, .index = rank % vendor->devices}, timeout_(timeout), runtime_(vendor, place_.index) {
  engines::nccl::check(*vendor, vendor->cuda.set_device(place_.index), "cudaSetDevice");
  stream_ = runtime_.stream(place_);
  set_current_stream(stream_->handle());
}

BenchDevice::~BenchDevice() { set_current_stream(nullptr); }

void BenchDevice::synchronise() {
  // As in NCCL's own tests: the host looks again and again, and gives its core to threads of NCCL that want it.
  const base::Deadline deadline(timeout_);
  while (!runtime_.is_idle(place_, stream_->handle())) {
    if (deadline.passed()) throw Timeout(fmt::format("{} has not done its work for {} s", to_string(place_), timeout_.count() / 1000));
    ::sched_yield();
  }
}

}  // namespace unisono::bench
