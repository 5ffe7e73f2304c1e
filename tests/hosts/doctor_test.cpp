// `unisono doctor`: each finding is provoked, on one host and between hosts.

#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ssh_hosts.h"
#include "base/file_descriptor.h"
#include "job.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;

struct Examined {
  int code = 0;
  Json json;
  std::string err;

  /// The finding of that kind about that subject whose text has this part.
  const Json* find(const std::string& kind, const std::string& about, const std::string& part, const std::string& host = {}) const {
    for (const Json& each : json.at("findings"))
      if (each.at("kind") == kind && each.at("about") == about && each.at("text").get<std::string>().find(part) != std::string::npos &&
          (host.empty() || each.at("host") == host))
        return &each;
    return nullptr;
  }
};

Examined ended(RunningCommand& command) {
  Examined result;
  result.code = command.wait();
  result.err = command.err();
  result.json = Json::parse(command.out(), nullptr, false);
  EXPECT_FALSE(result.json.is_discarded()) << command.out() << command.err();
  return result;
}

/// Examines host 0 alone, after a shell there has done something.
Examined examine(const Hosts& hosts, const std::string& before, const std::map<std::string, std::string>& variables = {}) {
  const auto command = hosts.start(0, {"bash", "-c", before + "\nexec \"$@\"", "-", UNISONO_COMMAND, "doctor", "--json"}, variables);
  return ended(*command);
}

void expect_finding(const Examined& examined, const std::string& kind, const std::string& about, const std::string& part, const std::string& advice,
                    const std::string& host = {}) {
  const Json* found = examined.find(kind, about, part, host);
  ASSERT_NE(found, nullptr) << kind << " " << about << " " << part << " is missing in " << examined.json.at("findings").dump(2);
  EXPECT_NE(found->at("advice").get<std::string>().find(advice), std::string::npos) << found->dump(2);
  if (kind == "wrong") {
    EXPECT_EQ(examined.code, 1);
  }
}

TEST(DoctorOfAHost, TheDoctorFindsNothingWrongWhereNothingIs) {
  MAKE_HOSTS(hosts, 1);
  const Examined examined = examine(hosts, "ulimit -n 65536");
  EXPECT_EQ(examined.code, 0) << examined.json.dump(2);
  for (const Json& each : examined.json.at("findings")) EXPECT_EQ(each.at("kind"), "remark") << each;
}

TEST(DoctorOfAHost, TheDoctorNamesLimits) {
  MAKE_HOSTS(hosts, 1);
  const Examined examined = examine(hosts, "ulimit -n 100; ulimit -u 20");
  expect_finding(examined, "wrong", "nofile", "a process may have 100 files and sockets open", "/etc/security/limits.conf");
  expect_finding(examined, "wrong", "nproc", "this user may have 20 processes and threads", "nproc");
  expect_finding(examine(hosts, "ulimit -S -n 100"), "wrong", "nofile", "100 files", "ulimit -n 4096 before the job");
  const auto locked = hosts.start(
      0, {"bash", "-c", "ulimit -l 64; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \"$@\"", "-", UNISONO_COMMAND, "doctor", "--json"});
  expect_finding(ended(*locked), "remark", "memlock", "a process may lock 64 KiB", "ulimit -l unlimited");
}

TEST(DoctorOfAHost, TheDoctorNamesMemory) {
  MAKE_HOSTS(hosts, 1);
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/meminfo") << "MemTotal: 9000000 kB\nMemAvailable: 102400 kB\n";
  std::ofstream(folder.path() + "/max") << "104857600\n";
  expect_finding(examine(hosts, "mount --bind " + folder.path() + "/meminfo /proc/meminfo"), "wrong", "memory", "100 MiB of memory are available",
                 "run fewer ranks");
  hosts.run(0, {"umount", "/proc/meminfo"});
  expect_finding(examine(hosts, "mount -t tmpfs none /sys/fs/cgroup && cp " + folder.path() + "/max /sys/fs/cgroup/memory.max"), "wrong", "memory",
                 "the control group may use 100 MiB", "--memory");
  expect_finding(examine(hosts, "mount -t tmpfs -o size=1m none /dev/shm"), "remark", "shm", "/dev/shm has 1 MiB", "--shm-size");
}

