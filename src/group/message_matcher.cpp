#include "group/message_matcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::group {
namespace {

using engines::AnnouncedMessage;
using engines::MessageCall;
using engines::MessageHeader;

MessageHeader header_of(const MessageCall& call) { return {.bytes = call.data.bytes(), .tag = call.tag, .kind = engines::kind_of(call)}; }

std::string elements(std::uint64_t bytes, DType dtype) {
  return fmt::format("{} × {}", to_string(dtype), bytes / std::max<std::size_t>(size_of(dtype), 1));
}

}  // namespace

/// A carrier's send, in which the peer has its rank in the group. It is needed where the carrier knows the peer by another number.
class MessageMatcher::SendTask final : public Task {
 public:
  SendTask(const Route& route, const MessageCall& call)
      : peer_(call.peer), task_(route.carrier->send(route.peer, header_of(call), call.data.data())) {}
  bool advance() override { return task_->advance(); }
  std::vector<int> waiting_for() const override { return task_->waiting_for().empty() ? std::vector<int>() : std::vector<int>{peer_}; }
  bool wakes_waiter() const override { return task_->wakes_waiter(); }
  bool detach() override { return task_->detach(); }

 private:
  int peer_;
  std::unique_ptr<Task> task_;
};

class MessageMatcher::RecvTask final : public Task {
 public:
  RecvTask(MessageMatcher& matcher, const MessageCall& call) : matcher_(matcher), call_(call) {
    for (int source = 0; source < static_cast<int>(matcher_.routes_.size()); ++source) {
      if (!matcher_.could_come_from(call_, source)) continue;
      auto& unexpected = matcher_.unexpected_[static_cast<std::size_t>(source)];
      const auto found = std::ranges::find_if(unexpected, [&](const AnnouncedMessage& message) { return wants(source, message.header); });
      if (found == unexpected.end()) continue;
      take(source, *found);
      unexpected.erase(found);
      return;
    }
    matcher_.posted_.push_back(this);
  }
  ~RecvTask() override {
    if (source_ < 0) std::erase(matcher_.posted_, this);
    else if (!delivery_.is_done && route().carrier->withdraw(route().peer, message_.ticket, delivery_)) matcher_.give(source_, message_);
  }

  bool advance() override {
    if (is_over_) return true;
    // The first receive looks for all of them: whoever advances one advances those that were posted before it, too.
    if (source_ < 0 && matcher_.posted_.front() == this) matcher_.pump();
    if (source_ < 0) return false;
    if (!delivery_.is_done) route().carrier->advance(route().peer, delivery_);
    if (!delivery_.is_done) return false;
    is_over_ = true;
    if (is_wrong()) throw_mismatch();
    return true;
  }
  std::vector<int> waiting_for() const override {
    if (is_over_) return {};
    return source_ >= 0 ? std::vector<int>{source_} : matcher_.possible_sources(call_);
  }
  bool any_will_do() const override { return source_ < 0 && call_.peer < 0; }
  bool wakes_waiter() const override { return !delivery_.task || delivery_.task->wakes_waiter(); }
  Arrival arrival() const override {
    return {.source = source_, .tag = message_.header.tag, .kind = message_.header.kind, .bytes = message_.header.bytes};
  }

  const MessageCall& call() const { return call_; }
  bool wants(int source, const MessageHeader& header) const {
    return matcher_.could_come_from(call_, source) && engines::takes_tag(call_.tag, header.tag);
  }
  void take(int source, const AnnouncedMessage& message) {
    source_ = source;
    message_ = message;
    delivery_.to = is_wrong() ? nullptr : static_cast<std::byte*>(call_.data.data());
    route().carrier->deliver(route().peer, message.ticket, message.header, delivery_);
  }

 private:
  const Route& route() const { return matcher_.routes_[static_cast<std::size_t>(source_)]; }
  bool is_wrong() const { return message_.header.bytes != call_.data.bytes() || message_.header.kind != engines::kind_of(call_); }
  [[noreturn]] void throw_mismatch() const {
    const std::uint32_t own = engines::kind_of(call_);
    const bool is_other_call = message_.header.kind != own && ((message_.header.kind | own) & engines::labelled_kind) != 0;
    throw Mismatch(fmt::format("rank {} sent {}, but the receive is of {}{}", source_,
                               elements(message_.header.bytes, engines::dtype_of_kind(message_.header.kind)),
                               elements(call_.data.bytes(), call_.data.dtype()), is_other_call ? ", and by another kind of call" : ""),
                   {.operation = call_.label.empty() ? "recv" : std::string(call_.label),
                    .sequence = call_.sequence,
                    .rank = matcher_.rank_,
                    .culprit = source_,
                    .hint = "the message is gone, the group stays usable"});
  }

