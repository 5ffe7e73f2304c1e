// A blocking all_reduce of 8 bytes in the memory of devices, on the stand-in for NCCL, which scripts/check/count-hops follows in a debugger.

#include "nccl/fake_ranks.h"
#include "nccl/fake_vendor.h"

int main() {
  fake::reset(2);  // two devices
  fake::on_ranks({.count = 2}, [](const unisono::ProcessGroup& group) {
    const fake::DeviceArray<float> x(group.rank(), {1, 2});
    for (int again = 0; again < 3; ++again) unisono::all_reduce(x.view(), unisono::ReduceOp::sum, group);
    fake::synchronize();
  });
  return 0;
}
