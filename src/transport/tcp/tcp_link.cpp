// The calls of a link's users. link_polling.cpp moves the bytes.
#include "transport/tcp/tcp_link.h"

#include <utility>

#include <fmt/format.h>

#include "base/socket.h"
#include "store/authentication.h"

namespace unisono::transport {
namespace {

Link::Protection protection_of(const Link::Options& options, const Caller& caller) {
  if (caller.secret.empty()) return {.is_local = true};  // there is no other host
  return {.secret = options.token.empty() ? base::Secret() : store::derived_key(caller.secret.view(), "unisono link: codes of objects"),
          .is_encrypted = caller.tls != nullptr,
          .is_local = base::resolve(options.address, 0).front().is_loopback()};
}

/// A transfer that was done at once.
class DoneTask final : public Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
  bool detach() override { return true; }
};

/// A transfer of a link, for its caller.
class TransferTask final : public Task {
 public:
  TransferTask(std::shared_ptr<TcpLink> link, TransferPtr transfer, bool sends)
      : link_(std::move(link)), transfer_(std::move(transfer)), sends_(sends), turns_(link_->turns()) {}
  ~TransferTask() override {
    if (!detached_ && transfer_->pending()) link_->withdraw(transfer_);
  }
  TransferTask(const TransferTask&) = delete;
  TransferTask& operator=(const TransferTask&) = delete;

  // A poll moves the bytes of all peers. One that came since the last call here will do, so that a wave of many transfers costs one poll and not one
  // for each of them.
  bool advance() override {
    if (is_done()) return true;
    if (turns_ == link_->turns()) link_->poll();
    turns_ = link_->turns();
    return is_done();
  }
  std::vector<int> waiting_for() const override { return {transfer_->peer}; }
  bool sleep(std::chrono::nanoseconds at_most) override {
    return link_->sleep([this] { return !transfer_->pending(); }, at_most);
  }
  bool detach() override {
    if (sends_ && !std::exchange(detached_, true)) link_->detach(transfer_);
    return sends_;
  }

 private:
  bool is_done() const {
    switch (transfer_->state.load(std::memory_order_acquire)) {
      case Transfer::State::pending: return false;
      case Transfer::State::done: return true;
      case Transfer::State::failed: throw PeerFailed(transfer_->text, {}, transfer_->cause);
      case Transfer::State::wrong: throw ProtocolError(transfer_->text);
    }
    return false;
  }

