#include "doctor/checks.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/processors.h"
#include "base/host.h"
#include "base/version.h"
#include "base/interfaces.h"
#include "base/socket.h"
#include "common/machine.h"
#include "common/text.h"
#include "rendezvous/own_address.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using Kind = Finding::Kind;

constexpr std::uint64_t mebi = 1u << 20;
/// A process of a numeric library has as many threads as there are cores, and the launcher its own.
constexpr rlim_t processes_per_rank = 32;
/// Connections to other ranks, segments, files of the program.
constexpr rlim_t files_per_rank = 256;
/// UCX, NCCL and io_uring lock their buffers.
constexpr rlim_t least_locked = 8 * mebi;
/// Docker's 64 MiB is what most users stumble over.
constexpr std::uint64_t least_shared_memory = 128 * mebi;
constexpr std::uint64_t memory_per_rank = 256 * mebi;

rlimit limit_of(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
  return limit;
}

/// Says how to raise a limit: `flag` is ulimit's.
std::string raise(const rlimit& limit, char flag, rlim_t needed, const char* item) {
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= needed) return fmt::format("ulimit -{} {} before the job", flag, needed);
  return fmt::format("a line \"* - {} {}\" in /etc/security/limits.conf, or Limit{}= of the service that starts the job, raises it", item, needed,
                     std::string(item) == "nofile" ? "NOFILE" : "NPROC");
}

/// Returns true where the kernel does not ask for the limit (CAP_IPC_LOCK).
bool may_lock_any() {
  constexpr int ipc_lock = 14;
  return (parse_number<std::uint64_t>(field_of("/proc/self/status", "CapEff:"), 16).value_or(0) >> ipc_lock & 1) != 0;
}

void check_limits(int ranks, Findings& findings) {
  const auto count = static_cast<rlim_t>(ranks);
  const rlim_t files = std::max<rlim_t>(files_per_rank, 64 + 8 * count);  // of a rank; of the launcher
  if (const rlimit limit = limit_of(RLIMIT_NOFILE); limit.rlim_cur < files) {
    findings.push_back({Kind::wrong, "nofile",
                        fmt::format("a process may have {} files and sockets open; {} ranks here need {}", limit.rlim_cur, ranks, files),
                        raise(limit, 'n', std::max<rlim_t>(files, 4096), "nofile")});
  }
  const rlim_t processes = processes_per_rank * count;
  if (const rlimit limit = limit_of(RLIMIT_NPROC); limit.rlim_cur < processes) {
    findings.push_back({Kind::wrong, "nproc",
                        fmt::format("this user may have {} processes and threads; {} ranks here need about {}", limit.rlim_cur, ranks, processes),
                        raise(limit, 'u', std::max<rlim_t>(processes, 4096), "nproc")});
  }
  if (const rlimit limit = limit_of(RLIMIT_MEMLOCK); limit.rlim_cur < least_locked && !may_lock_any()) {
    findings.push_back({Kind::remark, "memlock", fmt::format("a process may lock {} KiB of memory; RDMA and NCCL lock more", limit.rlim_cur >> 10),
                        "ulimit -l unlimited, or \"* - memlock unlimited\" in /etc/security/limits.conf; TCP and shared memory do not need it"});
  }
}

void check_memory(int ranks, Findings& findings) {
  const std::uint64_t needed = memory_per_rank * static_cast<std::uint64_t>(ranks);
  if (const auto kib = parse_number<std::uint64_t>(field_of("/proc/meminfo", "MemAvailable:")); kib && *kib << 10 < needed) {
    findings.push_back({Kind::wrong, "memory", fmt::format("{} MiB of memory are available for {} ranks", *kib >> 10, ranks),
                        "end what else runs here (ps aux --sort -rss), or run fewer ranks: the kernel kills processes when memory runs out"});
  }
  if (const auto limit = base::ControlGroups().memory(); limit && *limit < needed) {
    findings.push_back({Kind::wrong, "memory", fmt::format("the control group may use {} MiB of memory for {} ranks", *limit / mebi, ranks),
                        "give the container or the job more memory (docker run --memory, #SBATCH --mem), or run fewer ranks"});
  }
}

void check_shared_memory(Findings& findings) {
  struct statvfs about {};
  const bool there = ::statvfs("/dev/shm", &about) == 0;
  const std::uint64_t size = there ? std::uint64_t{about.f_blocks} * about.f_frsize : 0;
  if (size < least_shared_memory) {
    findings.push_back({Kind::remark, "shm", there ? fmt::format("/dev/shm has {} MiB", size / mebi) : std::string("there is no /dev/shm"),
                        "unisono does not use it, but Open MPI, NCCL and PyTorch's data loaders do: docker run --shm-size 1g, or mount -o "
                        "remount,size=1g /dev/shm"});
  }
}

void check_calls(Findings& findings) {
  for (const base::RefusedCall& call : base::refused_calls()) {
    findings.push_back({Kind::wrong, std::string(call.name), call.text(), base::remedy_of_refusal(call.name, call.error)});
  }
}

void check_tracing(Findings& findings) {
  const int scope = parse_number<int>(chosen_word("/proc/sys/kernel/yama/ptrace_scope")).value_or(0);
  if (scope <= 0) return;
  findings.push_back({scope > 1 ? Kind::wrong : Kind::remark, "ptrace",
                      fmt::format("kernel.yama.ptrace_scope is {}: {}", scope,
                                  scope == 1 ? "a debugger attaches to its own children alone, and ranks cannot read each other's memory"
                                             : "no debugger attaches to a rank that hangs"),
                      "sysctl kernel.yama.ptrace_scope=0 lets gdb and py-spy attach, and Open MPI and UCX copy between ranks in one step"});
}