TEST(DoctorOfAHost, TheDoctorNamesMemoryThatCannotBeShared) {
  MAKE_HOSTS(hosts, 1);
  const auto command = hosts.start(0, {WITHOUT_MEMFD, UNISONO_COMMAND, "doctor", "--json"});
  expect_finding(ended(*command), "wrong", "memfd_create", "this system refuses memfd_create (Operation not permitted)", "seccomp");
}

TEST(DoctorOfAHost, TheDoctorNamesTheScopeOfPtrace) {
  MAKE_HOSTS(hosts, 1);
  const std::string fake = "mount -t tmpfs none /proc/sys/kernel && mkdir /proc/sys/kernel/yama && echo {} >/proc/sys/kernel/yama/ptrace_scope";
  expect_finding(examine(hosts, fmt::format(fmt::runtime(fake), 1)), "remark", "ptrace", "ptrace_scope is 1", "sysctl");
  hosts.run(0, {"umount", "/proc/sys/kernel"});
  expect_finding(examine(hosts, fmt::format(fmt::runtime(fake), 2)), "wrong", "ptrace", "no debugger attaches", "sysctl");
}

TEST(DoctorOfAHost, TheDoctorNamesNamesAndInterfacesThatLeadNowhere) {
  MAKE_HOSTS(hosts, 1);
  expect_finding(examine(hosts, "", {{"MASTER_ADDR", "nowhere.invalid"}}), "wrong", "name", "MASTER_ADDR nowhere.invalid does not resolve",
                 "/etc/hosts");
  expect_finding(examine(hosts, "", {{"UNISONO_INTERFACE", "eth77"}}), "wrong", "interface", "eth77", "");
  expect_finding(examine(hosts, "hostname another-name"), "remark", "name", "this host's own name another-name does not resolve", "/etc/hosts");
}

// ---- several hosts ----

Examined examine(const SshHosts& all, int from, const std::string& hosts, const std::map<std::string, std::string>& variables = {},
                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"doctor", "--json", "--ssh", all.ssh(), "--hosts", hosts};
  words.insert(words.end(), more.begin(), more.end());
  const auto command = all.start(from, words, variables);
  return ended(*command);
}

