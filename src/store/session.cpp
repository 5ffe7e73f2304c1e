#include "store/session.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

#include <fmt/format.h>

#include "base/host.h"
#include "base/socket.h"
#include "base/tls.h"
#include "unisono/error.h"

namespace unisono::store {

void Session::send(std::string frame) {
  if (sealer) frame = sealer->seal(std::move(frame));
  if (out.empty()) {
    out = std::move(frame);
  } else {
    base::append_wiping(out, frame);
    base::wipe(frame);
  }
}

bool Session::write() {
  if (tls && !tls->flush()) return false;
  while (unsent() > 0) {
    const ssize_t n = base::send(fd.get(), tls.get(), out.data() + sent, unsent());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return false;
    if (n < 0) break;
    sent += static_cast<std::size_t>(n);
  }
  if (unsent() == 0) {
    base::wipe(out);  // it may have held a secret
    out.shrink_to_fit();
    sent = 0;
    if (stage == Stage::closing && tls) tls->close();
    if (stage == Stage::closing && !is_blocked()) ::shutdown(fd.get(), SHUT_WR);
  } else if (sent > enough_unsent) {
    base::wipe_front(out, sent);
    sent = 0;
  }
  return true;
}

namespace {

constexpr std::size_t room_beside_value = std::size_t{64} << 10;  ///< key and head of a request

using base::Clock;

constexpr std::chrono::milliseconds pause_without_means(100);  ///< until descriptors or memory are tried for again
constexpr int most_accepts_in_turn = 64;

}  // namespace

bool ServerHandshake::begin(Session& session) {
  const std::string_view seen = session.in.peek().substr(0, magic.size());
  if (seen.starts_with(base::tls_begins) && !session.tls && !session.trusted) {
    log_rejected(session, "it encrypts its connections (UNISONO_TLS), and this process does not");
    session.send(std::string(base::no_tls_here));
    session.begin_to_close(options_.handshake_timeout);
    return true;
  }
  if (!magic.starts_with(seen)) {  // no answer: it may be any program
    log_rejected(session, "its data is not that of unisono");
    return false;
  }
  if (session.in.size() < greeting_size) return true;
  const Greeting theirs = parse_greeting(*session.in.take(greeting_size));
  session.send(greeting());
  if (theirs.wire == wire_version) {
    session.stage = session.trusted ? Session::Stage::open : Session::Stage::hello;
    return true;
  }
  log_rejected(session, fmt::format("it is unisono {}, this is {}", describe(theirs), describe_own_version()));
  session.begin_to_close(options_.handshake_timeout);  // our greeting tells it why
  return true;
}

std::optional<std::string> ServerHandshake::take_frame(Session& session) {
  using Fault = FrameOpener::Fault;
  const bool is_open = session.stage == Session::Stage::open;
  const std::size_t most = is_open ? options_.limits.value_bytes + room_beside_value : largest_unauthenticated_frame;
  bool too_long = false;
  Fault fault = Fault::none;
  auto frame = session.opener ? session.opener->take(session.in, most, fault) : session.in.take_frame(most, too_long);
  if (too_long || fault == Fault::too_long) {
    log_rejected(session, "it announced a frame longer than this store takes");
    refuse(session, 0, fmt::format("a request is longer than the store takes ({} bytes)", most));
  } else if (fault == Fault::changed) {
    log_rejected(session, "a frame was changed on the way");
    refuse(session, 0, "a request was changed on the way");
  }
  return frame;
}

void ServerHandshake::receive(Session& session, std::string_view frame) {
  Reader in(frame);
  const Op op = static_cast<Op>(in.byte());
  in.integer();
  if (session.stage == Session::Stage::hello) receive_hello(session, op, in);
  else receive_proof(session, op, in);
}

void ServerHandshake::receive_hello(Session& session, Op op, Reader& in) {
  Exchange& exchange = session.exchange;
  exchange.client_nonce = in.text();
  exchange.job_tag = in.text();
  const bool has_token = in.integer() != 0;
  if (op != Op::hello || !in.complete() || exchange.client_nonce.size() != nonce_size) return refuse(session, 0, "the handshake is malformed");
  if (!options_.job_tag.empty() && exchange.job_tag != options_.job_tag) return refuse(session, 0, "it belongs to another job");
  if (has_token && options_.token.empty()) return refuse(session, 0, "it has no token, but this process has one");
  if (!has_token && !options_.token.empty()) return refuse(session, 0, "it asks for a token, and this process has none");
  exchange.server_nonce = fresh_nonce();
  session.send(Writer(Status::challenge).text(exchange.server_nonce).integer(options_.token.empty() ? 0 : 1).finish());
  session.stage = Session::Stage::proof;
}

void ServerHandshake::receive_proof(Session& session, Op op, Reader& in) {
  const Exchange& exchange = session.exchange;
  const std::string_view proof = in.text();
  if (op != Op::proof || !in.complete()) return refuse(session, 0, "the handshake is malformed");
  if (!same_proof(proof, client_proof(options_.token.view(), exchange))) {
    log_rejected(session, "its token is not this job's");
    return refuse(session, 0, "its token is not the token of this process");
  }
  session.send(Writer(Status::ok).text(server_proof(options_.token.view(), exchange)).finish());
  if (const auto keys = server_keys(options_.token.view(), exchange)) {
    session.sealer.emplace(keys->sending);
    session.opener.emplace(keys->receiving);
  }
  session.stage = Session::Stage::open;
  session.expires = base::Clock::time_point::max();
}

void ServerHandshake::refuse(Session& session, std::uint64_t request, std::string_view why) {
  session.send(Writer(Status::refused, request).text(why).finish());
  session.begin_to_close(options_.handshake_timeout);
}

void Listeners::add(Id id, base::FileDescriptor listening) {
  base::set_close_on_exec(listening.get());
  base::set_non_blocking(listening.get());
  Listener listener{std::move(listening)};
  listener.local = base::local_address(listener.fd.get()).family() == AF_UNIX;
  epoll_event event{EPOLLIN, {.u64 = id}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener.fd.get(), &event) != 0) {
    throw InvalidArgument(fmt::format("a store cannot serve this descriptor: {}", base::error_text(errno)));
  }
  listeners_.emplace(id, std::move(listener));
}

