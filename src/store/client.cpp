#include "store/client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/switches.h"
#include "base/tls.h"
#include "store/table.h"
#include "unisono/error.h"

namespace unisono::store {

using base::Deadline;
using namespace std::chrono_literals;

namespace {

// The server's answers are bounded by its limit for values; a longer length is no answer.
constexpr std::size_t longest_answer = std::size_t{1} << 31;
constexpr std::size_t most_keys_of_request = 1000;

// The server ends a wait in time and knows the missing keys. The client's own clock ends the call this much later, where the server does not answer.
constexpr auto patience = 1s;

}  // namespace

Client::Client(base::FileDescriptor connected, std::string place, FrameBuffer buffered, std::unique_ptr<StoreServer> own_server,
               std::unique_ptr<base::TlsConnection> tls)
    : server_(std::move(own_server)),
      fd_(std::move(connected)),
      tls_(std::move(tls)),
      unread_(tls_ && tls_->has_unread()),
      place_(std::move(place)),
      pid_(::getpid()),
      in_(std::move(buffered)) {
  base::set_close_on_exec(fd_.get());
  base::set_non_blocking(fd_.get());
}

Client::~Client() {
  if (tls_ && ::getpid() == pid_) tls_->close();
}

void Client::use_codes(const base::FrameKeys& keys) {
  sealer_.emplace(keys.sending);
  opener_.emplace(keys.receiving);
}

void Client::send_greeting() {
  greeting_due_ = true;
  send(greeting(), Deadline(timeout()));
}

void Client::check_process() const {
  if (::getpid() != pid_) throw NotInitialized(fmt::format("{} was opened by another process: a child of fork opens its own", place_));
}

void Client::throw_gone(int error) const {
  const bool is_cut_off =
      error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;  // as the system says it of a network that carries nothing
  if (!is_cut_off) throw PeerFailed(fmt::format("{} is gone", place_), {}, PeerFailed::disconnected);
  throw PeerFailed(fmt::format("{} is gone: its host does not answer any more ({})", place_, base::error_text(error)),
                   {.hint = "does that host run, and does the network carry anything?"}, PeerFailed::disconnected);
}

void Client::break_off(std::exception_ptr reason) {
  if (!broken_) broken_ = std::move(reason);
  arrived_.notify_all();
}

// Returns how many bytes were taken. None are left to be taken: it waits for those that TLS still holds.
ssize_t Client::transmit(std::string_view bytes) {
  if (!tls_) return base::send(fd_.get(), nullptr, bytes.data(), bytes.size());
  const std::lock_guard lock(in_tls_);
  if (!bytes.empty()) return base::send(fd_.get(), tls_.get(), bytes.data(), bytes.size());
  if (!tls_->flush()) return -1;
  errno = EAGAIN;
  return tls_->has_unsent() ? -1 : 0;
}

ssize_t Client::receive(void* to, std::size_t size) {
  if (!tls_) return base::receive(fd_.get(), nullptr, to, size);
  const std::lock_guard lock(in_tls_);
  const ssize_t n = base::receive(fd_.get(), tls_.get(), to, size);
  const int error = errno;
  unread_ = tls_->has_unread();
  errno = error;
  return n;
}

void Client::send(std::string frame, const Deadline& deadline) {
  const std::lock_guard turn(sending_);
  if (sealer_) frame = sealer_->seal(std::move(frame));
  std::size_t sent = 0;
  bool all = false;
  while (!all) {
    const ssize_t n = transmit(std::string_view(frame).substr(sent));
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
      all = sent == frame.size() && (!tls_ || n == 0);
    } else if (errno == EAGAIN) {
      if (base::wait_for(fd_.get(), POLLOUT, deadline)) continue;
      const Timeout error(fmt::format("{} took no request within {} ms", place_, deadline.timeout().count()));
      if (sent == 0 && sealer_) sealer_->take_back();
      if (sent == 0) throw error;
      const std::lock_guard lock(mutex_);  // half a request has been sent: nothing can follow it
      break_off(std::make_exception_ptr(error));
      throw error;
    } else if (errno != EINTR) {
      // The server may have sent the reason before it closed; the reader finds that, or the end of the stream.
      return;
    }
  }
}

