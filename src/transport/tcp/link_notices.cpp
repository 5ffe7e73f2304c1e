// The notices of a TcpLink: short texts to the same group on another host, which its listener there gets. And the messages about a group's calls.

#include <utility>

#include "transport/tcp/tcp_link.h"

#include <fmt/format.h>

namespace unisono::transport {
namespace {

constexpr std::uint32_t looks_per_poll = 16;
constexpr std::size_t most_kept = std::size_t{16} << 20;  ///< bytes of notices for groups without a listener

}  // namespace

void TcpLink::notify(int rank, std::uint64_t group, std::string_view text) {
  if (text.size() > longest_notice) throw InvalidArgument(fmt::format("a notice of {} bytes: at most {} are allowed", text.size(), longest_notice));
  const std::lock_guard lock(mutex_);
  Peer& peer = connected(rank);
  peer.notify(group, text);
  need(peer);
  watch(peer);
}

void TcpLink::post(int rank, std::uint64_t group, std::span<const std::byte> head, std::span<const std::byte> data) {
  const std::size_t size = head.size() + data.size();
  if (size > longest_call) throw InvalidArgument(fmt::format("a message of {} bytes about a call: at most {} are allowed", size, longest_call));
  const std::lock_guard lock(mutex_);
  Peer& peer = connected(rank);
  const FrameHead frame{.kind = FrameKind::call, .length = static_cast<std::uint32_t>(size), .group = group};
  if (FrameWriter* const writer = peer.writer()) return writer->write(peer.connection(), frame, head, data), watch(peer);
  peer.post_later(frame, head, data);
  need(peer);
}

bool TcpLink::take(int rank, std::uint64_t group, std::string& into) {
  const std::lock_guard lock(mutex_);
  Peer& peer = connected(rank);
  if (peer.take(group, into)) return true;
  await(peer);
  return false;
}

void TcpLink::look(int rank) {
  // The other connections are read less often: bytes that wait to be written, notices, peers that are gone.
  if (rank < 0 || ++looks_ % looks_per_poll == 0) return poll();
  if (!thread_.joinable()) return;
  count_poll();
  bool stirred = false;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    pump(connected(rank), base::Clock::now());
    stirred = std::exchange(shared_.stirred, false);
  }
  after(stirred);
}

void TcpLink::listen(std::uint64_t group, Listener listener) {
  const std::lock_guard lock(delivery_);
  if (!listener) {
    listeners_.erase(group);
    return;
  }
  listeners_[group] = std::make_shared<Listener>(std::move(listener));
  const auto kept = kept_.find(group);
  if (kept == kept_.end()) return;
  std::vector<Notice> notices = std::move(kept->second);
  kept_.erase(kept);
  for (Notice& notice : notices) {
    kept_bytes_ -= notice.text.size() + sizeof(Notice);
    deliver(notice);
  }
}

// Delivers notices from one thread at a time, which keeps their order. A second thread leaves them to the first, which looks again.
void TcpLink::hand_on() {
  while (has_notices_.load()) {
    const std::unique_lock delivering(delivery_, std::try_to_lock);
    if (!delivering) return;
    std::vector<Notice> notices;
    {
      const std::lock_guard lock(mutex_);
      notices.swap(shared_.notices);
      has_notices_.store(false);
      ++deliveries_;
    }
    struct Delivered {
      TcpLink& link;
      ~Delivered() {
        const std::lock_guard lock(link.mutex_);
        --link.deliveries_;
      }
    } const delivered{*this};
    for (Notice& notice : notices) deliver(notice);
  }
}

void TcpLink::deliver(Notice& notice) {
  if (const auto found = listeners_.find(notice.group); found != listeners_.end()) {
    const std::shared_ptr<Listener> listener = found->second;  // it may end itself
    return (*listener)(notice.peer, notice.text);
  }
  if (quiet_.contains(notice.group)) return;
  const std::size_t bytes = notice.text.size() + sizeof(Notice);
  if (kept_bytes_ + bytes > most_kept) {
    const std::lock_guard lock(mutex_);
    Peer* const peer = find(notice.peer);
    if (peer != nullptr && peer->is_open())
      note(peer->lose(PeerFailed::disconnected, fmt::format("{} sends notices that nobody waits for", peer->name())));
    return;
  }
  kept_bytes_ += bytes;
  kept_[notice.group].push_back(std::move(notice));
}

}  // namespace unisono::transport
