#include "store/etcd/client.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/code_file.h"
#include "base/log.h"
#include "base/switches.h"
#include "base/version.h"
#include "store/table.h"
#include "unisono/error.h"

namespace unisono::store::etcd {

using base::Deadline;
using Kind = Failure::Kind;
using namespace std::chrono_literals;

namespace {

constexpr auto first_pause = 5ms, longest_pause = 500ms;
/// An endpoint that is silent for so long is left. etcd itself gives up after 7 s where it has no leader.
constexpr auto answer_time = 10'000ms, answer_time_of_several = 3000ms;
constexpr std::size_t most_idle = 16;  ///< connections that are kept for each endpoint
constexpr const char* plugin_file = "libunisono-etcd.so";

const Library& library() {
  static const auto& found = *new base::PlugIn(base::find_plug_in(plugin_file, library_entry));
  static const std::string& version = *new std::string(base::to_string(base::library_version()));
  static const Library* const opened = found.entry == nullptr ? nullptr : reinterpret_cast<LibraryEntry>(found.entry)(version.c_str());
  if (opened != nullptr) return *opened;
  throw BackendUnavailable(fmt::format("stores of etcd cannot be used here: {}",
                                       found.entry == nullptr ? found.why_not : fmt::format("{} was not built for unisono {}", found.path, version)),
                           {.hint = "a build of unisono with libcurl has the plug-in (Debian: libcurl4, and libcurl4-openssl-dev to build)"});
}

}  // namespace

/// The patience of one try: up to a deadline, the end of the client, or an interruption of the program, which is thrown once the plug-in has
/// returned.
class Client::Turn final : public Patience {
 public:
  Turn(Client& client, const Deadline& deadline, Deadline own) : client_(client), deadline_(deadline), own_(own) {}

  int milliseconds() noexcept override {
    try {
      base::check_interruption();
    } catch (...) {
      interruption_ = std::current_exception();
      return -1;
    }
    {
      const std::lock_guard lock(client_.mutex_);
      if (client_.stop_) return -1;
    }
    const auto left = std::min(deadline_.left(), own_.left());
    if (left.count() <= 0) return -1;
    return Deadline(base::interruptible(left)).poll_timeout();
  }
  void rethrow_interruption() const {
    if (interruption_) std::rethrow_exception(interruption_);
  }

 private:
  Client& client_;
  const Deadline& deadline_;
  const Deadline own_;
  std::exception_ptr interruption_;
};

Client::Client(Location location) : location_(std::move(location)), library_(&library()), pid_(::getpid()), idle_(location_.endpoints.size()) {}

void Client::check_process() const {
  if (::getpid() != pid_) throw NotInitialized(fmt::format("{} was opened by another process, from which this one was forked", name()));
}

std::unique_ptr<Channel> Client::borrow(std::size_t endpoint) {
  std::unique_ptr<Channel> channel;
  base::Secret token;
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[endpoint];
    if (!idle.empty()) {
      channel = std::move(idle.back());
      idle.pop_back();
    }
    token = token_;
  }
  if (!channel) {
    std::string why;
    channel = library_->open(location_.endpoints[endpoint], why);
    if (!channel) throw InvalidArgument(fmt::format("{}: {}", name(), why));
  }
  channel->use_token(token);
  const std::lock_guard lock(mutex_);
  busy_.insert(channel.get());
  return channel;
}

void Client::give_back(std::size_t endpoint, std::unique_ptr<Channel> channel, bool is_good) {
  const std::lock_guard lock(mutex_);
  busy_.erase(channel.get());
  if (is_good && !stop_ && idle_[endpoint].size() < most_idle) idle_[endpoint].push_back(std::move(channel));
}

Failure Client::log_in(Channel& channel, Patience& patience) {
  std::string text;
  Failure failure = channel.authenticate(location_.user, location_.password, text, patience);
  if (!failure.is_none()) return failure;
  const base::Secret token = base::Secret::taking(std::move(text));
  channel.use_token(token);
  const std::lock_guard lock(mutex_);
  token_ = token;
  return {};
}

/// Asks one endpoint, and logs in where it asks for that.
Failure Client::attempt(std::size_t endpoint, const Deadline& deadline, const Call& call, Length length) {
  const auto time = length == Length::open_end ? base::longest_timeout : location_.endpoints.size() == 1 ? answer_time : answer_time_of_several;
  Turn turn(*this, deadline, Deadline(time));
  std::unique_ptr<Channel> channel = borrow(endpoint);
  const bool has_user = !location_.user.empty();
  const bool is_first = has_user && [&] {
    const std::lock_guard lock(mutex_);
    return token_.empty();
  }();
  Failure failure = is_first ? log_in(*channel, turn) : Failure{};
  if (failure.is_none()) failure = call(*channel, turn);
  if (failure.kind == Kind::token_gone && has_user && !is_first) {
    failure = log_in(*channel, turn);
    if (failure.is_none()) failure = call(*channel, turn);
  }
  const bool is_good = failure.is_none() || failure.kind == Kind::lease_gone || failure.kind == Kind::compacted;
  give_back(endpoint, std::move(channel), is_good);
  turn.rethrow_interruption();
  {
    const std::lock_guard lock(mutex_);
    if (stop_) throw PeerFailed(fmt::format("{} is being closed", name()), {}, PeerFailed::Cause::disconnected);
  }
  if (failure.kind == Kind::stopped && length == Length::short_answer) return {Kind::lost, "it does not answer"};
  return failure;
}