Client::Answer Client::ask(Writer request, const Deadline& deadline, std::span<const std::string> awaited) {
  std::string frame = request.finish();
  const std::uint64_t id = [&] {
    Reader head(std::string_view(frame).substr(frame_head));
    head.byte();
    return head.integer();
  }();
  struct Forget {  // however this call ends, its answer is not waited for any more
    Client& client;
    std::uint64_t id;
    ~Forget() {
      const std::lock_guard lock(client.mutex_);
      client.asked_.erase(id);
    }
  };
  check_process();
  auto answer = [&]() -> Answer {
    {
      const std::lock_guard lock(mutex_);
      if (broken_) std::rethrow_exception(broken_);
      asked_.emplace(id, std::nullopt);
    }
    const Forget forget{*this, id};
    send(std::move(frame), deadline);
    std::unique_lock lock(mutex_);
    for (;;) {
      auto& slot = asked_.at(id);
      if (slot) {
        Answer taken = std::move(*slot);
        lock.unlock();
        return taken;
      }
      if (broken_) {
        const std::exception_ptr reason = broken_;
        lock.unlock();
        std::rethrow_exception(reason);
      }
      if (deadline.passed()) {
        lock.unlock();
        if (!awaited.empty()) throw_missing(place_, awaited, deadline.timeout() - patience);
        throw Timeout(fmt::format("{} did not answer within {} ms", place_, deadline.timeout().count()));
      }
      if (base::check_interruption(lock) && (asked_.at(id) || broken_)) continue;
      if (someone_reads_) {
        arrived_.wait_for(lock, base::interruptible(deadline.left()));
      } else {
        read_some(deadline, lock);
      }
    }
  }();
  if (answer.status == Status::invalid) {
    Reader in(answer.fields);
    throw InvalidArgument(in.text());
  }
  return answer;
}

// Waits for bytes without the lock and hands out the answers that they contain. One thread does so at a time.
void Client::read_some(const Deadline& deadline, std::unique_lock<std::mutex>& lock) {
  someone_reads_ = true;
  lock.unlock();
  std::array<char, std::size_t{64} << 10> chunk;
  ssize_t n = -1;
  int error = EAGAIN;
  if (unread_ || base::wait_for(fd_.get(), POLLIN, Deadline(base::interruptible(deadline.left())))) {
    n = receive(chunk.data(), chunk.size());
    error = n < 0 ? errno : 0;
  }
  lock.lock();
  someone_reads_ = false;
  try {
    if (n > 0) {
      in_.append({chunk.data(), static_cast<std::size_t>(n)});
      ::explicit_bzero(chunk.data(), static_cast<std::size_t>(n));
      dispatch();
    } else if (n == 0 || (error != EAGAIN && error != EINTR)) {
      throw_gone(n == 0 ? 0 : error);
    }
  } catch (const Error&) {
    break_off(std::current_exception());
  }
  arrived_.notify_all();  // the next reader is among them
}

void Client::check_greeting() {
  const Greeting theirs = parse_greeting(*in_.take(greeting_size));
  if (!theirs.is_ours) throw ProtocolError(fmt::format("{}: the server there is not a unisono store", place_));
  if (theirs.wire != wire_version)
    throw ProtocolError(fmt::format("{} is unisono {}, this process is {}", place_, describe(theirs), describe_own_version()));
  greeting_due_ = false;
}

std::optional<std::string> Client::take_frame() {
  bool too_long = false;
  FrameOpener::Fault fault = FrameOpener::Fault::none;
  auto frame = opener_ ? opener_->take(in_, longest_answer, fault) : in_.take_frame(longest_answer, too_long);
  if (too_long || fault == FrameOpener::Fault::too_long) throw ProtocolError(fmt::format("{} sent a frame that is too long", place_));
  if (fault == FrameOpener::Fault::changed) {
    throw ProtocolError(fmt::format("{}: an answer was changed on the way", place_), {.hint = "somebody changes the data on the way"});
  }
  return frame;
}

void Client::dispatch() {
  if (greeting_due_) {
    if (in_.size() < greeting_size) return;
    check_greeting();
  }
  for (;;) {
    auto frame = take_frame();
    if (!frame) return;
    Reader in(*frame);
    const auto status = static_cast<Status>(in.byte());
    const std::uint64_t id = in.integer();
    if (!in.ok()) throw ProtocolError(fmt::format("{} sent a malformed answer", place_));
    if (status == Status::refused) throw ProtocolError(fmt::format("{} closed the connection: {}", place_, printable(in.text())));
    const auto asked = asked_.find(id);
    if (asked != asked_.end()) asked->second = Answer{status, frame->substr(9)};
    else if (take_) take_(*frame);
    base::wipe(*frame);  // it may have held a secret
    base::clear_vector_registers();
  }
}

