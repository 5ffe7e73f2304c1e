// Vectors of Thrust as buffers, on its device system for the host.
#if __has_include(<thrust/device_vector.h>)

#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <vector>

#include "conformance/world.h"
#include "unisono/thrust.h"

using namespace unisono;
using namespace conformance;

namespace {

static_assert(Buffer<thrust::host_vector<float>&> && Buffer<thrust::device_vector<double>&>);
static_assert(InBuffer<const thrust::device_vector<float>&> && !Buffer<const thrust::device_vector<float>&> && !Buffer<thrust::device_vector<float>>);

WORLD_TEST(Thrust, VectorsAreBuffers) {
  const int n = world_size();
  const auto own = values<float>(5, rank());
  thrust::device_vector<float> on_device(own.begin(), own.end());
  all_reduce(on_device);
  thrust::host_vector<float> on_host = on_device;
  EXPECT_EQ(std::vector<float>(on_host.begin(), on_host.end()), sums<float>(5, n));

  on_host.assign(own.begin(), own.end());
  all_reduce(on_host, [](float a, float b) { return a + b; });
  EXPECT_EQ(std::vector<float>(on_host.begin(), on_host.end()), sums<float>(5, n));

  thrust::device_vector<thrust::complex<double>> z(2, thrust::complex<double>(1, rank()));
  EXPECT_EQ(detail::view_of(z).dtype(), DType::complex128);
  all_reduce(z);
  // Reading an element of a device vector binds a reference to a null pointer within Thrust 1.17, so whole vectors are copied.
  const thrust::host_vector<thrust::complex<double>> sum = z;
  EXPECT_EQ(sum[1], thrust::complex<double>(n, n * (n - 1) / 2));

  const thrust::device_vector<int> mine(1, rank());
  thrust::device_vector<int> all(static_cast<std::size_t>(n));
  all_gather(mine, all);
  const thrust::host_vector<int> gathered = all;
  for (int r = 0; r < n; ++r) EXPECT_EQ(gathered[static_cast<std::size_t>(r)], r);
}

}  // namespace

#else

#include <gtest/gtest.h>

TEST(Thrust, VectorsAreBuffers) { GTEST_SKIP() << "Thrust was not found when this was built (package libthrust-dev)"; }

#endif
