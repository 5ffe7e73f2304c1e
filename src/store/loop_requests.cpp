// Handles the bytes of a connection: greeting, handshake, requests.
#include <fmt/format.h>

#include "base/vector_registers.h"
#include "store/loop.h"
#include "unisono/error.h"

namespace unisono::store {

using base::Clock;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_bequests = 16;                         ///< keys that a connection sets when it ends
constexpr std::size_t room_beside_value = std::size_t{64} << 10;  ///< key and head of a request
constexpr std::int64_t longest_wait_ms_of_request = std::int64_t{1} << 40;
constexpr std::size_t enough_of_answer = std::size_t{256} << 10;  ///< bytes of values in an answer for many keys, before the last one
constexpr int most_missing_named = 64;                            ///< keys in the answer to a wait that has expired

}  // namespace

// `session` may be gone afterwards.
void StoreServer::Loop::pump(Id id, Session& session) {
  using Stage = Session::Stage;
  while (session.stage != Stage::closing && session.stage != Stage::encryption && session.unsent() <= enough_unsent) {
    if (session.stage == Stage::greeting) {
      const std::string_view seen = session.in.peek().substr(0, magic.size());
      if (seen.starts_with(base::tls_begins) && !session.tls && !session.trusted) {
        log_rejected(session, "it encrypts its connections (UNISONO_TLS), and this process does not");
        send(session, std::string(base::no_tls_here));
        begin_to_close(session);
        continue;
      }
      if (!magic.starts_with(seen)) {  // strangers get no answer
        log_rejected(session, "what it sent is not ours");
        close(id);
        return;
      }
      if (session.in.size() < greeting_size) break;
      greet(session);
      continue;
    }
    const std::size_t most = session.stage == Stage::open ? options_.limits.value_bytes + room_beside_value : largest_unauthenticated_frame;
    const auto frame = take_frame(session, most);
    if (!frame) break;
    if (session.stage == Stage::open) {
      answer(id, session, *frame);
    } else {
      shake_hands(id, session, *frame);
    }
  }
  const bool stopped = session.unsent() > enough_unsent;
  flush(id, session);
  // Where the client took all of it meanwhile, no event tells that the requests that are left can be answered.
  if (stopped && sessions_.contains(id)) unread_.insert(id);
}

// Returns nothing where no frame has arrived, or the session was refused for what has.
std::optional<std::string> StoreServer::Loop::take_frame(Session& session, std::size_t most) {
  using Fault = FrameOpener::Fault;
  bool too_long = false;
  Fault fault = Fault::none;
  auto frame = session.opener ? session.opener->take(session.in, most, fault) : session.in.take_frame(most, too_long);
  if (too_long || fault == Fault::too_long) {
    log_rejected(session, "it announced a frame longer than this store takes");
    refuse(session, 0, fmt::format("a request is longer than the store takes ({} bytes)", most));
  } else if (fault == Fault::changed) {
    log_rejected(session, "a frame came that it has not sent so");
    refuse(session, 0, "a request came that was not sent so");
  }
  return frame;
}

void StoreServer::Loop::greet(Session& session) {
  const Greeting theirs = parse_greeting(*session.in.take(greeting_size));
  send(session, greeting());
  if (theirs.wire != wire_version) {
    log_rejected(session, fmt::format("it is unisono {}, this is {}", describe(theirs), describe_own_version()));
    begin_to_close(session);  // our greeting tells it why
    return;
  }
  session.stage = session.trusted ? Session::Stage::open : Session::Stage::hello;
}