void Client::set(std::string_view key, std::string_view value) {
  Table::check({}, key, value);
  ask(std::move(request(Op::set).text(key).text(value)));
}

Client::Answer Client::await(Writer request, Milliseconds timeout, std::span<const std::string> keys) {
  Answer answer = ask(std::move(request), Deadline(base::clamped(timeout) + patience), keys);
  if (answer.status == Status::expired) {
    std::vector<std::string> missing;
    Reader in(answer.fields);
    while (in.ok() && !in.complete()) missing.emplace_back(in.text());
    throw_missing(place_, missing, timeout);
  }
  return answer;
}

std::string Client::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const Milliseconds time = timeout.value_or(this->timeout());
  const std::string name(key);
  Answer answer = await(std::move(request(Op::get).integer(static_cast<std::uint64_t>(time.count())).text(key)), time, {&name, 1});
  return answer.take_text();
}

void Client::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  if (keys.empty()) return;
  const Milliseconds time = timeout.value_or(this->timeout());
  Writer writer = request(Op::wait);
  writer.integer(static_cast<std::uint64_t>(time.count())).integer(keys.size());
  for (const std::string& key : keys) writer.text(key);
  await(std::move(writer), time, keys);
}

std::optional<std::string> Client::try_get(std::string_view key) {
  Answer answer = ask(std::move(request(Op::try_get).text(key)));
  if (answer.status == Status::absent) return std::nullopt;
  return answer.take_text();
}

std::vector<std::optional<std::string>> Client::try_get_all(std::span<const std::string> keys) {
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  while (values.size() < keys.size()) {
    const std::span<const std::string> asked = keys.subspan(values.size(), std::min(most_keys_of_request, keys.size() - values.size()));
    Writer writer = request(Op::try_get_all);
    writer.integer(asked.size());
    for (const std::string& key : asked) writer.text(key);
    const Answer answer = ask(std::move(writer));
    Reader in(answer.fields);
    const std::uint64_t answered = in.integer();
    if (answered == 0 || answered > asked.size()) throw ProtocolError(fmt::format("{} answered for {} of {} keys", place_, answered, asked.size()));
    for (std::uint64_t i = 0; i < answered; ++i) {
      const bool exists = in.integer() != 0;
      const std::string_view value = in.text();
      values.push_back(exists ? std::optional<std::string>(value) : std::nullopt);
    }
    if (!in.complete()) throw ProtocolError(place_ + " sent an answer of another form");
  }
  return values;
}

std::int64_t Client::add(std::string_view key, std::int64_t amount) {
  Table::check({}, key, {});
  const Answer answer = ask(std::move(request(Op::add).text(key).integer(static_cast<std::uint64_t>(amount))));
  return static_cast<std::int64_t>(Reader(answer.fields).integer());
}

std::string Client::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  Table::check({}, key, expected);
  Table::check({}, key, desired);
  const Answer answer = ask(std::move(request(Op::compare_set).text(key).text(expected).text(desired)));
  return std::string(Reader(answer.fields).text());
}

bool Client::erase(std::string_view key) {
  const Answer answer = ask(std::move(request(Op::erase).text(key)));
  return Reader(answer.fields).integer() != 0;
}

std::int64_t Client::num_keys() {
  const Answer answer = ask(request(Op::num_keys));
  return static_cast<std::int64_t>(Reader(answer.fields).integer());
}

void Client::leave_will(const std::vector<std::pair<std::string, std::string>>& will) {
  Writer writer = request(Op::will);
  writer.integer(will.size());
  for (const auto& [key, value] : will) writer.text(key).text(value);
  ask(std::move(writer));
}

void Client::hang_up() const { ::shutdown(fd_.get(), SHUT_RDWR); }

std::shared_ptr<Store> connect_fd(base::FileDescriptor connected) {
  auto client = std::make_shared<Client>(std::move(connected), "the launcher's store");
  client->send_greeting();
  return client;
}

}  // namespace unisono::store