  MessageMatcher& matcher_;
  MessageCall call_;
  AnnouncedMessage message_;
  engines::Delivery delivery_;
  int source_ = -1;
  bool is_over_ = false;
};

class MessageMatcher::ProbeTask final : public Task {
 public:
  ProbeTask(MessageMatcher& matcher, const MessageCall& call) : matcher_(matcher), call_(call) { matcher_.probes_.push_back(this); }
  ~ProbeTask() override { matcher_.probes_.remove(this); }

  bool advance() override {
    if (arrival_.source >= 0) return true;
    matcher_.pump();
    for (int source = 0; source < static_cast<int>(matcher_.routes_.size()); ++source) {
      if (!matcher_.could_come_from(call_, source)) continue;
      for (const auto& [header, ticket] : matcher_.unexpected_[static_cast<std::size_t>(source)]) {
        if (!engines::takes_tag(call_.tag, header.tag)) continue;
        arrival_ = {.source = source, .tag = header.tag, .kind = header.kind, .bytes = header.bytes};
        matcher_.probes_.remove(this);
        return true;
      }
    }
    return false;
  }
  std::vector<int> waiting_for() const override { return arrival_.source >= 0 ? std::vector<int>() : matcher_.possible_sources(call_); }
  bool any_will_do() const override { return call_.peer < 0; }
  Arrival arrival() const override { return arrival_; }
  const MessageCall& call() const { return call_; }

 private:
  MessageMatcher& matcher_;
  MessageCall call_;
  Arrival arrival_;
};

MessageMatcher::MessageMatcher(int rank, std::vector<Route> routes) : rank_(rank), routes_(std::move(routes)), unexpected_(routes_.size()) {
  for (const Route& route : routes_) {
    if (route.carrier != nullptr && std::ranges::find(carriers_, route.carrier) == carriers_.end()) carriers_.push_back(route.carrier);
  }
}

std::unique_ptr<Task> MessageMatcher::send(const MessageCall& call) {
  const Route& route = routes_[static_cast<std::size_t>(call.peer)];
  if (route.peer == call.peer) return route.carrier->send(route.peer, header_of(call), call.data.data());
  return std::make_unique<SendTask>(route, call);
}
engines::MessageCarrier::Tried MessageMatcher::try_send(const MessageCall& call) {
  const Route& route = routes_[static_cast<std::size_t>(call.peer)];
  return route.carrier->try_send(route.peer, header_of(call), call.data.data());
}
std::unique_ptr<Task> MessageMatcher::recv(const MessageCall& call) { return std::make_unique<RecvTask>(*this, call); }
std::unique_ptr<Task> MessageMatcher::probe(const MessageCall& call) { return std::make_unique<ProbeTask>(*this, call); }

std::vector<int> MessageMatcher::possible_sources(const MessageCall& call) const {
  std::vector<int> sources;
  for (int source = 0; source < static_cast<int>(routes_.size()); ++source) {
    if (could_come_from(call, source)) sources.push_back(source);
  }
  return sources;
}

bool MessageMatcher::is_wanted_from(int source) const {
  const auto could_come = [&](const auto* task) { return could_come_from(task->call(), source); };
  return std::ranges::any_of(posted_, could_come) || std::ranges::any_of(probes_, could_come);
}

// A message that no receive and no probe could take stays where it is, so that its sender notices.
void MessageMatcher::pump() {
  for (engines::MessageCarrier* const carrier : carriers_) carrier->poll();
  for (int source = 0; source < static_cast<int>(routes_.size()); ++source) {
    const Route& route = routes_[static_cast<std::size_t>(source)];
    if (route.carrier == nullptr) continue;
    route.carrier->progress(route.peer);
    while (is_wanted_from(source)) {
      const auto message = route.carrier->next(route.peer);
      if (!message) break;
      give(source, *message);
    }
  }
}

void MessageMatcher::give(int source, const AnnouncedMessage& message) {
  const auto task = std::ranges::find_if(posted_, [&](const RecvTask* t) { return t->wants(source, message.header); });
  if (task == posted_.end()) {
    auto& unexpected = unexpected_[static_cast<std::size_t>(source)];
    // The order holds for a message that a receive has given back, too.
    unexpected.insert(std::ranges::lower_bound(unexpected, message.ticket, {}, &AnnouncedMessage::ticket), message);
    return;
  }
  RecvTask* const receiver = *task;
  posted_.erase(task);
  receiver->take(source, message);
}

}  // namespace unisono::group
