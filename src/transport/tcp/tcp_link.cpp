// The calls of a link's users, and the transfer of bytes and notices. Its thread is in link_thread.cpp.
#include "transport/tcp/tcp_link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/socket.h"
#include "store/authentication.h"
#include "transport/tcp/ticket.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t few_peers = 2;  ///< up to so many are read from without asking epoll first

Link::Protection protection_of(const Link::Options& options, const Caller& caller) {
  if (caller.secret.empty()) return {.is_local = true};  // there is no other host
  return {.secret = options.token.empty() ? base::Secret() : store::derived_key(caller.secret.view(), "unisono link: codes of objects"),
          .is_encrypted = caller.tls != nullptr,
          .is_local = base::resolve(options.address, 0).front().is_loopback()};
}

}  // namespace

std::shared_ptr<Link> Link::connect(Options options) {
  std::optional<WatchTree> tree;
  if (connects_on_demand(options)) tree.emplace(options.hosts);
  const base::Deadline deadline(options.timeout);
  MeetingResult met = meet(options, tree ? &*tree : nullptr);
  auto link = std::make_shared<TcpLink>(std::move(options), std::move(met), std::move(tree));
  link->learn_addresses(deadline);
  return link;
}

TcpLink::TcpLink(Options options, MeetingResult met, std::optional<WatchTree> tree)
    : options_(std::move(options)),
      protection_(protection_of(options_, met.caller)),
      departures_shown_(options_.hosts.size()),
      peers_(options_.hosts.size()),
      last_tick_(base::Clock::now()),
      pid_(::getpid()) {
  if (met.connections.empty()) return;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  notifier_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  kick_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  shared_.epoll = epoll_.get();
  const auto add = [&](int fd, std::uint32_t which) {
    epoll_event event{EPOLLIN, {.u32 = which}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw Error(fmt::format("epoll: {}", base::error_text(errno)));
  };
  add(notifier_.get(), static_cast<std::uint32_t>(peers_.size()));
  add(kick_.get(), static_cast<std::uint32_t>(peers_.size()));
  if (tree && met.acceptor) begin_on_demand(std::move(*tree), std::move(met.caller), std::move(*met.acceptor));
  const std::lock_guard lock(mutex_);
  for (auto& [rank, connection] : met.connections) open(peer_of(rank), std::move(connection));
  // Bytes right behind a handshake were read with it, and wake nobody.
  for (Peer* const peer : open_) pump(*peer, last_tick_);
  thread_ = base::Thread("the connections", [this] { run(); });
}

TcpLink::~TcpLink() {
  if (demand_ && ::getpid() == pid_) demand_->connector->stop();
  stop_thread();
}

void TcpLink::open(Peer& peer, Established connection) {
  peer.connect(std::move(connection));
  peer.watched_events = EPOLLIN;
  epoll_event event{EPOLLIN, {.u32 = static_cast<std::uint32_t>(peer.rank())}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peer.fd(), &event) != 0) throw Error(fmt::format("epoll: {}", base::error_text(errno)));
  open_.push_back(&peer);
  for (Peer* const each : open_) arm(*each);  // a few peers are not watched, more of them are
}

// ---- messages -------------------------------------------------------------------------------------------------

Peer* TcpLink::find(int rank) const {
  return rank < 0 || static_cast<std::size_t>(rank) >= peers_.size() ? nullptr : peers_[static_cast<std::size_t>(rank)].get();
}

Peer& TcpLink::peer_of(int rank) {
  auto& peer = peers_.at(static_cast<std::size_t>(rank));
  if (!peer) peer = std::make_unique<Peer>(rank, address_known_of(rank), shared_);
  return *peer;
}

Peer& TcpLink::connected(int rank) {
  const bool is_one = demand_ ? is_peer(options_, rank) : find(rank) != nullptr;
  if (!is_one) throw InvalidArgument(fmt::format("rank {} has no connection with rank {}", options_.rank, rank));
  if (Peer* const peer = find(rank)) return *peer;
  return new_peer(rank);
}

std::unique_ptr<Task> TcpLink::task_of(TransferPtr transfer, bool sends) {
  if (transfer->state.load(std::memory_order_acquire) == Transfer::State::done) return std::make_unique<DoneTask>();
  return std::make_unique<Ticket>(shared_from_this(), std::move(transfer), sends);
}

std::unique_ptr<Task> TcpLink::send(const void* data, std::size_t bytes, int rank, ChannelKey channel) {
  // A send only reads the data.
  auto transfer = std::make_shared<Transfer>(static_cast<std::byte*>(const_cast<void*>(data)), bytes, rank, channel);
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = connected(rank);
    peer.send(transfer);
    need(peer);
    watch(peer);
  }
  return task_of(std::move(transfer), true);
}

std::unique_ptr<Task> TcpLink::recv(void* data, std::size_t bytes, int rank, ChannelKey channel) {
  auto transfer = std::make_shared<Transfer>(static_cast<std::byte*>(data), bytes, rank, channel);
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = connected(rank);
    peer.recv(transfer);
    await(peer);
    watch(peer);
  }
  return task_of(std::move(transfer), false);
}

