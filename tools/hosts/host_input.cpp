#include "hosts/host_input.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/socket.h"

namespace unisono::tools {
namespace {

using launcher::StdinTarget;

/// So many bytes may be on their way to a host.
constexpr std::size_t most_on_the_way = 64u << 10;

// Everything goes through one pipe; the launchers know the rank.
StdinTarget to_the_pipe(const StdinTarget& target) {
  return {.kind = target.kind == StdinTarget::Kind::none ? StdinTarget::Kind::none : StdinTarget::Kind::all};
}

}  // namespace

HostInput::HostInput(StdinTarget target, const std::vector<HostEntry>& hosts) : pump_(to_the_pipe(target)) {
  int first = 0;
  for (const HostEntry& host : hosts) {
    const bool has_rank = target.rank >= first && target.rank < first + host.slots;
    hosts_.push_back({.gets_input = target.kind == StdinTarget::Kind::all || (target.kind == StdinTarget::Kind::one && has_rank)});
    first += host.slots;
  }
}

void HostInput::begin() {
  pump_.begin_attempt();
  input_ = pump_.open(0);
  base::set_non_blocking(input_.get());
}

bool HostInput::may_send() const {
  return std::ranges::all_of(hosts_, [](const Host& host) { return host.on_the_way < most_on_the_way || host.has_ended; });
}

void HostInput::pass(const Send& send) {
  if (!input_ || !may_send()) return;
  std::array<char, most_on_the_way> bytes;
  const auto got = ::read(input_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto count = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (host.has_ended) continue;
    if (count == 0) {
      send(i, FrameKind::input_end, {});
    } else if (host.gets_input) {
      host.on_the_way += count;
      send(i, FrameKind::input, {bytes.data(), count});
    }
  }
  if (count == 0) input_.reset();
}

void HostInput::wait_for(launcher::PollSet& set) {
  if (!input_) return;
  pump_.wait_for(set);
  if (may_send()) set.add(input_.get(), POLLIN, [](short) {});
}

void HostInput::note_taken(std::size_t host, std::size_t bytes) { hosts_[host].on_the_way -= std::min(hosts_[host].on_the_way, bytes); }

}  // namespace unisono::tools
