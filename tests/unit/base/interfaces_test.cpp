// The choice of the interface, and of the address by which the others reach this rank.

#include <functional>
#include <map>

#include "base/interfaces.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "covers.h"
#include "rendezvous/own_address.h"
#include "unisono/error.h"

namespace unisono::base {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

InterfaceAddress address(const std::string& interface, const std::string& host) {
  const SocketAddress parsed = resolve(host, 0).front();
  return {.interface = interface, .address = parsed, .loopback = parsed.is_loopback()};
}

// A host as they are: loopback, two networks, a bridge for containers, and the same in IPv6.
const std::vector<InterfaceAddress> host{address("lo", "127.0.0.1"),       address("eth0", "192.168.7.4"), address("eth1", "10.1.2.3"),
                                         address("docker0", "172.17.0.1"), address("lo", "::1"),           address("eth1", "fd00:1::3")};

std::string chosen(const std::string& variable, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& each : InterfaceRule(variable, text).choose(host)) names.push_back(each.address.host());
  return fmt::format("{}", fmt::join(names, " "));
}

std::string refusal(const std::string& variable, const std::string& text) {
  try {
    const std::string got = chosen(variable, text);
    ADD_FAILURE() << text << " was taken for " << got;
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST(InterfaceRule, TheRuleNamesOneOrSeveralInTheOrderOfTheList) {
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "eth0"), "192.168.7.4");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "eth1"), "10.1.2.3 fd00:1::3");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", " docker0, eth0 "), "172.17.0.1 192.168.7.4");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "ib0,eth0"), "192.168.7.4") << "hosts may differ: the first that is there";
}

TEST(InterfaceRule, TheRuleMeansAllButThoseAfterACaret) {
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "^docker0,lo"), "192.168.7.4 10.1.2.3 fd00:1::3");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "^eth1,172.16.0.0/12"), "192.168.7.4 127.0.0.1 ::1") << "loopback last";
}

TEST(InterfaceRule, TheRuleKnowsNetworksAndAddresses) {
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "10.0.0.0/8"), "10.1.2.3");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "192.168.7.4"), "192.168.7.4");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "192.168.6.0/23"), "192.168.7.4");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "fd00::/8,eth0"), "fd00:1::3 192.168.7.4");
  EXPECT_EQ(chosen("UNISONO_INTERFACE", "0.0.0.0/0"), "127.0.0.1 192.168.7.4 10.1.2.3 172.17.0.1");
  EXPECT_NE(refusal("UNISONO_INTERFACE", "192.168.8.0/24").find("192.168.7.4"), std::string::npos) << "what there is";
}

TEST(InterfaceRule, TheRuleUnderstandsTheVariablesOfOthers) {  // F12: NCCL's are beginnings of names
  COVERS("E-13");
  EXPECT_EQ(chosen("NCCL_SOCKET_IFNAME", "eth"), "192.168.7.4 10.1.2.3 fd00:1::3");
  EXPECT_EQ(chosen("NCCL_SOCKET_IFNAME", "=eth0"), "192.168.7.4");
  EXPECT_EQ(chosen("NCCL_SOCKET_IFNAME", "^docker,lo"), "192.168.7.4 10.1.2.3 fd00:1::3");
  EXPECT_EQ(chosen("NCCL_SOCKET_IFNAME", "^=lo,=eth0"), "10.1.2.3 172.17.0.1 fd00:1::3");
  EXPECT_EQ(chosen("GLOO_SOCKET_IFNAME", "eth0,eth1"), "192.168.7.4 10.1.2.3 fd00:1::3");
  EXPECT_EQ(chosen("GLOO_SOCKET_IFNAME", "^lo"), "192.168.7.4 10.1.2.3 172.17.0.1 fd00:1::3");
  EXPECT_NE(refusal("GLOO_SOCKET_IFNAME", "eth").find("GLOO_SOCKET_IFNAME is \"eth\""), std::string::npos);
}

TEST(InterfaceRule, TheRuleNamesItsVariableWhereItMakesNoSense) {
  for (const char* text : {",", "eth0,", "^", "eth0,^lo", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "fd00::/129", "eth0/8",
                           "10.0.0.300", "fd00::1::2", "an interface", "aninterfacewithalongname", "="}) {
    const std::string why = refusal("UNISONO_INTERFACE", text);
    EXPECT_NE(why.find(fmt::format("UNISONO_INTERFACE is \"{}\"", text)), std::string::npos) << why;
    EXPECT_EQ(why.find("there are:"), std::string::npos) << "a list that makes no sense is told so: " << why;
  }
}

