// Names and interfaces between hosts: which address is used, and what is said where there is none.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "job.h"

namespace unisono::testing {
namespace {

std::unique_ptr<RunningCommand> rank_on(const Hosts& hosts, int host, int ranks, const std::string& master, const Variables& more = {}) {
  return hosts.start(host, {HOST_RANK, "meet"}, with(rank_variables(host, ranks, master), more));
}

void set_names(const Hosts& hosts, int host, const std::string& text) { hosts.run(host, {"sh", "-c", "printf '%b' \"$1\" > /etc/hosts", "-", text}); }

TEST(Names, NamesThatMeanLoopbackAreRefusedWithWhatToDo) {  // N11: as Debian writes /etc/hosts
  MAKE_HOSTS(hosts, 2);
  set_names(hosts, 0, "127.0.0.1 localhost\\n127.0.1.1 host0\\n10.77.0.2 host1\\n");
  const auto launcher = hosts.start(0, node_words({.node = 0, .master = "host0"}, {"true"}), secret);
  EXPECT_NE(launcher->wait(), 0);
  for (const char* part : {"are to meet at host0, here 127.0.1.1, which is a loopback address", "net0 (10.77.0.1)", "/etc/hosts"}) {
    EXPECT_NE(unwrapped(launcher->err()).find(part), std::string::npos) << launcher->err();
  }
  const auto rank = rank_on(hosts, 0, 2, "host0", {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_EQ(rank->wait(), 1);
  EXPECT_NE(rank->out().find("which is a loopback address"), std::string::npos) << rank->out();
}

TEST(Names, NamesWithSeveralAddressesAreTriedInTurn) {  // N11, F13: an address of the other family that leads nowhere
  MAKE_HOSTS(hosts, 2);
  for (int host = 0; host < 2; ++host) set_names(hosts, host, "2001:db8::7 host0\\n198.51.100.9 host0\\n10.77.0.1 host0\\n");
  const auto one = rank_on(hosts, 1, 2, "host0");
  const auto zero = rank_on(hosts, 0, 2, "host0");
  EXPECT_EQ(zero->wait(), 0) << zero->out();
  EXPECT_EQ(one->wait(), 0) << one->out();
  EXPECT_EQ(one->out(), "rank 1 of 2 at 10.77.0.2, with host0 host1\n");
}

TEST(Names, NamesAreNotNeededAtAll) {  // N11: numbers only, and a resolver that nobody answers for
  MAKE_HOSTS(hosts, 2);
  for (int host = 0; host < 2; ++host) set_names(hosts, host, "");
  const auto one = rank_on(hosts, 1, 2, "10.77.0.1");
  const auto zero = rank_on(hosts, 0, 2, "10.77.0.1");
  EXPECT_EQ(zero->wait(), 0) << zero->out();
  EXPECT_EQ(one->wait(), 0) << one->out();
  const auto lost = rank_on(hosts, 1, 2, "no-such-host.invalid", {{"UNISONO_TIMEOUT", "2"}});
  EXPECT_EQ(lost->wait(), 1);
  EXPECT_NE(lost->out().find("no address is known for the host \"no-such-host.invalid\""), std::string::npos) << lost->out();
}

TEST(Names, NamesWithoutAnAddressAreWarnedOfAfterThreeSeconds) {
  MAKE_HOSTS(hosts, 1);
  const auto launcher = hosts.start(0, node_words({.node = 0, .ranks = 1, .master = "no-such-host.invalid"}, {HOST_RANK, "meet"}), secret);
  EXPECT_TRUE(launcher->until_err_has("warning")) << launcher->err();
  EXPECT_NE(unwrapped(launcher->err()).find("no address is known for the host \"no-such-host.invalid\" yet; it is asked for again, for at most"),
            std::string::npos)
      << launcher->err();
}

/// Returns the link-local address of a host's interface once it may be used; empty: there is none.
std::string link_local_address(const Hosts& hosts, int host) {
  std::string address;
  eventually([&] {
    const std::string text = hosts.run(host, {"ip", "-6", "-o", "addr", "show", "dev", "net0", "scope", "link"});
    const auto begin = text.find("fe80");
    if (begin == std::string::npos || text.find("tentative") != std::string::npos) return false;
    address = text.substr(begin, text.find('/', begin) - begin);
    return true;
  });
  return address;
}

TEST(Addresses, Ipv6AddressesAreUnderstoodInBracketsAndWithAnInterface) {
  MAKE_HOSTS(hosts, 2);
  for (int host = 0; host < 2; ++host) hosts.run(host, {"ip", "-6", "addr", "add", fmt::format("fd99::{}/64", host + 1), "dev", "net0", "nodad"});
  const std::string local = link_local_address(hosts, 0);
  ASSERT_NE(local, "");
  ASSERT_NE(link_local_address(hosts, 1), "");
  for (const std::string& master : {std::string("[fd99::1]"), "[" + local + "%net0]", local + "%net0"}) {
    const auto one = rank_on(hosts, 1, 2, master);
    const auto zero = rank_on(hosts, 0, 2, master);
    EXPECT_EQ(zero->wait(), 0) << master << zero->out();
    EXPECT_EQ(one->wait(), 0) << master << one->out();
    EXPECT_EQ(count(one->out(), master.find("fd99") != std::string::npos ? "rank 1 of 2 at fd99::2," : "rank 1 of 2 at fe80::"), 1) << one->out();
    const auto second = hosts.start(1, node_words({.node = 1, .master = master}, {HOST_RANK, "sum"}), secret);
    const auto first = hosts.start(0, node_words({.node = 0, .master = master}, {HOST_RANK, "sum"}), secret);
    EXPECT_EQ(first->wait(), 0) << master << first->err();
    EXPECT_EQ(second->wait(), 0) << master << second->err();
    std::vector<std::unique_ptr<RunningCommand>> connected;  // by the addresses that the ranks have told each other
    for (int host = 0; host < 2; ++host) connected.push_back(hosts.start(host, {HOST_RANK, "sum"}, rank_variables(host, 2, master)));
    for (const auto& rank : connected) EXPECT_EQ(rank->wait(), 0) << master << rank->out();
  }
  for (int host = 0; host < 2; ++host) {
    const auto rank = rank_on(hosts, host, 2, local);
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_NE(rank->out().find(local + " is a link-local address, which leads nowhere without an interface"), std::string::npos) << rank->out();
    EXPECT_NE(rank->out().find(local + "%eth0"), std::string::npos) << rank->out();
  }
}

TEST(Names, NamesMayBeKnownAMomentLaterOnly) {  // as on Kubernetes, where a name is known when its host has started
  const std::string names = "10.77.0.1 later\\n10.77.0.2 host1\\n";
  for (const std::string way : {"a rank", "a launcher", "tcp://"}) {
    MAKE_HOSTS(hosts, 2);
    const auto start = [&](int host) {
      const Variables log{{"UNISONO_LOG", "info"}};
      if (way == "a rank") return rank_on(hosts, host, 2, "later", log);
      if (way == "tcp://")
        return hosts.start(host, {HOST_RANK, "meet", fmt::format("tcp://later:29500?rank={}&world_size=2", host)}, with(secret, log));
      return hosts.start(host, node_words({.node = host, .ranks = 1, .master = "later"}, {HOST_RANK, "meet"}), with(secret, log));
    };
    const auto one = start(1);
    EXPECT_TRUE(one->until_err_has("no address is known for the host \"later\"")) << one->out() << one->err();
    for (int host = 0; host < 2; ++host) set_names(hosts, host, names);
    const auto zero = start(0);
    EXPECT_EQ(zero->wait(), 0) << zero->out() << zero->err();
    EXPECT_EQ(one->wait(), 0) << one->out() << one->err();
    EXPECT_EQ(count(one->out(), "rank 1 of 2 at 10.77.0.2, with host0 host1\n"), 1) << way << one->out();
  }
}

/// Answers no question on UDP port 53, and counts those for one name. Both families are one lookup.
class CountingResolver {
 public:
  explicit CountingResolver(const std::string& first_label)
      : label_(std::string(1, static_cast<char>(first_label.size())) + first_label), socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const auto address = base::resolve("127.0.0.1", 53).front();
    bound_ = socket_ && ::bind(socket_.get(), address.data(), address.size()) == 0;
    thread_ = std::jthread([this](const std::stop_token& stop) {
      std::array<char, 1500> question;
      while (!stop.stop_requested()) {
        pollfd entry{socket_.get(), POLLIN, 0};
        if (::poll(&entry, 1, 20) <= 0) continue;
        sockaddr_storage source{};
        socklen_t size = sizeof source;
        const ssize_t n = ::recvfrom(socket_.get(), question.data(), question.size(), 0, reinterpret_cast<sockaddr*>(&source), &size);
        if (n < 12) continue;
        const std::string text(question.data(), static_cast<std::size_t>(n));
        if (text.find("\1\0\1", 12, 3) != std::string::npos && text.find(label_) != std::string::npos) ++questions_;
        const std::size_t end = text.find('\0', 12) + 5;
        std::string answer = text.substr(0, end);
        const bool v4 = text[end - 3] == 1;
        answer[2] = static_cast<char>(0x81), answer[3] = static_cast<char>(0x80);
        answer[7] = v4 ? 1 : 0, answer[9] = 0, answer[11] = 0;
        if (v4) answer += std::string("\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\x4d\0\1", 16);
        ::sendto(socket_.get(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&source), size);
      }
    });
  }
  bool bound() const { return bound_; }
  int questions() const { return questions_; }

 private:
  std::string label_;
  base::FileDescriptor socket_;
  bool bound_ = false;
  std::atomic<int> questions_{0};
  std::jthread thread_;
};

TEST(Names, NamesAreLookedUpOnce) {  // N11, F13
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  write_secret(folder.path() + "/resolv.conf", "nameserver 127.0.0.1\noptions attempts:1 timeout:20 ndots:1\n", 0644);
  write_secret(folder.path() + "/nsswitch.conf", "hosts: files dns\n", 0644);
  for (const char* file : {"resolv.conf", "nsswitch.conf"}) {
    hosts.run(1, {"sh", "-c", "touch /etc/$1; mount --bind \"$2/$1\" /etc/$1", "-", file, folder.path()});
  }
  const auto zero = rank_on(hosts, 0, 2, "10.77.0.1");
  hosts.in_network_of(1, [&] {
    const CountingResolver resolver("meeting");
    ASSERT_TRUE(resolver.bound());
    const auto one = rank_on(hosts, 1, 2, "meeting.example");
    EXPECT_EQ(one->wait(), 0) << one->out();
    EXPECT_EQ(resolver.questions(), 1) << "for IPv4; the one for IPv6 goes with it";
  });
  EXPECT_EQ(zero->wait(), 0) << zero->out();
}

TEST(Interfaces, TheWayToTheStoreTellsTheRightInterfaceOfTwo) {  // N12: both hosts have 172.17.0.1 on a bridge that leads nowhere
  MAKE_HOSTS(hosts, 2, {"--two-networks"});
  const auto job = start_job(hosts, 2, {HOST_RANK, "meet"});
  for (int node = 0; node < 2; ++node) {
    RunningCommand& launcher = *job[static_cast<std::size_t>(node)];
    EXPECT_EQ(launcher.wait(), 0) << launcher.err();
    EXPECT_EQ(count(launcher.out(), fmt::format(" at {}, with host0 host0 host1 host1\n", hosts.address(node))), 2) << launcher.out();
  }
}

TEST(Interfaces, ANameThatMeansTheWrongInterfaceIsPutRightByTheVariable) {  // N12, F12: host0 is 172.17.0.1 on host 0 itself
  MAKE_HOSTS(hosts, 2, {"--two-networks"});
  for (const Variables& said : {Variables{{"UNISONO_INTERFACE", "10.77.0.0/16"}}, Variables{{"UNISONO_INTERFACE", "^bridge0,lo"}},
                                Variables{{"GLOO_SOCKET_IFNAME", "net0"}}, Variables{{"NCCL_SOCKET_IFNAME", "=net0"}}}) {
    const auto zero = rank_on(hosts, 0, 2, "host0", said);
    const auto one = rank_on(hosts, 1, 2, "host0", said);
    EXPECT_EQ(zero->wait(), 0) << zero->out();
    EXPECT_EQ(one->wait(), 0) << one->out();
    EXPECT_EQ(zero->out(), "rank 0 of 2 at 10.77.0.1, with host0 host1\n");
    EXPECT_EQ(one->out(), "rank 1 of 2 at 10.77.0.2, with host0 host1\n");
  }
}

TEST(Interfaces, AMeetingOnTheWrongInterfaceIsNamedWithItsAddress) {  // N12
  MAKE_HOSTS(hosts, 2, {"--two-networks"});
  const auto zero = rank_on(hosts, 0, 2, "host0", {{"UNISONO_TIMEOUT", "2"}, {"UNISONO_LOG", "info"}});
  const auto one = rank_on(hosts, 1, 2, "host0", {{"UNISONO_TIMEOUT", "2"}});
  EXPECT_EQ(zero->wait(), 1);
  EXPECT_EQ(one->wait(), 1);
  EXPECT_NE(zero->err().find("the job's store listens on 172.17.0.1:29500"), std::string::npos) << zero->err();
  EXPECT_NE(one->out().find("10.77.0.1:29500: Connection refused"), std::string::npos) << one->out();
}

TEST(Interfaces, InterfacesThatDoNotExistAreNamedWithThoseThatDo) {
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int rank = 0; rank < 2; ++rank) job.push_back(rank_on(hosts, rank, 2, "10.77.0.1", {{"UNISONO_INTERFACE", "ib0"}}));
  for (const auto& rank : job) {
    EXPECT_EQ(rank->wait(), 1);
    for (const char* part : {"failed: InvalidArgument", "UNISONO_INTERFACE is \"ib0\"", "net0 (10.77.0."}) {
      EXPECT_NE(rank->out().find(part), std::string::npos) << rank->out();
    }
  }
  hosts.run(1, {"ip", "link", "add", "down0", "type", "veth", "peer", "name", "down1"});
  const auto zero = rank_on(hosts, 0, 2, "10.77.0.1", {{"UNISONO_TIMEOUT", "5"}});
  const auto down = rank_on(hosts, 1, 2, "10.77.0.1", {{"UNISONO_INTERFACE", "down0"}});
  EXPECT_EQ(down->wait(), 1);
  EXPECT_NE(down->out().find("the interface down0 is down or has no address"), std::string::npos) << down->out();
}

TEST(Interfaces, EveryInterfaceAtOnceIsRefused) {  // A10
  MAKE_HOSTS(hosts, 1);
  for (const char* every : {"0.0.0.0", "::"}) {
    const auto rank = rank_on(hosts, 0, 2, every);
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_NE(rank->out().find("does not listen on every interface"), std::string::npos) << rank->out();
  }
}

}  // namespace
}  // namespace unisono::testing