using base::Environment;
using base::InterfaceAddress;
using Kind = Finding::Kind;

constexpr std::array<std::string_view, 10> of_containers = {"docker", "br-", "bridge", "virbr", "veth", "lxcbr", "lxdbr", "cni", "flannel", "podman"};

/// Bridges of containers and virtual machines have the same addresses on every host, and lead to none.
bool leads_nowhere(const std::string& interface) {
  struct stat about {};
  if (::stat(fmt::format("/sys/class/net/{}/bridge", interface).c_str(), &about) == 0) return true;
  return std::ranges::any_of(of_containers, [&](std::string_view begin) { return interface.starts_with(begin); });
}

/// Returns the interface that has the address; empty: none has.
std::string interface_of(const std::string& address) {
  for (const InterfaceAddress& each : base::interface_addresses())
    if (each.address.host() == address) return each.interface;
  return {};
}

/// Returns the addresses by which other hosts may reach this one.
std::vector<InterfaceAddress> usable() {
  auto all = base::interface_addresses();
  std::erase_if(all, [](const InterfaceAddress& each) { return each.loopback || each.link_local || leads_nowhere(each.interface); });
  return all;
}

std::string choose_another(const std::vector<InterfaceAddress>& others) {
  if (others.empty()) return "this host has no interface that leads to others: connect one (ip address)";
  return fmt::format("UNISONO_INTERFACE={} chooses another one (there are: {})", others.front().interface, base::describe(others));
}

void check_address(const std::string& address, const std::string& what, Findings& findings) {
  const std::string interface = interface_of(address);
  const bool loopback = base::is_numeric(address) && base::resolve(address, 0).front().is_loopback();
  if (loopback) {
    findings.push_back(
        {Kind::wrong, "interface", fmt::format("{} {}, a loopback address, which no other host reaches", what, address), choose_another(usable())});
  } else if (!interface.empty() && leads_nowhere(interface)) {
    findings.push_back({Kind::wrong, "interface",
                        fmt::format("{} {} of {}, a bridge for containers, which leads to no other host", what, address, interface),
                        choose_another(usable())});
  }
}

/// Returns the addresses of a name; empty where it has none, with a finding.
std::vector<base::SocketAddress> look_up(const std::string& name, const std::string& what, Kind kind, Findings& findings) {
  try {
    return base::resolve(name, 0);
  } catch (const InvalidArgument& error) {
    findings.push_back({kind, "name", fmt::format("{} {} does not resolve: {}", what, name, error.message()),
                        fmt::format("add it to /etc/hosts, or to the name server: \"ADDRESS {}\"", name)});
    return {};
  }
}

void check_names(const Environment& environment, Reach reach, Findings& findings) {
  const bool several = reach == Reach::several_hosts;
  const auto own = look_up(base::host_name(), "this host's own name", several ? Kind::wrong : Kind::remark, findings);
  if (several && !own.empty()) {
    const auto interface = interface_of(own.front().host());
    const bool useless = own.front().is_loopback() || (!interface.empty() && leads_nowhere(interface));
    if (useless) {
      findings.push_back({Kind::remark, "name",
                          fmt::format("this host's own name {} leads to {}{}, which no other host reaches", base::host_name(), own.front().host(),
                                      interface.empty() ? "" : " of " + interface),
                          "name host 0 by an address (--master-addr), or correct /etc/hosts; unisono's own ranks use addresses"});
    }
  }
  if (const auto master = environment.get("MASTER_ADDR")) {
    const auto addresses = look_up(*master, "MASTER_ADDR", Kind::wrong, findings);
    if (several && !addresses.empty()) check_address(addresses.front().host(), fmt::format("MASTER_ADDR {} is", *master), findings);
  }
}

/// Returns the interface's largest packet; 0 where it is unknown.
int mtu_of(const std::string& interface) {
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

}  // namespace

void to_json(Json& json, const Finding& finding) {
  json = {{"kind", finding.kind == Kind::wrong ? "wrong" : "remark"},
          {"host", finding.host},
          {"about", finding.about},
          {"text", finding.text},
          {"advice", finding.advice}};
}

void from_json(const Json& json, Finding& finding) {
  finding = {json.at("kind") == "wrong" ? Kind::wrong : Kind::remark, json.at("about"), json.at("text"), json.at("advice"), json.at("host")};
}

Json inspect_host(const Environment& environment, const std::optional<base::SocketAddress>& route, Reach reach, int ranks) {
  const bool several = reach == Reach::several_hosts;
  Findings findings;
  std::string address;  // at which the ranks of this host would be reached, as rendezvous chooses it
  try {
    address = rendezvous::own_address(environment, route, !several);
    if (several) check_address(address, "the ranks here would be reached at", findings);
    else address.clear();
  } catch (const InvalidArgument& error) {
    const std::string hint = error.info().hint;
    findings.push_back({Kind::wrong, "interface", error.message(), hint.empty() ? choose_another(usable()) : hint});
  }
  check_names(environment, reach, findings);
  check_limits(ranks, findings);
  check_memory(ranks, findings);
  check_shared_memory(findings);
  check_calls(findings);
  check_tracing(findings);
  const std::string interface = interface_of(address);
  return {{"name", base::host_name()}, {"version", base::to_string(base::library_version())},
          {"address", address},        {"interface", interface},
          {"mtu", mtu_of(interface)},  {"port", 0},
          {"findings", findings}};
}

Findings take_findings(Json& facts, const std::string& host) {
  auto findings = facts.at("findings").get<Findings>();
  for (Finding& each : findings) each.host = host;
  facts.erase("findings");
  return findings;
}

}  // namespace unisono::tools
