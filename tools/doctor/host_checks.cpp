#include "doctor/host_checks.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "base/host.h"
#include "base/processors.h"
#include "base/socket.h"
#include "common/machine.h"

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
  std::ifstream file("/proc/self/status");
  for (std::string name; file >> name;) {
    unsigned long long capabilities = 0;
    if (name == "CapEff:" && file >> std::hex >> capabilities) return (capabilities >> ipc_lock & 1) != 0;
    std::getline(file, name);
  }
  return false;
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

std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    std::uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib << 10;
    std::getline(file, name);
  }
  return ~std::uint64_t{0};
}

void check_memory(int ranks, Findings& findings) {
  const std::uint64_t needed = memory_per_rank * static_cast<std::uint64_t>(ranks);
  if (const std::uint64_t free = available_memory(); free < needed) {
    findings.push_back({Kind::wrong, "memory", fmt::format("{} MiB of memory are available for {} ranks", free / mebi, ranks),
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
  const long long scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  if (scope <= 0) return;
  findings.push_back({scope > 1 ? Kind::wrong : Kind::remark, "ptrace",
                      fmt::format("kernel.yama.ptrace_scope is {}: {}", scope,
                                  scope == 1 ? "a debugger attaches to its own children alone, and ranks cannot read each other's memory"
                                             : "no debugger attaches to a rank that hangs"),
                      "sysctl kernel.yama.ptrace_scope=0 lets gdb and py-spy attach, and Open MPI and UCX copy between ranks in one step"});
}

}  // namespace

long long number_in(const char* path) {
  std::ifstream file(path);
  long long value = -1;
  return file >> value ? value : -1;
}

Findings check_host(int ranks) {
  Findings findings;
  check_limits(ranks, findings);
  check_memory(ranks, findings);
  check_shared_memory(findings);
  check_calls(findings);
  check_tracing(findings);
  return findings;
}

}  // namespace unisono::tools
