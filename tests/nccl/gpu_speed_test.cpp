// What a call on device memory costs the host beside NCCL's own function, on a real device and with one rank, and what each part of that is.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "engines/nccl/loader.h"
#include "gpu_arrays.h"
#include "unisono/device_runtime.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace unisono::gpu;
namespace nccl = unisono::engines::nccl;

namespace {

constexpr int calls_of_a_row = 300, rows = 50;

/// The microseconds of one of a row of calls: the least of several rows, of which each begins when the device has nothing to do. Other work of the
/// machine only adds to it.
double microseconds(const std::function<void()>& call) {
  std::vector<double> all;
  for (int row = 0; row < rows; ++row) {
    synchronize_stream();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < calls_of_a_row; ++i) call();
    all.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count() / calls_of_a_row);
  }
  synchronize_stream();
  return *std::ranges::min_element(all);
}

/// A communicator of this process alone, as a program has it that calls NCCL directly.
class OwnCommunicator {
 public:
  explicit OwnCommunicator(const nccl::Vendor& vendor) : vendor_(vendor) {
    nccl::UniqueId id{};
    require(static_cast<int>(vendor.nccl.get_unique_id(&id)));
    nccl::Config config;
    config.blocking = 1;
    require(static_cast<int>(vendor.nccl.comm_init_rank_config(&comm_, 1, id, 0, &config)));
  }
  ~OwnCommunicator() { vendor_.nccl.comm_destroy(comm_); }
  OwnCommunicator(const OwnCommunicator&) = delete;
  OwnCommunicator& operator=(const OwnCommunicator&) = delete;
  nccl::Comm comm() const { return comm_; }

 private:
  const nccl::Vendor& vendor_;
  nccl::Comm comm_ = nullptr;
};

void print(const char* what, double time) { std::printf("[ figure   ] %-52s %7.2f us\n", what, time); }

TEST(GpuSpeed, TheCostOfACallIsPrintedBesideNccls) {
  if (world_size() > 1) GTEST_SKIP() << "is measured with one rank";
  constexpr std::size_t least_memory = std::size_t{1} << 30;
  if (device_runtime()->memory(device()).total < least_memory) GTEST_SKIP() << "a real device is missing: this is the stand-in";
  const auto vendor = nccl::vendor();
  const auto& cuda = vendor->cuda;
  nccl::Stream stream = nullptr;
  require(static_cast<int>(cuda.stream_create(&stream, nccl::stream_non_blocking)));
  {
    const OwnCommunicator own(*vendor);
    const Array<float> x(2);
    const CurrentStream current(stream);
    const auto directly = [&] { vendor->nccl.all_reduce(x.data(), x.data(), 2, nccl::DataType::float32, nccl::RedOp::sum, own.comm(), stream); };
    const auto ours = [&] { all_reduce(x.view()); };
    microseconds(directly);
    microseconds(ours);
    const double of_nccl = microseconds(directly), of_unisono = microseconds(ours);
    print("ncclAllReduce, 8 bytes, one rank", of_nccl);
    print("unisono::all_reduce, the same", of_unisono);
    print("beside NCCL (at most 2 wanted)", of_unisono - of_nccl);
    nccl::Event event = nullptr;
    require(static_cast<int>(cuda.event_create(&event, nccl::event_disable_timing)));
    print("of that: cudaEventRecord", microseconds([&] { cuda.event_record(event, stream); }));
    print("of that: cudaEventQuery", microseconds([&] { cuda.event_query(event); }));
    int current_device = 0;
    print("of that: cudaGetDevice", microseconds([&] { cuda.get_device(&current_device); }));
    nccl::Result state{};
    print("of that: ncclCommGetAsyncError", microseconds([&] { vendor->nccl.comm_get_async_error(own.comm(), &state); }));
    print("of that: an empty group of NCCL", microseconds([&] {
            vendor->nccl.group_start();
            vendor->nccl.group_end();
          }));
    print("spared: cudaStreamWaitEvent", microseconds([&] { cuda.stream_wait_event(stream, event, 0); }));
    print("spared: an event made and destroyed", microseconds([&] {
            nccl::Event other = nullptr;
            cuda.event_create(&other, nccl::event_disable_timing);
            cuda.event_destroy(other);
          }));
    const int host = 1;
    nccl::PointerAttributes attributes{};
    print("beside: cudaPointerGetAttributes, memory of the host", microseconds([&] { cuda.pointer_get_attributes(&attributes, &host); }));
    print("beside: the same, memory of the device", microseconds([&] { cuda.pointer_get_attributes(&attributes, x.data()); }));
    print("beside: all_reduce of a number on the host", microseconds([&] { static_cast<void>(all_reduce(host)); }));
    cuda.event_destroy(event);
  }
  cuda.stream_destroy(stream);
}

}  // namespace