void Client::pause(std::chrono::milliseconds time, const Deadline& deadline) {
  base::check_interruption();
  std::unique_lock lock(mutex_);
  stopping_.wait_for(lock, std::min(time, deadline.left()), [&] { return stop_; });
  if (stop_) throw PeerFailed(fmt::format("{} is being closed", name()), {}, PeerFailed::Cause::disconnected);
}

void Client::throw_unreachable(const Deadline& deadline, int attempts, const std::map<std::size_t, std::string>& reasons) const {
  std::string why;
  for (const auto& [endpoint, reason] : reasons)
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", location_.endpoints[endpoint].url, printable(reason));
  throw Timeout(fmt::format("{} could not be reached within {} ms and {} attempt{} ({})", name(), deadline.timeout().count(), attempts,
                            attempts == 1 ? "" : "s", why),
                {.hint = "does etcd run at one of its endpoints, and does the network lead there?"});
}

Client::Outcome Client::ask(const Deadline& deadline, const Call& call, Length length) {
  check_process();
  auto wait = std::chrono::milliseconds(first_pause);
  Outcome outcome;
  std::map<std::size_t, std::string> reasons;
  std::size_t endpoint = [&] {
    const std::lock_guard lock(mutex_);
    return current_;
  }();
  for (int attempts = 1;; ++attempts) {
    const Failure failure = attempt(endpoint, deadline, call, length);
    const std::string& url = location_.endpoints[endpoint].url;
    switch (failure.kind) {
      case Kind::none:
      case Kind::lease_gone:
      case Kind::compacted:
      case Kind::stopped: {
        const std::lock_guard lock(mutex_);
        current_ = endpoint;
        is_lost_ = false;
        outcome.kind = failure.kind;
        return outcome;
      }
      case Kind::refused:
      case Kind::token_gone: throw InvalidArgument(fmt::format("{}: {} refuses: {}", name(), url, printable(failure.text)));
      case Kind::malformed:
        throw ProtocolError(fmt::format("{}: the server at {} is not etcd, or is broken: {}", name(), url, printable(failure.text)));
      case Kind::unreachable:
      case Kind::lost:
      case Kind::unavailable: break;
    }
    outcome.was_doubtful = outcome.was_doubtful || failure.kind != Kind::unreachable;
    // A try that the deadline has cut short says less than the one before it.
    if (deadline.passed()) reasons.try_emplace(endpoint, failure.text);
    else reasons[endpoint] = failure.text;
    if (attempts == 1) base::debug(fmt::format("{}: {}: {}", name(), url, printable(failure.text)));
    endpoint = (endpoint + 1) % location_.endpoints.size();
    const bool is_round = attempts % static_cast<int>(location_.endpoints.size()) == 0;
    if (deadline.passed()) {
      {
        const std::lock_guard lock(mutex_);
        is_lost_ = true;
      }
      throw_unreachable(deadline, attempts, reasons);
    }
    if (!is_round) continue;
    pause(wait, deadline);
    wait = std::min<std::chrono::milliseconds>(2 * wait, longest_pause);
  }
}

Client::Outcome Client::transact(const Transaction& transaction, Answer& answer, const Deadline& deadline) {
  return ask(deadline, [&](Channel& channel, Patience& patience) { return channel.transact(transaction, answer, patience); });
}

std::int64_t Client::grant(std::chrono::seconds time, const Deadline& deadline) {
  std::int64_t lease = 0;
  ask(deadline, [&](Channel& channel, Patience& patience) { return channel.grant(time.count(), lease, patience); });
  return lease;
}

bool Client::keep_alive(std::int64_t lease, const Deadline& deadline) {
  std::int64_t seconds = 0;
  const Outcome outcome = ask(deadline, [&](Channel& channel, Patience& patience) { return channel.keep_alive(lease, seconds, patience); });
  return outcome.kind == Kind::none && seconds > 0;
}

void Client::revoke(std::int64_t lease, const Deadline& deadline) {
  ask(deadline, [&](Channel& channel, Patience& patience) { return channel.revoke(lease, patience); });
}

Client::Outcome Client::watch(const std::vector<std::string>& keys, std::int64_t from, const Deadline& deadline) {
  bool begun = false;
  const auto call = [&](Channel& channel, Patience& patience) {
    begun = false;
    Failure failure = channel.watch(keys, from, begun, patience);
    if (failure.kind == Kind::stopped && !begun) return Failure{Kind::lost, "it does not answer"};
    return failure;
  };
  return ask(deadline, call, Length::open_end);
}

void Client::stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  for (Channel* const channel : busy_) channel->wake();
  stopping_.notify_all();
}

bool Client::is_lost() const {
  const std::lock_guard lock(mutex_);
  return is_lost_;
}

}  // namespace unisono::store::etcd