void StoreServer::Loop::shake_hands(Id, Session& session, std::string_view frame) {
  Reader in(frame);
  const Op op = static_cast<Op>(in.byte());
  in.integer();
  Exchange& exchange = session.exchange;
  if (session.stage == Session::Stage::hello) {
    exchange.client_nonce = in.text();
    exchange.job_tag = in.text();
    const bool has_token = in.integer() != 0;
    if (op != Op::hello || !in.complete() || exchange.client_nonce.size() != nonce_size) return refuse(session, 0, "the handshake is malformed");
    if (!options_.job_tag.empty() && exchange.job_tag != options_.job_tag) return refuse(session, 0, "it belongs to another job");
    if (has_token && options_.token.empty()) return refuse(session, 0, "it has no token, but this process has one");
    if (!has_token && !options_.token.empty()) return refuse(session, 0, "it asks for a token, and this process has none");
    exchange.server_nonce = fresh_nonce();
    send(session, Writer(Status::challenge).text(exchange.server_nonce).integer(options_.token.empty() ? 0 : 1).finish());
    session.stage = Session::Stage::proof;
    return;
  }
  const std::string_view proof = in.text();
  if (op != Op::proof || !in.complete()) return refuse(session, 0, "the handshake is malformed");
  if (!same_proof(proof, client_proof(options_.token.view(), exchange))) {
    log_rejected(session, "its token is not this job's");
    return refuse(session, 0, "its token is another one than this process's");
  }
  send(session, Writer(Status::ok).text(server_proof(options_.token.view(), exchange)).finish());
  if (const auto keys = server_keys(options_.token.view(), exchange)) {
    session.sealer.emplace(keys->sending);
    session.opener.emplace(keys->receiving);
  }
  session.stage = Session::Stage::open;
  session.expires = Time::max();
}

void StoreServer::Loop::refuse(Session& session, std::uint64_t request, std::string_view why) {
  send(session, Writer(Status::refused, request).text(why).finish());
  begin_to_close(session);
}

// A refused client that has not authenticated gets no more time than it had.
void StoreServer::Loop::begin_to_close(Session& session) {
  session.stage = Session::Stage::closing;
  session.expires = std::min(session.expires, Clock::now() + options_.handshake_timeout);
}

void StoreServer::Loop::answer(Id id, Session& session, std::string_view frame) {
  Reader in(frame);
  const Op op = static_cast<Op>(in.byte());
  const std::uint64_t request = in.integer();
  Writer reply(Status::ok, request);
  Outcome outcome{};
  try {
    outcome = op == Op::get || op == Op::wait ? park_request(id, session, request, op, in) : carry_out(session, op, in, reply);
  } catch (const InvalidArgument& error) {
    send(session, Writer(Status::invalid, request).text(error.message()).finish());
    return;
  }
  switch (outcome) {
    case Outcome::done: return send(session, reply.finish());
    case Outcome::absent: return send(session, Writer(Status::absent, request).finish());
    case Outcome::parked: return;
    case Outcome::malformed: log_rejected(session, "a request of its is malformed"); return refuse(session, request, "the request is malformed");
  }
}

StoreServer::Loop::Outcome StoreServer::Loop::park_request(Id id, Session& session, std::uint64_t request, Op op, Reader& in) {
  const auto timeout = static_cast<std::int64_t>(in.integer());
  const std::uint64_t count = op == Op::get ? 1 : in.integer();
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) keys.emplace_back(in.text());
  if (!in.complete()) return Outcome::malformed;
  park(id, session, request, std::move(keys), timeout, op);
  return Outcome::parked;
}

// Answers for as many of the keys as fit; the client asks for the others again.
StoreServer::Loop::Outcome StoreServer::Loop::read_all(Reader& in, Writer& reply) const {
  const std::uint64_t count = in.integer();
  std::vector<const std::string*> values;
  std::size_t bytes = 0;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::string* const value = table_.find(in.text());
    if (bytes > enough_of_answer) continue;
    values.push_back(value);
    bytes += value == nullptr ? 0 : value->size();
  }
  if (!in.complete() || count == 0) return Outcome::malformed;
  reply.integer(values.size());
  for (const std::string* const value : values) reply.integer(value == nullptr ? 0 : 1).text(value == nullptr ? std::string_view() : *value);
  return Outcome::done;
}

