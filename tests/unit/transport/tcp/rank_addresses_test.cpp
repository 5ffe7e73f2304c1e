// The addresses of ranks that connect on demand.
#include "transport/tcp/rank_addresses.h"

#include <gtest/gtest.h>

#include "unisono/error.h"

namespace unisono::transport {
namespace {

TEST(RankAddresses, AnAddressComesBackAsItWasSet) {
  RankAddresses addresses(4);
  addresses.set(0, "10.0.0.2 41234");
  addresses.set(2, "10.0.0.2 65535");
  addresses.set(3, "fe80::1%eth0 1");
  EXPECT_EQ(addresses.of(0), "10.0.0.2 41234");
  EXPECT_EQ(addresses.of(1), "") << "it is not known";
  EXPECT_EQ(addresses.of(2), "10.0.0.2 65535");
  EXPECT_EQ(addresses.of(3), "fe80::1%eth0 1");
}

TEST(RankAddresses, ATextWithoutAPortIsRefusedAndChangesNothing) {
  RankAddresses addresses(1);
  for (const char* text : {"", "10.0.0.2", "10.0.0.2 ", "10.0.0.2 port", "10.0.0.2 65536", "10.0.0.2 -1", "10.0.0.2 1 2", "10.0.0.2 0", " 41234"}) {
    EXPECT_THROW(addresses.set(0, text), ProtocolError) << text;
    EXPECT_EQ(addresses.of(0), "");
  }
}

TEST(RankAddresses, MoreHostsThanRanksAreRefused) {
  RankAddresses addresses(2);
  addresses.set(0, "a 1");
  addresses.set(0, "b 1");
  EXPECT_THROW(addresses.set(0, "c 1"), ProtocolError);
  EXPECT_EQ(addresses.of(0), "b 1");
}

}  // namespace
}  // namespace unisono::transport