void Listeners::watch(Id id, const Listener& listener) const {
  epoll_event event{listener.paused ? 0U : static_cast<std::uint32_t>(EPOLLIN), {.u64 = id}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, listener.fd.get(), &event);
}

void Listeners::pause(Id id, Listener& listener, std::chrono::milliseconds time) {
  listener.paused = true;
  listener.resume = Clock::now() + time;
  watch(id, listener);
}

void Listeners::resume(Time now) {
  for (auto& [id, listener] : listeners_) {
    if (!listener.paused || listener.resume > now) continue;
    listener.paused = false;
    watch(id, listener);
  }
}

Listeners::Time Listeners::next_resume() const {
  Time next = Time::max();
  for (const auto& [id, listener] : listeners_) {
    if (listener.paused) next = std::min(next, listener.resume);
  }
  return next;
}

bool Listeners::accept(Id id) {
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return false;
  try {
    accept_all(id, found->second);
  } catch (const std::exception& error) {  // that connection is closed; later ones may succeed
    base::warn(fmt::format("the store could not take a connection: {}", error.what()));
    pause(id, found->second, pause_without_means);
  }
  return true;
}

bool Listeners::admits_local(int fd) const {
  if (!base::peer_is_same_user(fd)) return false;
  if (options_.family_of == 0) return true;
  const pid_t peer = base::peer_process(fd);
  return peer == options_.family_of || base::is_descendant(peer, options_.family_of);
}

void Listeners::accept_all(Id id, Listener& listener) {
  for (int i = 0; i < most_accepts_in_turn; ++i) {
    if (!listener.local) {
      if (const auto time = owner_.make_room(); time.count() > 0) return pause(id, listener, time);
    }
    base::FileDescriptor fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EAGAIN) {
        base::log(base::LogLevel::error, fmt::format("the store cannot take another connection: {}", base::error_text(error)));
        pause(id, listener, pause_without_means);
      }
      return;
    }
    fd.keep_from_children();
    if (!listener.local) add_remote(std::move(fd));
    else if (admits_local(fd.get())) owner_.add_local(std::move(fd));
  }
}

void Listeners::add_remote(base::FileDescriptor fd) {
  base::set_no_delay(fd.get());
  base::end_when_silent(fd.get(), options_.silence);
  try {
    std::string source = base::peer_address(fd.get()).host();
    std::string why;
    auto tls = options_.tls ? options_.tls->open(fd.get(), base::TlsSide::accepting, why) : nullptr;
    if (options_.tls && !tls) throw std::runtime_error(why);
    owner_.add(std::move(fd), std::move(source), std::move(tls));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the client has closed it already
  }
}

}  // namespace unisono::store
