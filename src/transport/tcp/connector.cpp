#include "transport/tcp/connector.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/log.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using base::Clock;
using namespace std::chrono_literals;

/// Held while handshakes go on. A process may end without having ended its links: OpenSSL frees what handshakes use then, and so they must be over.
std::mutex& handshakes() {
  static std::mutex& mutex = *new std::mutex;  // never destroyed: threads outlive static objects
  return mutex;
}

std::atomic<pid_t> process_of_handshakes{0};

// What is registered last runs first, and OpenSSL has been used by then.
void end_handshakes_at_exit() {
  process_of_handshakes.store(::getpid());
  [[maybe_unused]] static const int once = std::atexit([] {
    if (::getpid() == process_of_handshakes.load()) handshakes().lock();  // a child of fork has no such thread, and the mutex as it was
  });
}

}  // namespace

Connector::Connector(Caller caller, Acceptor acceptor, std::vector<int> peers, std::chrono::milliseconds timeout, Owner owner)
    : caller_(std::move(caller)),
      acceptor_(std::move(acceptor)),
      timeout_(timeout),
      owner_(std::move(owner)),
      notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  end_handshakes_at_exit();
  acceptor_.admit(std::move(peers), [this](int rank) { return wants(rank); });
  thread_ = base::Thread("the making of connections", [this] { run(); });
}

Connector::~Connector() { stop(); }

void Connector::stop() noexcept {
  if (stop_.exchange(true)) return;
  wake();
  thread_.join();
}

void Connector::wake() const { ::eventfd_write(notifier_.get(), 1); }

void Connector::dial(int rank, const base::SocketAddress& address, Patience patience) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({rank, false, address, patience});
  }
  wake();
}

void Connector::forget(int rank) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({rank, true, {}, Patience::none});
  }
  wake();
}

void Connector::run() {
  try {
    base::set_log_rank(fmt::format("rank {}", caller_.rank));
    while (!stop_.load()) {
      take_orders();
      step();
    }
  } catch (...) {
    owner_.broken(base::what_of(std::current_exception()));
  }
}

void Connector::take_orders() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(mutex_);
    orders.swap(orders_);
  }
  for (const Order& order : orders) {
    Attempt* const known = attempt_of(order.rank);
    if (order.is_end) {
      if (known != nullptr) known->is_superseded = true;
    } else if (known != nullptr) {
      if (order.patience == Patience::usual) known->patience = Patience::usual;
    } else if (owner_.wants(order.rank)) {
      attempts_.push_back({Dialer(order.rank, order.address), order.patience, Clock::now() + timeout_});
    }
  }
}

void Connector::step() {
  Time now = Clock::now();
  std::erase_if(attempts_, [](const Attempt& attempt) { return attempt.is_superseded && attempt.dialer.is_idle(); });
  for (Attempt& attempt : attempts_) {
    if (!attempt.is_superseded) attempt.dialer.begin(caller_, now);
  }
  std::vector<pollfd> entries;
  Time next = now + std::chrono::milliseconds(longest_poll_ms);
  entries.push_back({notifier_.get(), POLLIN, 0});
  for (const Attempt& attempt : attempts_) {
    attempt.dialer.prepare(entries, next);
    next = std::min(next, attempt.until);
  }
  const std::size_t before_acceptor = entries.size();
  acceptor_.prepare(entries, now, next);
  const auto wait = std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 0, longest_poll_ms);
  if (::poll(entries.data(), entries.size(), static_cast<int>(wait)) < 0 && errno != EINTR)
    throw Error(fmt::format("poll: {}", base::error_text(errno)));
  eventfd_t notified = 0;
  ::eventfd_read(notifier_.get(), &notified);
  const std::lock_guard lock(handshakes());
  now = Clock::now();
  const std::span<const pollfd> served(entries);
  std::size_t i = 1;
  ended_.clear();
  for (Attempt& attempt : attempts_) serve(attempt, served[i++].revents, now);
  std::erase_if(attempts_, [&](const Attempt& attempt) { return ended_.contains(attempt.dialer.rank()); });
  acceptor_.serve(served.subspan(before_acceptor), [&](int rank, Established connection) {
    // An own attempt at it goes on until the other side ends it: closed from here, it would look like a stranger's.
    if (Attempt* const own = attempt_of(rank)) own->is_superseded = true;
    owner_.connected(rank, std::move(connection));
  });
}

void Connector::serve(Attempt& attempt, short events, Time now) {
  Dialer& dialer = attempt.dialer;
  std::string why;
  try {
    if (dialer.serve(caller_, events, now)) {
      ended_.insert(dialer.rank());
      return owner_.connected(dialer.rank(), dialer.take());
    }
    if (attempt.is_superseded) return;
    if (dialer.is_refused(now) || (attempt.patience == Patience::none && dialer.was_refused())) why = dialer.reason();
    else if (now >= attempt.until) why = fmt::format("{} within {} ms", dialer.reason(), timeout_.count());
  } catch (const ProtocolError& error) {
    why = error.message();
  }
  if (why.empty() || attempt.is_superseded) return;
  ended_.insert(dialer.rank());
  owner_.failed(dialer.rank(),
                fmt::format("rank {} at {} cannot be reached from rank {} at {}: {}; `unisono doctor --hosts A,B` shows what a firewall drops",
                            dialer.rank(), base::describe(dialer.address()), caller_.rank, with_interface(caller_.address), why));
}

// Called when a rank that connects has proved itself, before it is told that it is accepted.
bool Connector::wants(int rank) {
  const Attempt* const own = attempt_of(rank);
  if (own != nullptr && !own->is_superseded && caller_.rank < rank && own->dialer.is_under_way(Clock::now())) return false;
  return owner_.accepts(rank);
}

Connector::Attempt* Connector::attempt_of(int rank) {
  const auto found = std::ranges::find_if(attempts_, [&](const Attempt& attempt) { return attempt.dialer.rank() == rank; });
  return found == attempts_.end() ? nullptr : &*found;
}

}  // namespace unisono::transport
