// Which processors share a cache or memory, as hwloc tells it of hosts that are made up, and of this one.

#include "launch/hwloc/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/affinity.h"

namespace unisono::launcher {
namespace {

using Places = std::vector<std::vector<int>>;

std::vector<int> from_to(int first, int last) {
  std::vector<int> all(static_cast<std::size_t>(last - first + 1));
  std::iota(all.begin(), all.end(), first);
  return all;
}

Places parts_of(const std::string& host, PartKind kind) {
  hwloc_topology_t made = nullptr;
  EXPECT_EQ(hwloc_topology_init(&made), 0);
  const Topology topology(made, &hwloc_topology_destroy);
  EXPECT_EQ(hwloc_topology_set_synthetic(made, host.c_str()), 0) << host;
  EXPECT_EQ(hwloc_topology_load(made), 0) << host;
  return parts_in(made, kind);
}

TEST(HwlocParts, CachesAndNodesHaveTheirProcessors) {
  const std::string host = "numa:2 l3:2 core:2 pu:2";
  EXPECT_EQ(parts_of(host, PartKind::numa_node), (Places{from_to(0, 7), from_to(8, 15)}));
  EXPECT_EQ(parts_of(host, PartKind::l3_cache), (Places{from_to(0, 3), from_to(4, 7), from_to(8, 11), from_to(12, 15)}));
}

TEST(HwlocParts, ProcessorsHaveTheSystemsNumbers) {
  // Siblings are numbered behind all cores, as on most machines.
  EXPECT_EQ(parts_of("numa:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)", PartKind::numa_node), (Places{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(HwlocParts, AHostWithoutSuchACacheHasNoParts) { EXPECT_EQ(parts_of("numa:2 core:2 pu:1", PartKind::l3_cache), Places()); }

TEST(HwlocParts, MemoryOfTheWholeHostIsNoPartBesideThatOfEachPackage) {
  EXPECT_EQ(parts_of("[numa] pack:2 [numa] core:2 pu:1", PartKind::numa_node), (Places{{0, 1}, {2, 3}}));
}

TEST(HwlocParts, TwoKindsOfMemoryOfTheSameProcessorsAreOnePart) {
  EXPECT_EQ(parts_of("pack:2 [numa] [numa] core:2 pu:1", PartKind::numa_node), (Places{{0, 1}, {2, 3}}));
}

TEST(HwlocParts, EachProcessorOfThisHostIsInOneNode) {
  const Topology host = read_host();
  ASSERT_NE(host, nullptr);
  std::vector<int> all;
  for (const auto& part : parts_in(host.get(), PartKind::numa_node)) all.insert(all.end(), part.begin(), part.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_TRUE(std::ranges::includes(all, base::affinity_of(0)));
}

}  // namespace
}  // namespace unisono::launcher