void TcpLink::withdraw(const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *find(transfer->peer);
  peer.withdraw(transfer);
  watch(peer);
}

void TcpLink::detach(const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  Peer::detach(*transfer);
}

void TcpLink::end(std::uint64_t group) {
  {
    const std::lock_guard lock(mutex_);
    shared_.groups_over.insert(group);
    for (const auto& peer : peers_) {
      if (!peer) continue;
      peer->end_group(group);
      watch(*peer);
    }
  }
  {
    const std::lock_guard lock(delivery_);
    if (const auto kept = kept_.find(group); kept != kept_.end()) {
      for (const Notice& notice : kept->second) kept_bytes_ -= notice.text.size() + sizeof(Notice);
      kept_.erase(kept);
    }
    quiet_.insert(group);
  }
  after(true);
}

// ---- transfer of bytes ----------------------------------------------------------------------------------------

void TcpLink::watch(Peer& peer) {
  if (hands_off_.load(std::memory_order_relaxed) && open_.size() <= few_peers) return;  // no thread waits for the sockets
  arm(peer);
}

void TcpLink::arm(Peer& peer) {
  if (!peer.is_open()) return;
  const std::uint32_t events = EPOLLIN | (peer.wants_to_write() ? EPOLLOUT : 0U);
  if (events == peer.watched_events) return;
  peer.watched_events = events;
  epoll_event event{events, {.u32 = static_cast<std::uint32_t>(peer.rank())}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.fd(), &event);
}

void TcpLink::note(Loss loss) {
  if (demand_) hear({.rank = loss.peer, .lost = loss.cause, .text = loss.text});
  if (!loss_) loss_ = std::move(loss);
  any_loss_.store(true, std::memory_order_release);
  shared_.stirred = true;
}

void TcpLink::pump(Peer& peer, Time now) {
  if (auto loss = peer.pump(now)) note(std::move(*loss));
  watch(peer);
  if (!shared_.notices.empty()) has_notices_.store(true);
  if (demand_) return hand_words_on();
  shared_.left.clear();
  if (std::exchange(shared_.words, {}).empty() || !peer.is_open()) return;
  note(peer.lose(PeerFailed::disconnected, fmt::format("{} tells of other ranks, which tell of themselves", peer.name())));
}

void TcpLink::pump_all() {
  const auto now = base::Clock::now();
  if (open_.size() <= few_peers) {
    for (Peer* const peer : open_) pump(*peer, now);
  } else {
    std::array<epoll_event, 64> events{};
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < n; ++i) {
      if (Peer* const peer = find(static_cast<int>(events[static_cast<std::size_t>(i)].data.u32))) pump(*peer, now);
    }
    for (Peer* const peer : open_) {  // no event tells of bytes that have been read already
      if (peer->has_unread()) pump(*peer, now);
    }
  }
  std::erase_if(open_, [](const Peer* peer) { return !peer->is_open(); });
  turns_.fetch_add(1, std::memory_order_relaxed);
}

void TcpLink::after(bool stirred) {
  hand_on();
  if (!stirred) return;
  if (options_.notify) options_.notify();
  if (sleeps_here_.load()) ::eventfd_write(kick_.get(), 1);
}

// Tells the link's thread that a caller moves the bytes, or wakes it for a caller that sleeps elsewhere.
void TcpLink::count_poll() {
  if (!someone_sleeps()) {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else if (!sleeps_here_.load() && hands_off_.exchange(false)) {
    ::eventfd_write(notifier_.get(), 1);
  }
}

void TcpLink::poll() noexcept {
  if (!thread_.joinable()) return;
  count_poll();
  bool stirred = false;
  try {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock) return;
      pump_all();
      stirred = std::exchange(shared_.stirred, false);
    }
    after(stirred);
  } catch (...) {
    fail();
  }
}

// No event tells of bytes that have been read already, or of a connection that has become writable without being watched for that.
void TcpLink::prepare_to_sleep() {
  const std::lock_guard lock(mutex_);
  for (Peer* const peer : open_) {
    while (peer->has_unread()) pump(*peer, base::Clock::now());
    arm(*peer);
  }
}

bool TcpLink::sleep(const std::function<bool()>& is_over, std::chrono::nanoseconds at_most) {
  if (!thread_.joinable()) return false;
  {
    const std::unique_lock sleeper(sleeper_, std::try_to_lock);
    if (!sleeper) return false;
    prepare_to_sleep();
    sleeps_here_.store(true);
    if (!is_over()) {
      epoll_event event{};
      const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
      ::epoll_wait(epoll_.get(), &event, 1, static_cast<int>(milliseconds));
    }
    sleeps_here_.store(false);
    eventfd_t kicks = 0;
    ::eventfd_read(kick_.get(), &kicks);
  }
  poll();
  return true;
}

}  // namespace unisono::transport
