// A store on another host, whose network is cut without a word while nobody, or somebody, waits for an answer (N1).

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "hosts.h"
#include "store/client.h"
#include "unisono/detail/switches.h"
#include "unisono/error.h"
#include "unisono/interruption.h"
#include "unisono/store.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t port = 29500;
constexpr auto deadline_of_calls = 25s;  // much longer than the silence that is allowed, and much shorter than the five minutes that a call has

/// The cut, which the client's wait makes as soon as its request has left.
const Hosts* cut_hosts = nullptr;
void cut_once() {
  const Hosts* const hosts = std::exchange(cut_hosts, nullptr);
  if (hosts == nullptr) return;
  for (const int host : {0, 1}) hosts->run(host, {"tc", "qdisc", "add", "dev", "net0", "root", "blackhole"});
}

class StoreOfAnotherHost : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { detail::set_silence_limit(3s); }
  void TearDown() override {
    set_interruption_check(nullptr);
    detail::set_silence_limit(usual_);
  }

 private:
  const std::chrono::milliseconds usual_ = detail::silence_limit();
};

TEST_P(StoreOfAnotherHost, N1AStoreThatIsCutOffIsNamed) {
  MAKE_HOSTS(hosts, 2);
  std::optional<TcpStore> server;
  hosts.in_network_of(0, [&] { server.emplace(hosts.address(0), port, TcpStoreOptions{.is_server = true, .token = "the secret of this test"}); });
  ASSERT_TRUE(server);
  std::string said;
  hosts.in_network_of(1, [&] {
    TcpStore client(hosts.address(0), port, {.timeout = deadline_of_calls, .token = "the secret of this test"});
    client.set("key", "value");
    cut_hosts = &hosts;
    if (GetParam() == "while_a_key_is_waited_for") set_interruption_check(cut_once);
    else cut_once();
    try {
      client.get("another");
    } catch (const PeerFailed& failed) {
      said = failed.what();
      EXPECT_EQ(failed.cause(), PeerFailed::Cause::disconnected);
    }
    EXPECT_EQ(cut_hosts, nullptr);
  });
  EXPECT_NE(said.find("the store at " + hosts.address(0) + ":29500 is gone: its host does not answer any more"), std::string::npos) << said;
}

// The other way round: nobody asks anything, and the store notices by itself that a client's host is gone.
TEST(StoreOfThisHost, AStoreCarriesOutTheWillOfAClientThatIsCutOff) {
  MAKE_HOSTS(hosts, 2);
  const std::string token = "the secret of this test";
  const std::vector<base::SocketAddress> addresses = base::resolve(hosts.address(0), port);
  std::shared_ptr<store::Client> server, client;
  hosts.in_network_of(0, [&] { server = store::serve(store::listen_on(addresses), "the store", {.token = token, .silence = 3s}); });
  hosts.in_network_of(1, [&] { client = store::connect_tcp(addresses, "the store", {.token = token}, base::Deadline(deadline_of_calls)); });
  ASSERT_TRUE(server && client);
  client->leave_will({{"last words", "it is gone"}});
  hosts.run(1, {"tc", "qdisc", "add", "dev", "net0", "root", "blackhole"});  // on host 0 its system would know that its probes do not leave
  EXPECT_EQ(server->get("last words", deadline_of_calls), "it is gone");
}

INSTANTIATE_TEST_SUITE_P(Cuts, StoreOfAnotherHost, ::testing::Values("while_a_key_is_waited_for", "before_a_request"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace unisono::testing