StoreServer::Loop::Outcome StoreServer::Loop::carry_out(Session& session, Op op, Reader& in, Writer& reply) {
  switch (op) {
    case Op::set: {
      const std::string_view key = in.text();
      const std::string_view value = in.text();
      if (!in.complete()) return Outcome::malformed;
      table_.set(key, value);
      touched_.emplace_back(key);
      return Outcome::done;
    }
    case Op::try_get: {
      const std::string_view key = in.text();
      if (!in.complete()) return Outcome::malformed;
      if (const auto secret = secrets_.find(key); secret != secrets_.end()) {
        reply.text(secret->second.view());
        base::clear_vector_registers();
        return Outcome::done;
      }
      const std::string* value = table_.find(key);
      if (value == nullptr) return Outcome::absent;
      reply.text(*value);
      return Outcome::done;
    }
    case Op::try_get_all: return read_all(in, reply);
    case Op::add: {
      const std::string_view key = in.text();
      const auto amount = static_cast<std::int64_t>(in.integer());
      if (!in.complete()) return Outcome::malformed;
      reply.integer(static_cast<std::uint64_t>(table_.add(key, amount)));
      touched_.emplace_back(key);
      return Outcome::done;
    }
    case Op::compare_set: {
      const std::string_view key = in.text();
      const std::string_view expected = in.text();
      const std::string_view desired = in.text();
      if (!in.complete()) return Outcome::malformed;
      reply.text(table_.compare_set(key, expected, desired));
      touched_.emplace_back(key);
      return Outcome::done;
    }
    case Op::erase: {
      const std::string_view key = in.text();
      if (!in.complete()) return Outcome::malformed;
      reply.integer(table_.erase(key) ? 1 : 0);
      return Outcome::done;
    }
    case Op::num_keys:
      if (!in.complete()) return Outcome::malformed;
      reply.integer(table_.size());
      return Outcome::done;
    case Op::will: return take_will(session, in);
    default: return Outcome::malformed;
  }
}

StoreServer::Loop::Outcome StoreServer::Loop::take_will(Session& session, Reader& in) {
  const std::uint64_t count = in.integer();
  decltype(session.will) will;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    std::string key(in.text());
    will.emplace_back(std::move(key), in.text());
  }
  if (!in.complete()) return Outcome::malformed;
  if (will.size() > most_bequests) throw InvalidArgument(fmt::format("a connection leaves at most {} keys", most_bequests));
  for (const auto& [key, value] : will) Table::check(options_.limits, key, value);
  session.will = std::move(will);
  return Outcome::done;
}

void StoreServer::Loop::park(Id id, Session& session, std::uint64_t request, std::vector<std::string> keys, std::int64_t timeout_ms, Op op) {
  // A key set in this batch is in the table already; the waiters for it are woken when the batch is done.
  if (Waiters::first_missing(keys, table_) == nullptr) {
    Writer reply(Status::ok, request);
    if (op == Op::get) reply.text(*table_.find(keys.front()));
    send(session, reply.finish());
    return;
  }
  Waiter waiter{id, request, op == Op::get, std::move(keys), {}};
  const std::size_t bytes = waiter.bytes();
  if (session.waiting.size() >= options_.most_waiting || session.waiting_bytes + bytes > options_.most_waiting_bytes) {
    send(session, Writer(Status::invalid, request)
                      .text(fmt::format("one connection waits for more than the store remembers ({} requests, {} bytes of keys)",
                                        options_.most_waiting, options_.most_waiting_bytes))
                      .finish());
    return;
  }
  const auto timeout = std::chrono::milliseconds(std::clamp<std::int64_t>(timeout_ms, 0, longest_wait_ms_of_request));
  waiter.expires = Clock::now() + timeout;
  session.waiting.insert(waiters_.park(std::move(waiter), table_));
  session.waiting_bytes += bytes;
}

// Takes the waiters out one by one, since an answer may end a session and with it other waiters, and the session's will may set further keys.
void StoreServer::Loop::wake_waiters() {
  while (!touched_.empty()) {
    const std::vector<std::string> keys = std::exchange(touched_, {});
    for (const std::string& key : keys) {
      while (const auto done = waiters_.complete(key, table_)) answer_waiter(done->first, done->second, Status::ok);
    }
  }
}

void StoreServer::Loop::answer_waiter(std::uint64_t id, const Waiter& waiter, Status status) {
  Session& session = sessions_.at(waiter.session);
  session.waiting.erase(id);
  session.waiting_bytes -= waiter.bytes();
  for_client(waiter.session, [&] {
    Writer reply(status, waiter.request);
    if (status == Status::expired) {
      int named = 0;
      for (const std::string& key : waiter.keys) {
        if (table_.find(key) == nullptr && named++ < most_missing_named) reply.text(key);
      }
    } else if (waiter.wants_value) {
      reply.text(*table_.find(waiter.keys.front()));
    }
    send(session, reply.finish());
    flush(waiter.session, session);
  });
}

}  // namespace unisono::store