TEST(DoctorOfHosts, TheDoctorMeasuresEachPair) {
  MAKE_SSH_HOSTS(all, 3);
  const Examined examined = examine(all, 0, "host0:2,host1,host2", {}, {"--svg", "pairs.svg"});
  EXPECT_EQ(examined.code, 0) << examined.json.dump(2);
  for (const char* name : {"latency_us", "mebibytes_per_s"}) {
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(examined.json.at(name).at(i).at(j).get<double>() > 0, i != j) << name << examined.json.at(name);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(examined.json.at("facts").at(i).at("address"), all.hosts().address(static_cast<int>(i)));
  const std::string picture = contents(all.folder() + "/pairs.svg");
  EXPECT_EQ(count(picture, "<svg "), 1);
  EXPECT_EQ(count(picture, "<rect ") - 1, 12) << "two panels of six pairs";
  EXPECT_EQ(count(picture, ">host2</text>"), 4);
  EXPECT_EQ(all.hosts().listening(1), std::vector<std::string>{"0.0.0.0:22"}) << "nothing listens afterwards";
  const auto text = all.start(0, {"doctor", "--ssh", all.ssh(), "--hosts", "host0,host1"});
  EXPECT_EQ(text->wait(), 0);
  for (const char* part : {"2 hosts: nothing is wrong", "latency of 8 bytes over TCP", "bandwidth of one TCP connection"})
    EXPECT_EQ(count(text->out(), part), 1) << text->out();
}

TEST(DoctorOfHosts, TheDoctorNamesAHostThatCannotBeUsedAndGoesOn) {
  MAKE_SSH_HOSTS(all, 3);
  write_script(all.folder() + "/other", "#!/bin/sh\necho unisono-host 99.1.2\n");
  all.replace(2, UNISONO_COMMAND, all.folder() + "/other");
  const Examined examined = examine(all, 0, "host0,host1,host2,nowhere.invalid,10.77.0.9");
  expect_finding(examined, "wrong", "version", "it has unisono 99.1.2", "install the same version", "host2");
  expect_finding(examined, "wrong", "host", "Could not resolve hostname", "correct the name", "nowhere.invalid");
  expect_finding(examined, "wrong", "host", "No route to host", "the host is down", "10.77.0.9");
  EXPECT_GT(examined.json.at("latency_us").at(0).at(1).get<double>(), 0) << "the others were measured";
  EXPECT_EQ(examined.json.at("facts").at(3), nullptr);
}

TEST(DoctorOfHosts, TheDoctorNamesABlockedPort) {
  MAKE_SSH_HOSTS(all, 2);
  // Connections to a port that is not sshd's lead nowhere, as behind a firewall.
  all.hosts().run(
      1,
      {"sh", "-c", "ip rule add pref 10 iif net0 ipproto tcp dport 1024-65534 blackhole && ip rule add pref 100 lookup local && ip rule del pref 0"});
  const Examined examined = examine(all, 0, "host0,host1");
  expect_finding(examined, "wrong", "port", "10.77.0.2:", "firewall", "host0 to host1");
  EXPECT_EQ(examined.json.at("latency_us").at(0).at(1), 0);
}

void send_no_large_segments(const Hosts& hosts, int host) {
  hosts.in_network_of(host, [] {
    const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    for (const __u32 what : {ETHTOOL_STSO, ETHTOOL_SGSO}) {
      ethtool_value value{.cmd = what, .data = 0};
      ifreq request{};
      std::strcpy(request.ifr_name, "net0");
      request.ifr_data = reinterpret_cast<char*>(&value);
      EXPECT_EQ(::ioctl(socket.get(), SIOCETHTOOL, &request), 0);
    }
  });
}

TEST(DoctorOfHosts, TheDoctorNamesPacketsThatAreTooLargeForTheWay) {
  MAKE_SSH_HOSTS(all, 3);
  for (const int host : {0, 1}) {  // the network between them takes 1500 bytes
    all.hosts().run(host, {"ip", "link", "set", "net0", "mtu", "9000"});
    send_no_large_segments(all.hosts(), host);
  }
  const Examined examined = examine(all, 2, "host0,host1,host2");
  expect_finding(examined, "wrong", "mtu", "short messages to 10.77.0.2:", "ping -M do", "host0 to host1");
  expect_finding(examined, "wrong", "mtu", "short messages to 10.77.0.1:", "ping -M do", "host1 to host0");
  expect_finding(examined, "remark", "mtu", "the MTU of its net0 is 1500, and that of net0 on host0 is 9000", "the same MTU", "host2");
}

TEST(DoctorOfHosts, TheDoctorNamesAClockThatIsWrong) {
  MAKE_SSH_HOSTS(all, 2);
  const auto command = all.start(0, {"doctor", "--json", "--ssh", "env LD_PRELOAD=" SKEWED_CLOCK " NAME={host}", "--hosts", "one.invalid"});
  expect_finding(ended(*command), "wrong", "clock", "its clock is 3600.0 s ahead", "chronyd", "one.invalid");
}

TEST(DoctorOfHosts, TheDoctorNamesAnInterfaceThatLeadsNowhere) {
  MAKE_SSH_HOSTS(all, 2, {"--two-networks"});
  write_secret(all.folder() + "/ssh_config", contents(all.folder() + "/ssh_config") + "Host host1\n  HostName 10.77.0.2\n");
  const Examined bridge = examine(all, 0, "10.77.0.1,10.77.0.2", {{"UNISONO_INTERFACE", "bridge0"}});
  expect_finding(bridge, "wrong", "interface", "the ranks here would be reached at 172.17.0.1 of bridge0, a bridge for containers",
                 "UNISONO_INTERFACE=net0", "10.77.0.2");
  const Examined loopback = examine(all, 0, "10.77.0.1,10.77.0.2", {{"UNISONO_INTERFACE", "lo"}});
  expect_finding(loopback, "wrong", "interface", "127.0.0.1, a loopback address", "UNISONO_INTERFACE=net0", "10.77.0.2");
  const Examined names = examine(all, 0, "10.77.0.1,10.77.0.2");
  EXPECT_EQ(names.code, 0) << names.json.dump(2);
  expect_finding(names, "remark", "name", "this host's own name host1 leads to 172.17.0.1 of bridge0", "--master-addr", "10.77.0.2");
  const Examined master = examine(all, 0, "10.77.0.1,10.77.0.2", {{"MASTER_ADDR", "127.0.0.1"}}, {});
  expect_finding(master, "wrong", "interface", "MASTER_ADDR 127.0.0.1 is 127.0.0.1, a loopback address", "UNISONO_INTERFACE", "10.77.0.1");
}

// This one is no bridge for the kernel: its name tells.
TEST(DoctorOfHosts, TheDoctorNamesAnInterfaceOfContainersByItsName) {
  MAKE_SSH_HOSTS(all, 2);
  for (const int host : {0, 1}) {
    all.hosts().run(host, {"ip", "link", "add", "docker0", "type", "veth", "peer", "name", "inside0"});
    all.hosts().run(host, {"ip", "address", "add", fmt::format("172.18.{}.1/24", host), "dev", "docker0"});
    for (const char* end : {"docker0", "inside0"}) all.hosts().run(host, {"ip", "link", "set", end, "up"});
  }
  const Examined chosen = examine(all, 0, "host0,host1", {{"UNISONO_INTERFACE", "docker0"}});
  for (const int host : {0, 1}) {
    expect_finding(chosen, "wrong", "interface", fmt::format("the ranks here would be reached at 172.18.{}.1 of docker0, a bridge", host),
                   "UNISONO_INTERFACE=net0 chooses another one", fmt::format("host{}", host));
  }
  const Examined master = examine(all, 0, "host0,host1", {{"MASTER_ADDR", "172.18.0.1"}});
  expect_finding(master, "wrong", "interface", "MASTER_ADDR 172.18.0.1 is 172.18.0.1 of docker0, a bridge", "UNISONO_INTERFACE=net0", "host0");
  EXPECT_EQ(examine(all, 0, "host0,host1").code, 0) << "nobody uses it";
}

TEST(DoctorOfHosts, TheDoctorNamesTwoHostsWithOneAddress) {
  MAKE_SSH_HOSTS(all, 3, {"--two-networks"});
  const Examined examined = examine(all, 2, "10.77.0.1,10.77.0.2", {{"UNISONO_INTERFACE", "bridge0"}});
  expect_finding(examined, "wrong", "interface", "10.77.0.1 and 10.77.0.2 would both be reached at 172.17.0.1 (bridge0)", "^docker0", "10.77.0.2");
}

TEST(DoctorOfHosts, TheDoctorNamesAHostThatDoesNotKnowItsOwnName) {
  MAKE_SSH_HOSTS(all, 2);
  all.hosts().run(1, {"hostname", "another-name"});
  expect_finding(examine(all, 0, "host0,host1"), "wrong", "name", "this host's own name another-name does not resolve", "/etc/hosts", "host1");
}

}  // namespace
}  // namespace unisono::testing
