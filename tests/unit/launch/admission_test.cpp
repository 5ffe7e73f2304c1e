// How host 0 takes the launchers of other hosts in: launch/hosts/admission.h.
#include "launch/hosts/admission.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/thread.h"
#include "store/client.h"
#include "unit/store/served_store.h"

namespace unisono::launcher {
namespace {

using namespace std::chrono_literals;

// A wait for what is there already would be none, and keep a processor busy.
TEST(Admission, AdmissionWaitsForAnotherLauncherWhereOneHasLeft) {
  const auto store = store::serve(base::try_listen(base::resolve("127.0.0.1", 0).front()).fd, "the launchers' store", {});
  const HostOffer offer{.ranks = 2, .least = 0, .where = "a:1"};
  ASSERT_EQ(take_ticket(*store), 1);
  store->set("launchers/offer/1", encode_offer(offer));
  store->set(goodbye_key(1), "it was interrupted");
  HostRoster hosts;
  Admission admission({.store = store, .least_hosts = 2, .most_hosts = 2, .own = offer}, hosts);
  base::Thread gathering("the launchers that come", [&] { admission.gather(base::Deadline(60s), 0ms); });
  store::wait_until([&] { return store->own_server()->counts().waiting > 0; });
  EXPECT_EQ(take_ticket(*store), 2);
  store->set("launchers/offer/2", encode_offer(offer));
  gathering.join();
  EXPECT_EQ(hosts.present(), 2);
  EXPECT_TRUE(hosts.find(2));
}

}  // namespace
}  // namespace unisono::launcher
