#include "coordination/peers.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/socket.h"

namespace unisono::coordination {
namespace {

using engines::Presence;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds time_for_launcher = 300ms;  // to record how a process ended
constexpr std::chrono::milliseconds usual_state_check_period = 1s;
constexpr std::chrono::milliseconds state_check_period_of_rank = 50ms;  // where many ranks wait for many, each look at a state takes 20 us
constexpr std::chrono::milliseconds latest_suspicion = 5s;

std::string seconds(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000.0 << " s";
  return text.str();
}

Ending from_wait_status(int status) { return WIFSIGNALED(status) ? killed_by(WTERMSIG(status)) : exited_with(WEXITSTATUS(status)); }

// The kernel still shows the wait status of a process that nobody has waited for (the last number of the line).
std::optional<Ending> from_zombie(pid_t pid) {
  const std::string text = base::stat_after_name(pid);
  if (text.empty() || text[0] != 'Z') return std::nullopt;
  const auto last_space = text.find_last_of(' ');
  if (last_space == std::string::npos) return std::nullopt;
  return from_wait_status(std::atoi(text.c_str() + last_space + 1));
}

// Linux 6.15 and newer return through the handle (PIDFD_GET_INFO) the wait status of a process that has been waited for; older ones refuse.
std::optional<Ending> from_handle(int handle) {
  constexpr std::uint64_t has_wait_status = 1U << 3;  // PIDFD_INFO_EXIT
  struct Info {
    std::uint64_t mask = has_wait_status;
    std::uint64_t cgroup = 0;
    std::uint32_t ids[11]{};
    std::int32_t wait_status = 0;
  } info;
  static_assert(sizeof(Info) == 64);
  constexpr auto get_info = _IOWR(0xFF, 11, Info);
  if (::ioctl(handle, get_info, &info) != 0 || (info.mask & has_wait_status) == 0) return std::nullopt;
  return from_wait_status(info.wait_status);
}

}  // namespace

Peers::Peers(std::shared_ptr<engines::HostMemory> memory, int rank, std::vector<int> world_ranks, RecordedEndings recorded)
    : memory_(std::move(memory)),
      rank_(rank),
      world_ranks_(std::move(world_ranks)),
      recorded_(std::move(recorded)),
      peers_(static_cast<std::size_t>(memory_->ranks())) {
  for (int r = 0; r < memory_->ranks(); ++r) {
    if (r != rank_) others_.push_back(r);
  }
}

std::optional<Leaving> Peers::left(int rank) const {
  constexpr auto left = static_cast<std::uint32_t>(Presence::left);
  const std::uint32_t presence = memory_->process(rank).presence.load(std::memory_order_acquire);
  if (presence < left) return std::nullopt;
  return static_cast<Leaving>(std::min(presence - left, static_cast<std::uint32_t>(last_leaving)));  // another process has written it
}

std::string Peers::name(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return base::name_rank(memory_->name_of(rank), index < world_ranks_.size() ? world_ranks_[index] : -1);
}

void Peers::arrive(pid_t pid) {
  engines::HostMember& self = memory_->process(rank_);
  self.pid.store(pid, std::memory_order_relaxed);
  self.processors = base::own_processors();
  self.program = base::program_of(base::stat_after_name(pid));
  self.presence.store(static_cast<std::uint32_t>(Presence::present), std::memory_order_release);
}

void Peers::watch() {
  for (int r = 0; r < memory_->ranks(); ++r) {
    const pid_t pid = process_of(r);
    if (r == rank_ || pid == 0) continue;
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    peer.handle = base::handle_on_process(pid);
    if (!peer.handle && errno != ESRCH) {
      const int error = errno;
      throw BackendUnavailable(fmt::format("cannot watch rank {} (pid {}): pidfd_open: {}", memory_->name_of(r), pid, base::error_text(error)),
                               {.hint = base::remedy_of_refusal("pidfd_open", error)});
    }
    if (!peer.handle && left(r)) continue;  // it formed the group, and left before this rank looked
    if (!peer.handle)
      throw PeerFailed("rank " + std::to_string(memory_->name_of(r)) + " ended while the group was formed", {.culprit = memory_->name_of(r)},
                       PeerFailed::Cause::exited);
  }
}

void Peers::leave(Leaving how) {
  memory_->process(rank_).presence.store(static_cast<std::uint32_t>(Presence::left) + static_cast<std::uint32_t>(how), std::memory_order_seq_cst);
  for (int r = 0; r < memory_->ranks(); ++r) {
    if (r != rank_) memory_->notifier(r).notify();
  }
}

std::vector<int> Peers::gone() {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int r = 0; r < memory_->ranks(); ++r) {
    pollfd entry{peers_[static_cast<std::size_t>(r)].descriptor(), POLLIN, 0};
    if (left(r) || ::poll(&entry, 1, 0) > 0) ranks.push_back(r);
  }
  return ranks;
}

