#include "launch/view/rank_facts.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "base/host.h"

namespace unisono::launcher {
namespace {

constexpr double nanoseconds_per_second = 1e9;

/// A call of the system in which a thread is.
struct SystemCall {
  long number = -1;
  std::array<std::uint64_t, 3> arguments{};
};

std::string folder_of(int pid) { return "/proc/" + std::to_string(pid); }

/// See proc(5): the number and the arguments; "running" where the thread is in none.
std::optional<SystemCall> call_of(int pid) {
  std::ifstream file(folder_of(pid) + "/syscall");
  SystemCall call;
  if (!(file >> call.number) || call.number < 0) return std::nullopt;
  for (std::uint64_t& argument : call.arguments) {
    if (!(file >> std::hex >> argument)) return std::nullopt;
  }
  return call;
}

bool read_memory(int pid, std::uint64_t address, void* to, std::size_t bytes) {
  const iovec own{to, bytes}, its{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(pid, &own, 1, &its, 1, 0) == static_cast<ssize_t>(bytes);
}

/// Returns a text of the process's memory that ends with a null character.
std::string text_at(int pid, std::uint64_t address) {
  constexpr std::size_t most = 4096;
  std::string text;
  for (char c = 0; text.size() < most && read_memory(pid, address + text.size(), &c, 1) && c != '\0';) text += c;
  return text;
}

bool is_named_pipe(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
}

/// Returns what a descriptor of the process leads to: "the named pipe /tmp/part2".
std::string file_text(int pid, std::uint64_t descriptor) {
  const std::string link = folder_of(pid) + "/fd/" + std::to_string(static_cast<int>(descriptor));
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(link, error).native();
  if (error) return "a file";
  if (target.starts_with("pipe:")) return "a pipe";
  if (target.starts_with("socket:")) return "a socket";
  return (is_named_pipe(link) ? "the named pipe " : "") + base::printable(target);
}

std::string opened_text(int pid, std::uint64_t address) {
  const std::string path = text_at(pid, address);
  if (path.empty()) return "opens a file";
  std::error_code error;
  const auto folder = std::filesystem::read_symlink(folder_of(pid) + "/cwd", error);
  const std::string whole = (folder / path).native();
  const std::string shown = base::printable(path);
  return is_named_pipe(whole) ? fmt::format("waits to open the named pipe {} until another process opens its other end", shown)
                              : fmt::format("opens {}", shown);
}

// A mutex of the C library is locked by the value 2 while somebody waits; behind the word and a counter lies the thread that has locked it.
std::string futex_text(int pid, const SystemCall& call) {
  std::uint32_t operation = static_cast<std::uint32_t>(call.arguments[1]) & static_cast<std::uint32_t>(FUTEX_CMD_MASK);
  constexpr std::uint64_t contended = 2, owner_behind = 8;
  if (operation != FUTEX_WAIT || call.arguments[2] != contended) return "waits for another thread of its process";
  std::int32_t owner = 0;
  if (!read_memory(pid, call.arguments[0] + owner_behind, &owner, sizeof owner)) return "waits for a mutex";
  if (owner == pid) return "waits for a mutex that it has locked itself";
  std::error_code error;
  if (owner > 0 && std::filesystem::exists(folder_of(pid) + "/task/" + std::to_string(owner), error))
    return fmt::format("waits for a mutex that thread {} of its process has locked", owner);
  return "waits for a mutex";
}

/// What a thread does in some calls of the system; `names_file`: with the file that is their first argument.
struct KnownCalls {
  const char* text;
  bool names_file;
  std::vector<long> numbers;
};

const std::vector<KnownCalls>& known_calls() {
  constexpr const char* for_files = "waits until one of its files or sockets is ready";
  static const auto& all = *new std::vector<KnownCalls> {
    {"reads ", true, {SYS_read, SYS_readv, SYS_pread64, SYS_recvfrom, SYS_recvmsg}},
        {"writes to ", true, {SYS_write, SYS_writev, SYS_pwrite64, SYS_sendto, SYS_sendmsg}}, {"connects ", true, {SYS_connect}},
        {"waits for a connection", false, {SYS_accept, SYS_accept4}}, {"waits for a lock on ", true, {SYS_flock, SYS_fcntl}},
        {"waits for a process that it has started", false, {SYS_wait4, SYS_waitid}}, {"sleeps", false, {SYS_nanosleep, SYS_clock_nanosleep}},
        {"waits for a signal", false, {SYS_rt_sigsuspend, SYS_rt_sigtimedwait}}, {for_files, false, {SYS_ppoll, SYS_pselect6, SYS_epoll_pwait}},
#if defined(SYS_poll)  // newer machines have none of these
        {"waits for a signal", false, {SYS_pause}}, {for_files, false, {SYS_poll, SYS_select, SYS_epoll_wait}},
#endif
  };
  return all;
}

}  // namespace

ProcessFacts process_facts(int pid, std::int64_t life) {
  ProcessFacts facts;
  const std::string stat = base::stat_after_name(pid);
  if (stat.empty() || base::has_ended(pid, life)) return facts;
  std::istringstream words(stat);
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  constexpr std::size_t user_time = 11, system_time = 12, resident_pages = 21;  // behind the name, see proc(5)
  if (fields.size() <= resident_pages) return facts;
  const char state = fields[0][0];
  facts.lives = state != 'Z' && state != 'X';
  facts.is_stopped = state == 'T' || state == 't';
  facts.cpu_seconds = (std::stod(fields[user_time]) + std::stod(fields[system_time])) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  facts.memory_bytes = std::stoull(fields[resident_pages]) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return facts;
}

void number_by_last_generation(recorder::RankSeen& record) {
  if (record.rank < 0 || record.last.generation == 0 || record.last.rank < 0) return;
  record.rank = record.last.rank;
  if (record.last.size > 0) record.size = record.last.size;
}

RankFacts facts_of(recorder::RankSeen record) {
  RankFacts rank{.record = std::move(record), .process = {}};
  number_by_last_generation(rank.record);
  // In a container the process has another number than here, where all that follows is asked of the system.
  if (const pid_t here = base::number_here(rank.record.pid, rank.record.life); here > 0) {
    rank.record.pid = here;
    rank.process = process_facts(here, rank.record.life);
  }
  const auto age = static_cast<double>(rank.record.now - std::min(rank.record.now, rank.record.began));
  if (age > 0) rank.process.cpu_share = rank.process.cpu_seconds / (age / nanoseconds_per_second);
  return rank;
}

void keep_last_generation(std::vector<RankFacts>& ranks) {
  const auto order = [](const RankFacts& rank) { return std::tuple(rank.record.rank, rank.has_joined ? 0 : 1, -rank.record.last.generation); };
  std::ranges::stable_sort(ranks, {}, order);
  const auto is_older = [](const RankFacts& kept, const RankFacts& rank) {
    return rank.record.rank == kept.record.rank && (kept.has_joined != rank.has_joined || kept.record.last.generation != rank.record.last.generation);
  };
  const auto left_out = std::ranges::unique(ranks, is_older);
  ranks.erase(left_out.begin(), left_out.end());
}

std::string_view state_name(recorder::CallState state) {
  constexpr std::array<std::string_view, 6> names{"none", "queued", "running", "waiting", "done", "failed"};
  const auto index = static_cast<std::size_t>(state);
  return index < names.size() ? names[index] : "unknown";
}

// An asynchronous call waits for others while the program computes.
const recorder::CallSeen* call_shown(const RankFacts& rank) {
  const auto& recent = rank.record.recent;
  const auto waits = [](const recorder::CallSeen& call) { return call.state == recorder::CallState::waiting; };
  const auto is_direct = [](const recorder::CallSeen& call) { return call.queued == 0; };
  if (const auto found = std::ranges::find_if(recent, [&](const auto& call) { return waits(call) && is_direct(call); }); found != recent.end())
    return &*found;
  if (rank.record.program_waits_since != 0) {
    if (const auto found = std::ranges::find_if(recent, waits); found != recent.end()) return &*found;
  }
  const auto last = std::ranges::find_if(recent.rbegin(), recent.rend(), [&](const auto& call) { return !waits(call); });
  if (last != recent.rend()) return &*last;
  return recent.empty() ? nullptr : &recent.back();
}

std::uint64_t wait_under_way(const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  const auto* const call = call_shown(rank);
  if (call == nullptr || call->state != recorder::CallState::waiting || call->begun == 0) return 0;
  std::uint64_t since = call->begun;
  if (call->queued != 0) {
    if (record.program_waits_since == 0) return 0;
    since = std::max(since, record.program_waits_since);
  }
  return record.now - std::min(record.now, since);
}

std::string_view state_text(const RankFacts& rank) {
  if (rank.record.state == recorder::RankState::left) return "left";
  if (!rank.process.lives) return "ended";
  if (rank.process.is_stopped) return "stopped";
  if (rank.record.state == recorder::RankState::failed) return "failed";
  if (!rank.has_joined) return "joining";
  const auto* call = call_shown(rank);
  if (call == nullptr || call->is_over()) return "program";
  if (call->state == recorder::CallState::waiting && wait_under_way(rank) == 0) return "program";
  return state_name(call->state);
}

double waiting_share(const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  const std::uint64_t waited = record.waited + wait_under_way(rank);  // which is not yet among those that are over
  return record.now > record.began ? std::min(1.0, static_cast<double>(waited) / static_cast<double>(record.now - record.began)) : 0;
}

std::string system_wait_of(int pid) {
  const auto call = call_of(pid);
  if (!call) return {};
  const auto& arguments = call->arguments;
  if (call->number == SYS_futex) return futex_text(pid, *call);
  if (call->number == SYS_openat) return opened_text(pid, arguments[1]);
#if defined(SYS_open)
  if (call->number == SYS_open) return opened_text(pid, arguments[0]);
#endif
  if (call->number == SYS_fsync || call->number == SYS_fdatasync) return fmt::format("waits until {} is on the disk", file_text(pid, arguments[0]));
  for (const KnownCalls& known : known_calls()) {
    if (std::ranges::find(known.numbers, call->number) == known.numbers.end()) continue;
    return known.text + (known.names_file ? file_text(pid, arguments[0]) : "");
  }
  return {};
}

}  // namespace unisono::launcher
