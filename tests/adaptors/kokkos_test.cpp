// Kokkos::View as a buffer, on a double of it.
#include <string>
#include <vector>

#include "adaptors/kokkos_double.h"
#include "conformance/world.h"
#include "unisono/kokkos.h"

using namespace unisono;
using namespace conformance;
using kokkos_double::View;

namespace {

static_assert(Buffer<View<float*>&> && Buffer<View<float**>> && Buffer<const View<float**>&>, "it is a handle");
static_assert(InBuffer<View<const float*>&> && !Buffer<View<const float*>&>, "constant elements are read alone");

WORLD_TEST(Kokkos, ViewsOfTheHostAreBuffers) {
  const int n = world_size();
  auto right = values<double>(6, rank()), left = right;
  all_reduce(View<double**>(right.data(), {2, 3}));
  View<double**, kokkos_double::LayoutLeft> columns(left.data(), {2, 3});
  EXPECT_EQ(detail::view_of(columns).shape()[0], 3);
  all_reduce(columns, [](double a, double b) { return a + b; });
  EXPECT_EQ(right, sums<double>(6, n));
  EXPECT_EQ(left, sums<double>(6, n));
  const auto own = values<int>(3, rank());
  std::vector<int> all(3 * static_cast<std::size_t>(n));
  all_gather(View<const int*>(own.data(), {3}), View<int*>(all.data(), {all.size()}));
  for (int r = 0; r < n; ++r) EXPECT_EQ(all[3 * static_cast<std::size_t>(r) + 2], value<int>(r, 2));
}

WORLD_TEST(Kokkos, PaddedViewsAreRefusedAndNothingIsCopied) {
  auto memory = values<float>(8, rank());
  View<float**> padded(memory.data(), {2, 3}, 1);
  const auto error = thrown_by<InvalidArgument>([&] { all_reduce(padded); });
  EXPECT_NE(error.message().find("a Kokkos::View of {2, 3} elements with strides of {4, 1} is not contiguous"), std::string::npos) << error.what();
  EXPECT_EQ(memory, values<float>(8, rank()));
}

// Nothing of this process works on devices: the address is never touched.
TEST(Kokkos, MemoryOfDevicesIsKnownByItsSpace) {
  if (device_runtime() != nullptr) GTEST_SKIP() << "a runtime of devices is registered in this process, which would be asked about the address";
  float x[4] = {1, 2, 3, 4};
  View<float*, kokkos_double::LayoutRight, kokkos_double::CudaSpace> on_cuda(x, {4});
  EXPECT_EQ(detail::view_of(on_cuda).device().type, Device::Type::cuda);
  View<float*, kokkos_double::LayoutRight, kokkos_double::HIPSpace> on_hip(x, {4});
  const auto error = thrown_by<Unsupported>([&] { static_cast<void>(detail::view_of(on_hip)); });
  EXPECT_NE(std::string(error.what()).find("memory space HIP"), std::string::npos) << error.what();
}

}  // namespace