int Peers::processors() const {
  base::Processors all;
  for (int r = 0; r < memory_->ranks(); ++r) all.add(memory_->process(r).processors);
  return all.count();
}

std::optional<Ending> Peers::ending_of(int rank) const {
  if (const auto ending = from_zombie(process_of(rank))) return ending;
  if (const auto ending = from_handle(peers_[static_cast<std::size_t>(rank)].descriptor())) return ending;
  return recorded_.of(rank, time_for_launcher);  // the launcher saw the process end
}

std::optional<Failure> Peers::dead(std::span<const int> ranks) {
  std::vector<pollfd> entries;
  for (const int r : ranks) entries.push_back({peers_[static_cast<std::size_t>(r)].descriptor(), POLLIN, 0});
  if (entries.empty() || ::poll(entries.data(), entries.size(), 0) <= 0) return std::nullopt;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int r = ranks[i];
    if ((entries[i].revents & POLLIN) == 0) continue;
    if (const auto how = left(r)) {
      if (!may_be_an_end(*how)) peers_[static_cast<std::size_t>(r)].handle.reset();
      continue;
    }
    return failure_of_end(r, ending_of(r).value_or(Ending{PeerFailed::Cause::exited, "is gone"}));
  }
  return std::nullopt;
}

/// The process lives, and the library in it is gone.
std::optional<Failure> Peers::replaced(int rank, std::uint64_t program) const {
  const std::uint64_t joined = memory_->process(rank).program;
  if (program == 0 || joined == 0 || program == joined) return std::nullopt;
  const int name = memory_->name_of(rank);
  const pid_t pid = process_of(rank);
  return Failure{.cause = PeerFailed::Cause::exited,
                 .culprit = name,
                 .message = "rank " + std::to_string(name) + " (pid " + std::to_string(pid) + ") has become another program (exec) before finalize"};
}

std::optional<Failure> Peers::stopped(std::span<const int> waiting_for, std::chrono::milliseconds silent_after) {
  const auto now = base::Clock::now();
  if (now < next_state_check_) return std::nullopt;
  const auto suspect_after = std::min(latest_suspicion, silent_after / 2);
  const auto period = std::max(usual_state_check_period, static_cast<int>(waiting_for.size()) * state_check_period_of_rank);
  next_state_check_ = now + std::min(period, silent_after / 8);
  for (const int r : waiting_for) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (!peer.handle || left(r)) continue;
    const pid_t pid = process_of(r);
    const std::string stat = base::stat_after_name(pid);
    if (auto failure = replaced(r, base::program_of(stat))) return failure;
    if (stat.empty() || (stat[0] != 'T' && stat[0] != 't')) {
      peer.stopped_since.reset();
      peer.warned = false;
      continue;
    }
    if (!peer.stopped_since) peer.stopped_since = now;
    const auto since = now - *peer.stopped_since;
    if (since >= suspect_after && !peer.warned) {
      peer.warned = true;
      base::warn("rank " + std::to_string(memory_->name_of(r)) + " (pid " + std::to_string(pid) + ") is stopped; it counts as failed after " +
                 seconds(silent_after) + ", or towards the end of a call's time");
    }
    if (since >= silent_after) {
      return Failure{.cause = PeerFailed::Cause::silent,
                     .culprit = memory_->name_of(r),
                     .message = fmt::format("{} (pid {}) has been stopped for {}", name(r), pid, seconds(silent_after))};
    }
  }
  return std::nullopt;
}

Failure Peers::failure_of_end(int rank, const Ending& ending) const {
  const pid_t pid = process_of(rank);
  return failure_of_ending(memory_->name_of(rank), fmt::format("{} (pid {})", name(rank), pid), ending);
}

std::optional<Failure> Peers::failure_of_left(int rank) {
  const Leaving how = left(rank).value_or(Leaving::in_order);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (may_be_an_end(how) && peer.handle) {
    pollfd entry{peer.descriptor(), POLLIN, 0};
    const bool has_ended = ::poll(&entry, 1, 0) > 0;
    const auto ending = has_ended ? ending_of(rank) : std::nullopt;
    if (ending) return failure_of_end(rank, *ending);
    const auto now = base::Clock::now();
    if (!peer.left_since) peer.left_since = now;
    if (!has_ended && now - *peer.left_since < time_to_end(how)) return std::nullopt;
  }
  return failure_of_leaving(memory_->name_of(rank), name(rank), how);
}

std::optional<Failure> Peers::look(std::span<const int> waiting_for, std::chrono::milliseconds patience) {
  const std::lock_guard lock(mutex_);  // a blocking call and the progress thread may both look
  if (auto failure = dead(others_)) return failure;
  return stopped(waiting_for, patience);
}

std::optional<Failure> Peers::look_at(std::span<const int> ranks) {
  const std::lock_guard lock(mutex_);
  if (auto failure = dead(ranks)) return failure;
  return stopped(ranks, detail::silence_limit());
}

}  // namespace unisono::coordination