  const std::shared_ptr<TcpLink> link_;
  const TransferPtr transfer_;
  const bool sends_;
  bool detached_ = false;
  std::uint64_t turns_;  ///< of the link, at the last look
};

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
      connections_(options_.hosts.size(), callers_poll_),
      departures_shown_(options_.hosts.size()) {
  if (met.connections.empty()) return;
  const std::lock_guard lock(mutex_);  // the connector's thread waits until all is made
  if (tree && met.acceptor) {
    demand_ =
        std::make_unique<OnDemand>(options_, std::move(*tree), connections_, std::move(met.caller), std::move(*met.acceptor), connector_owner());
  }
  connections_.begin(demand_.get());
  thread_ = std::make_unique<LinkThread>(connections_.epoll(), callers_poll_,
                                         LinkThread::Owner{.name = fmt::format("rank {}", options_.rank),
                                                           .has_waiter = options_.has_waiter,
                                                           .step = [this] { return step(); },
                                                           .before_waiting =
                                                               [this] {
                                                                 prepare_to_wait();
                                                                 after(true);
                                                               },
                                                           .failed = [this] { fail(); }});
  connections_.wake_by(thread_->notifier());
  connections_.wake_by(thread_->wakeup());
  for (auto& [rank, connection] : met.connections) {
    connections_.open(demand_ ? demand_->peer_of(rank) : connections_.add(rank, {}), std::move(connection));
  }
  // Bytes right behind a handshake were read with it, and wake nobody.
  for (Peer* const peer : connections_.open_ones()) connections_.pump(*peer, base::Clock::now());
  thread_->start();
}

TcpLink::~TcpLink() {
  if (!thread_ || !thread_->is_of_this_process()) return;
  if (demand_) demand_->stop();
  thread_->stop();
}

Connector::Owner TcpLink::connector_owner() {
  return {.wants =
              [this](int rank) {
                const std::lock_guard lock(mutex_);
                return demand_->wants(rank);
              },
          .accepts =
              [this](int rank) {
                const std::lock_guard lock(mutex_);
                return demand_->accepts(rank);
              },
          .connected = [this](int rank, Established connection) { change([&] { demand_->on_connected(rank, std::move(connection)); }); },
          .failed = [this](int rank, const std::string& why) { change([&] { demand_->on_failed(rank, why); }); },
          .broken =
              [this](const std::string& why) {
                try {
                  throw Error("no connections can be made any more: " + why);
                } catch (const Error&) {
                  fail();
                }
              }};
}

void TcpLink::change(const std::function<void()>& change) {
  {
    const std::lock_guard lock(mutex_);
    change();
    take_changes();
  }
  after(true);
}

void TcpLink::learn_addresses(const base::Deadline& deadline) {
  if (!demand_) return;
  RankAddresses addresses = exchange_addresses(*this, options_, demand_->tree(), demand_->addresses(), deadline,
                                               [this](int rank, std::uint64_t group, std::string_view text) {
                                                 const std::lock_guard lock(mutex_);
                                                 Peer& peer = demand_->peer_of(rank);
                                                 peer.notify(group, text);
                                                 connections_.watch(peer);
                                               });
  const std::lock_guard lock(mutex_);
  demand_->set_addresses(std::move(addresses));
}

// ---- messages and notices -------------------------------------------------------------------------------------

Peer& TcpLink::connected(int rank) {
  const bool is_one = demand_ ? is_peer(options_, rank) : connections_.find(rank) != nullptr;
  if (!is_one) throw InvalidArgument(fmt::format("rank {} has no connection with rank {}", options_.rank, rank));
  if (Peer* const peer = connections_.find(rank)) return *peer;
  return demand_->peer_of(rank);
}

void TcpLink::sent(Peer& peer) {
  if (demand_) demand_->need(peer);
  connections_.watch(peer);
}

std::unique_ptr<Task> TcpLink::task_of(TransferPtr transfer, bool sends) {
  if (transfer->state.load(std::memory_order_acquire) == Transfer::State::done) {
    if (!sends) found_without_poll();
    return std::make_unique<DoneTask>();
  }
  return std::make_unique<TransferTask>(shared_from_this(), std::move(transfer), sends);
}

// A caller whose data is always there already never polls. If the thread were not told of it, each message would wake the thread, as a rule on the
// caller's processor, and so the data would always be there already.
void TcpLink::found_without_poll() {
  if (thread_ && !callers_poll_.load(std::memory_order_relaxed)) thread_->count_poll();
}

std::unique_ptr<Task> TcpLink::send(const void* data, std::size_t bytes, int rank, ChannelKey channel) {
  // A send only reads the data.
  auto transfer = std::make_shared<Transfer>(static_cast<std::byte*>(const_cast<void*>(data)), bytes, rank, channel);
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = connected(rank);
    peer.send(transfer);
    sent(peer);
  }
  return task_of(std::move(transfer), true);
}

std::unique_ptr<Task> TcpLink::recv(void* data, std::size_t bytes, int rank, ChannelKey channel) {
  auto transfer = std::make_shared<Transfer>(static_cast<std::byte*>(data), bytes, rank, channel);
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = connected(rank);
    peer.recv(transfer);
    if (demand_) demand_->await(peer);
    connections_.watch(peer);
  }
  return task_of(std::move(transfer), false);
}

void TcpLink::withdraw(const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *connections_.find(transfer->peer);
  peer.withdraw(transfer);
  connections_.watch(peer);
}

