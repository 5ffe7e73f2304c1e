// Handles the frames of clients and answers requests.
#include <vector>

#include "store/server.h"
#include "unisono/error.h"

namespace unisono::store {

void StoreServer::forward_by(const std::function<std::unique_ptr<Forwarder>(Forwarder::Owner)>& make) {
  auto forwarder = make({.answer = [this](Id id, std::string frame) { send_answer(id, std::move(frame)); }, .lose = [this] { lose_forwarder(); }});
  const std::lock_guard lock(mutex_);
  forwarder_ = std::move(forwarder);
}

void StoreServer::send_answer(Id id, std::string frame) {
  const std::lock_guard lock(mutex_);
  const auto session = sessions_.find(id);
  if (session == sessions_.end() || session->second.stage != Session::Stage::open) return;
  for_client(id, [&] {
    session->second.send(std::move(frame));
    flush(id, session->second);
  });
}

void StoreServer::lose_forwarder() {
  const std::lock_guard lock(mutex_);
  std::vector<Id> forwarded;
  for (const auto& [id, session] : sessions_) {
    if (session.is_forwarded) forwarded.push_back(id);
  }
  for (const Id id : forwarded) close(id);
}

void StoreServer::handle_frames(Id id, Session& session) {
  using Stage = Session::Stage;
  while (session.stage != Stage::closing && session.stage != Stage::encryption && !session.is_full()) {
    if (session.stage == Stage::greeting) {
      if (!handshake_.begin(session)) return close(id);
      if (session.stage == Stage::greeting) break;
      continue;
    }
    const auto frame = handshake_.take_frame(session);
    if (!frame) break;
    if (session.stage == Stage::open) answer(id, session, *frame);
    else handshake_.receive(session, *frame);
  }
  const bool stopped = session.is_full();
  flush(id, session);
  // Where the client took all of it meanwhile, no event tells that the requests that are left can be answered.
  if (stopped && sessions_.contains(id)) unread_.insert(id);
}

void StoreServer::answer(Id id, Session& session, std::string_view frame) {
  using Outcome = ServedKeys::Outcome;
  Reader in(frame);
  const Op op = static_cast<Op>(in.byte());
  const std::uint64_t request = in.integer();
  Writer reply(Status::ok, request);
  try {
    if (session.is_forwarded) return forwarder_ ? forwarder_->forward(id, frame) : void();
    if (op == Op::relay) {
      session.is_forwarded = forwarder_ != nullptr;
      return session.send(Writer(forwarder_ ? Status::ok : Status::absent, request).finish());
    }
    switch (keys_.carry_out(id, session, request, op, in, reply)) {
      case Outcome::done: return session.send(reply.finish());
      case Outcome::absent: return session.send(Writer(Status::absent, request).finish());
      case Outcome::parked: return;
      case Outcome::malformed:
        handshake_.log_rejected(session, "a request of its is malformed");
        return handshake_.refuse(session, request, "the request is malformed");
    }
  } catch (const InvalidArgument& error) {
    session.send(Writer(Status::invalid, request).text(error.message()).finish());
  }
}

// Takes the waiters out one by one, since an answer may end a session and with it other waiters, and the session's will may set further keys.
void StoreServer::answer_waiters() {
  while (const auto complete = keys_.take_complete()) answer_waiter(complete->first, complete->second, Status::ok);
}

// The session may be gone afterwards.
void StoreServer::answer_waiter(std::uint64_t id, const Waiter& waiter, Status status) {
  Session& session = sessions_.at(waiter.session);
  session.waiting.erase(id);
  session.waiting_bytes -= waiter.bytes();
  for_client(waiter.session, [&] {
    Writer reply(status, waiter.request);
    keys_.answer(waiter, status, reply);
    session.send(reply.finish());
    flush(waiter.session, session);
  });
}

}  // namespace unisono::store
