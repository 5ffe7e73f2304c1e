#include "transport/tcp/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "ground/interfaces.h"
#include "ground/log.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using ground::Clock;
using ground::FileDescriptor;
using namespace std::chrono_literals;

constexpr std::size_t most_strangers = 64;
constexpr auto patience_with_strangers = 2s;
constexpr auto grace_of_strangers = 50ms;  ///< a handshake takes microseconds; who is older than this makes room
constexpr auto pause_without_means = 100ms;

}  // namespace

std::string with_interface(const std::string& address) {
  try {
    for (const auto& each : ground::interface_addresses()) {
      if (each.address.host() == address) return fmt::format("{} ({})", address, each.interface);
    }
  } catch (const Error&) {  // the address alone says enough
  }
  return address;
}

bool Talk::go_on(bool readable) {
  if (readable) {
    std::array<char, 512> chunk;
    const ssize_t n = ::recv(fd.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0) handshake.receive({chunk.data(), static_cast<std::size_t>(n)});
  }
  out += handshake.take_output();
  if (out.empty()) return true;
  const ssize_t n = ::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  out.erase(0, static_cast<std::size_t>(n));
  return true;
}

Door::Door(int rank, const std::string& address, std::vector<int> awaited) : rank_(rank), awaited_(std::move(awaited)) {
  ground::Opened opened = ground::try_listen(ground::resolve(address, 0).front());
  if (!opened.fd) {
    throw BackendUnavailable(fmt::format("rank {} cannot listen on {}: {}", rank_, with_interface(address), ground::error_text(opened.error)),
                             {.hint = "UNISONO_INTERFACE names the interface"});
  }
  listener_ = std::move(opened.fd);
}

std::uint16_t Door::port() const { return ground::local_address(listener_.get()).port(); }

void Door::prepare(std::vector<pollfd>& entries, Time now, Time& next) const {
  const bool listening = listen_again_ <= now;
  entries.push_back({listening ? listener_.get() : -1, POLLIN, 0});
  if (!listening) next = std::min(next, listen_again_);
  for (const Stranger& each : strangers_) {
    entries.push_back({each.talk.fd.get(), each.talk.events(), 0});
    next = std::min(next, each.talk.expires);
  }
}

void Door::serve(std::span<const pollfd> entries, const Admit& admit) {
  std::size_t i = 1;
  for (Stranger& each : strangers_) {
    if (const short events = entries[i++].revents; events != 0) serve(each, events, admit);
  }
  const Time now = Clock::now();
  for (Stranger& each : strangers_) {
    if (!each.talk.fd || each.talk.expires > now) continue;
    grumble(each.source, "it did not authenticate in time");
    each.talk.fd.reset();
  }
  std::erase_if(strangers_, [](const Stranger& each) { return !each.talk.fd; });
  if (entries[0].revents != 0) accept();
}

// Strangers must not keep the ranks out, and ranks that come all at once must not push each other out.
bool Door::make_room(Time now) {
  if (strangers_.size() < most_strangers) return true;
  Stranger& oldest = strangers_.front();
  if (now - oldest.since < grace_of_strangers) {
    listen_again_ = oldest.since + grace_of_strangers;
    return false;
  }
  grumble(oldest.source, "it did not authenticate, and others were waiting");
  strangers_.pop_front();
  return true;
}

void Door::accept() {
  for (;;) {
    const Time now = Clock::now();
    if (!make_room(now)) return;
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) {  // no descriptors, no memory: perhaps in a moment
        ground::warn(fmt::format("a connection could not be accepted: {}", ground::error_text(errno)));
        listen_again_ = now + pause_without_means;
      }
      return;
    }
    fd.keep_from_children();
    ground::set_no_delay(fd.get());
    std::string source;
    try {
      source = ground::peer_address(fd.get()).host();
    } catch (const Error&) {  // it has gone already
      continue;
    }
    strangers_.push_back(
        {{std::move(fd), Handshake::accepting(secret_, rank_, awaited_), {}, now + patience_with_strangers}, std::move(source), now});
  }
}

void Door::serve(Stranger& stranger, short events, const Admit& admit) {
  Talk& talk = stranger.talk;
  try {
    if (!talk.go_on((events & ~POLLOUT) != 0)) {
      grumble(stranger.source, "it went away before it had authenticated");
      talk.fd.reset();
    } else if (talk.done()) {
      admit(talk.handshake.from(), std::move(talk.fd));
    }
  } catch (const ProtocolError& error) {
    grumble(stranger.source, error.message());
    talk.fd.reset();
  }
}

// One line per source and ten seconds: a scanner must not fill the job's log either.
void Door::grumble(const std::string& source, std::string_view what) {
  const Time now = Clock::now();
  if (grumbled_.size() >= 64) std::erase_if(grumbled_, [&](const auto& entry) { return now - entry.second > 10s; });
  if (grumbled_.size() >= 64) return;
  const auto [entry, fresh] = grumbled_.emplace(source, now);
  if (!fresh && now - entry->second < 10s) return;
  entry->second = now;
  ground::warn(fmt::format("rank {} closed a connection from {}: {}", rank_, source, what));
}

}  // namespace unisono::transport