TEST(InterfaceRule, TheRuleSaysWhatIsThereWhereNothingIsMeant) {
  const std::string text = refusal("UNISONO_INTERFACE", "eth7");
  for (const char* part : {"UNISONO_INTERFACE is \"eth7\"", "lo (127.0.0.1)", "docker0 (172.17.0.1)"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(InterfaceRule, OurVariableComesFirstThenGloosThenNccls) {
  COVERS("E-13");
  EXPECT_FALSE(InterfaceRule::own_or_others(Environment{}));
  const Variables all{{"UNISONO_INTERFACE", "eth0"}, {"GLOO_SOCKET_IFNAME", "eth1"}, {"NCCL_SOCKET_IFNAME", "docker0"}};
  Variables left = all;
  std::string got;
  for (const char* without : {"", "UNISONO_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
    left.erase(without);
    got += InterfaceRule::own_or_others(Environment(left))->choose(host).front().interface + " ";
  }
  EXPECT_EQ(got, "eth0 eth1 docker0 ");
}

TEST(OwnAddress, TheAddressIsLoopbackOnOneHostAndTheWayToTheStoreBetweenHosts) {
  const auto route = resolve("127.0.0.9", 1).front();
  EXPECT_EQ(rendezvous::own_address(Environment{}, route, true), "127.0.0.1");
  EXPECT_EQ(rendezvous::own_address(Environment{}, resolve("::1", 1).front(), true), "::1");
  EXPECT_EQ(rendezvous::own_address(Environment{}, resolve("198.51.100.7", 1).front(), false), "198.51.100.7");
  const Environment others{Variables{{"NCCL_SOCKET_IFNAME", "nothing_here"}}};
  EXPECT_EQ(rendezvous::own_address(others, route, true), "127.0.0.1") << "nobody is asked where nothing is to choose";
  EXPECT_THROW(rendezvous::own_address(others, route, false), InvalidArgument);
}

TEST(OwnAddress, WhatTheVariableMeansWins) {
  const Environment said{Variables{{"UNISONO_INTERFACE", "127.0.0.0/8"}}};
  EXPECT_EQ(rendezvous::own_address(said, resolve("198.51.100.7", 1).front(), false), "127.0.0.1");
  EXPECT_EQ(rendezvous::own_address(said, std::nullopt, true), "127.0.0.1");
  const Environment absent{Variables{{"UNISONO_INTERFACE", "198.51.100.7"}}};
  EXPECT_THROW(rendezvous::own_address(absent, std::nullopt, true), InvalidArgument);
}

TEST(OwnAddress, AMeetingOnLoopbackIsRefusedWhereOthersAreToCome) {  // N11: a name that means 127.0.1.1
  const std::vector<SocketAddress> loopback{resolve("127.0.1.1", 29500).front()};
  try {
    rendezvous::check_reachable("node17", loopback);
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("node17, here 127.0.1.1, which is a loopback address"), std::string::npos) << error.what();
  }
  const std::vector<SocketAddress> both{resolve("127.0.1.1", 29500).front(), resolve("198.51.100.7", 29500).front()};
  rendezvous::check_reachable("node17", both);
}

TEST(OwnAddress, ANumberIsListenedOnAsItIsAndANameWhereTheVariableSays) {
  const Environment said{Variables{{"UNISONO_INTERFACE", "127.0.0.1"}}};
  const std::vector<SocketAddress> two{resolve("127.0.0.1", 7).front(), resolve("::1", 7).front()};
  const auto listened = rendezvous::addresses_to_listen_on("a-name", two, said);
  ASSERT_EQ(listened.size(), 1U);
  EXPECT_EQ(describe(listened.front()), "127.0.0.1:7");
  EXPECT_EQ(rendezvous::addresses_to_listen_on("127.0.0.1", two, said).size(), 2U);
  const std::vector<SocketAddress> foreign{resolve("198.51.100.7", 7).front()};
  EXPECT_EQ(describe(rendezvous::addresses_to_listen_on("a-name", foreign, said).front()), "198.51.100.7:7");
}

// Another host does not know the name of the interface by which it is reached from here.
TEST(LinkLocalAddresses, LinkLocalAddressesOfOthersGetTheOwnInterface) {
  const SocketAddress own = resolve("fe80::1%lo", 0).front(), told = resolve("fe80::2", 7).front();
  EXPECT_EQ(own.host_for_others(), "fe80::1");
  EXPECT_TRUE(told.lacks_interface());
  const SocketAddress seen = told.as_seen_from(own);
  EXPECT_FALSE(seen.lacks_interface());
  EXPECT_EQ(seen.host(), "fe80::2%lo");
  EXPECT_EQ(seen.port(), 7);
  EXPECT_TRUE(told.as_seen_from(resolve("::1", 0).front()).lacks_interface());
}

}  // namespace
}  // namespace unisono::base
