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
#include "transport/tcp/ticket.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t few_peers = 2;                             ///< up to so many are read from without asking epoll first
constexpr std::chrono::milliseconds delivery_look_period = 5ms;  ///< the arrival of acknowledgements wakes no thread

}  // namespace

std::shared_ptr<Link> Link::connect(Options options) {
  std::map<int, Established> met = meet(options);
  return std::make_shared<TcpLink>(std::move(options), std::move(met));
}

TcpLink::TcpLink(Options options, std::map<int, Established> met)
    : options_(std::move(options)), peers_(options_.hosts.size()), last_tick_(base::Clock::now()), pid_(::getpid()) {
  if (met.empty()) return;
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
  for (auto& [rank, connection] : met) {
    auto& peer = peers_.at(static_cast<std::size_t>(rank));
    peer = std::make_unique<Peer>(rank, std::move(connection), shared_);
    peer->watched_events = EPOLLIN;
    add(peer->fd(), static_cast<std::uint32_t>(rank));
    open_.push_back(peer.get());
  }
  // Bytes right behind a handshake were read with it, and wake nobody.
  for (Peer* const peer : open_) pump(*peer, last_tick_);
  thread_ = base::Thread("the connections", [this] { run(); });
}

TcpLink::~TcpLink() { stop_thread(); }

// ---- messages -------------------------------------------------------------------------------------------------

Peer* TcpLink::find(int rank) const {
  return rank < 0 || static_cast<std::size_t>(rank) >= peers_.size() ? nullptr : peers_[static_cast<std::size_t>(rank)].get();
}

Peer& TcpLink::connected(int rank) const {
  Peer* const peer = find(rank);
  if (peer == nullptr) throw InvalidArgument(fmt::format("rank {} has no connection with rank {}", options_.rank, rank));
  return *peer;
}

std::unique_ptr<Task> TcpLink::task_of(TransferPtr transfer, bool sends) {
  if (transfer->state.load(std::memory_order_acquire) == Transfer::State::done) return std::make_unique<DoneTask>();
  return std::make_unique<Ticket>(shared_from_this(), std::move(transfer), sends);
}

std::unique_ptr<Task> TcpLink::send(const void* data, std::size_t bytes, int rank, ChannelKey channel) {
  Peer& peer = connected(rank);
  // A send only reads the data.
  auto transfer = std::make_shared<Transfer>(static_cast<std::byte*>(const_cast<void*>(data)), bytes, rank, channel);
  {
    const std::lock_guard lock(mutex_);
    peer.send(transfer);
    watch(peer);
  }
  return task_of(std::move(transfer), true);
}

std::unique_ptr<Task> TcpLink::recv(void* data, std::size_t bytes, int rank, ChannelKey channel) {
  Peer& peer = connected(rank);
  auto transfer = std::make_shared<Transfer>(static_cast<std::byte*>(data), bytes, rank, channel);
  {
    const std::lock_guard lock(mutex_);
    peer.recv(transfer);
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
  if (!loss_) loss_ = std::move(loss);
  any_loss_.store(true, std::memory_order_release);
  shared_.stirred = true;
}

void TcpLink::pump(Peer& peer, Time now) {
  if (auto loss = peer.pump(now)) note(std::move(*loss));
  watch(peer);
  if (!shared_.notices.empty()) has_notices_.store(true);
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

// ---- state of the peers ---------------------------------------------------------------------------------------

std::optional<Link::Loss> TcpLink::lost() const {
  if (!any_loss_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return loss_;
}

bool TcpLink::is_gone(int rank) const {
  const Peer* const peer = find(rank);
  if (peer == nullptr) return false;
  const std::lock_guard lock(mutex_);
  return peer->loss().has_value() || peer->has_left();
}

bool TcpLink::has_left(int rank) const {
  const Peer* const peer = find(rank);
  if (peer == nullptr) return false;
  const std::lock_guard lock(mutex_);
  return peer->has_left();
}

std::string TcpLink::address_of(int rank) const {
  const Peer* const peer = find(rank);
  return peer == nullptr ? std::string() : peer->address();
}

// Waits until `done` returns true, which is asked under the mutex, after everything that can be moved has been.
bool TcpLink::wait_until(const base::Deadline& deadline, const std::function<bool()>& done) {
  for (;;) {
    bool stirred = false;
    bool enough = false;
    {
      const std::lock_guard lock(mutex_);
      pump_all();
      stirred = std::exchange(shared_.stirred, false);
      enough = done();
    }
    after(stirred);
    if (enough || deadline.passed()) return enough;
    pollfd entry{epoll_.get(), POLLIN, 0};
    ::poll(&entry, 1, deadline.poll_timeout(static_cast<int>(delivery_look_period.count())));
  }
}

void TcpLink::goodbye(std::chrono::milliseconds at_most) {
  if (!thread_.joinable() || ::getpid() != pid_) return;
  const base::Deadline deadline(at_most);
  const auto none = [&](auto&& condition) {
    return std::none_of(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer && condition(*peer); });
  };
  wait_until(deadline, [&] { return none([](const Peer& peer) { return peer.owes(); }); });
  {
    const std::lock_guard lock(mutex_);
    for (const auto& peer : peers_) {
      if (!peer) continue;
      peer->say_goodbye();
      watch(*peer);
    }
  }
  wait_until(deadline, [&] { return none([](Peer& peer) { return !peer.has_delivered(); }); });
}

}  // namespace unisono::transport