void TcpLink::detach(const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  transfer->detach();
}

void TcpLink::end(std::uint64_t group) {
  {
    const std::lock_guard lock(mutex_);
    connections_.shared().groups_over.insert(group);
    connections_.for_each([&](Peer& peer) {
      peer.end_group(group);
      connections_.watch(peer);
    });
  }
  notices_.end_group(group);
  after(true);
}

void TcpLink::notify(int rank, std::uint64_t group, std::string_view text, std::span<const std::byte> data) {
  const std::size_t size = text.size() + data.size();
  if (size > longest_notice) throw InvalidArgument(fmt::format("a notice of {} bytes: at most {} are allowed", size, longest_notice));
  const std::lock_guard lock(mutex_);
  Peer& peer = connected(rank);
  peer.notify(group, text, data);
  sent(peer);
}

void TcpLink::announce(std::uint64_t group, std::span<const int> members, std::string_view text, Announcement what) {
  const std::lock_guard lock(mutex_);
  if (demand_ && (what != Announcement::call || members.size() > options_.most_eager)) return demand_->announce(group, members, text, what);
  for (const int rank : members) {
    Peer& peer = connected(rank);
    peer.notify(group, text);
    sent(peer);
  }
}

void TcpLink::post(int rank, std::uint64_t group, std::span<const std::byte> head, std::span<const std::byte> data) {
  const std::size_t size = head.size() + data.size();
  if (size > longest_call) throw InvalidArgument(fmt::format("a message of {} bytes about a call: at most {} are allowed", size, longest_call));
  const std::lock_guard lock(mutex_);
  Peer& peer = connected(rank);
  const FrameHead frame{.kind = FrameKind::call, .length = static_cast<std::uint32_t>(size), .group = group};
  if (PeerConnection* const open = peer.open_connection()) open->writer().write(open->socket(), frame, head, data);
  else peer.post(frame, head, data);
  sent(peer);
}

bool TcpLink::take(int rank, std::uint64_t group, std::string& into) {
  const std::lock_guard lock(mutex_);
  Peer& peer = connected(rank);
  if (peer.take_call(group, into)) {
    found_without_poll();
    return true;
  }
  if (demand_) demand_->await(peer);
  return false;
}

// ---- what is known of peers -----------------------------------------------------------------------------------

std::optional<Link::Loss> TcpLink::lost() const {
  if (!connections_.has_loss()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return connections_.loss();
}

bool TcpLink::is_gone(int rank) const {
  const std::lock_guard lock(mutex_);
  const Peer* const peer = connections_.find(rank);
  return shows_departure(rank) || (peer == nullptr ? is_absent(rank, Absence::lost) : peer->loss().has_value());
}

bool TcpLink::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return shows_departure(rank);
}

// A rank that leaves says what it left behind in the notices before its goodbye. Who sees the one without the others takes it for missing.
bool TcpLink::shows_departure(int rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= departures_shown_.size()) return false;
  if (departures_shown_[static_cast<std::size_t>(rank)]) return true;
  const Peer* const peer = connections_.find(rank);
  const bool has_left = peer == nullptr ? is_absent(rank, Absence::left) : peer->has_left();
  if (!has_left || deliveries_ > 0 || !connections_.shared().notices.empty()) return false;
  departures_shown_[static_cast<std::size_t>(rank)] = true;
  return true;
}

std::chrono::milliseconds TcpLink::silence_of(int rank) const {
  const std::lock_guard lock(mutex_);
  return connections_.silence_of(rank);
}

std::string TcpLink::address_of(int rank) const {
  const std::lock_guard lock(mutex_);
  if (!is_peer(options_, rank)) return {};
  if (const Peer* const peer = connections_.find(rank)) return peer->connection().address();
  return demand_ ? demand_->address_of(rank) : std::string();
}

std::size_t TcpLink::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.open_count();
}

}  // namespace unisono::transport
