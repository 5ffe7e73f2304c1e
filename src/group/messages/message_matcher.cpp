#include "group/messages/message_matcher.h"

#include <algorithm>

namespace unisono::group {
namespace {

using engines::AnnouncedMessage;
using engines::MessageCall;
using engines::MessageHeader;

MessageHeader header_of(const MessageCall& call) { return {.bytes = call.data.bytes(), .tag = call.tag, .kind = engines::kind_of(call)}; }

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

class MessageMatcher::ProbeTask final : public Task {
 public:
  ProbeTask(MessageMatcher& matcher, const MessageCall& call) : matcher_(matcher), call_(call) { matcher_.probes_.push_back(this); }
  ~ProbeTask() override { matcher_.probes_.remove(this); }

  bool advance() override {
    if (arrival_.source >= 0) return true;
    matcher_.pump();
    const auto found = matcher_.first_unexpected(call_.peer, call_.tag);
    if (found == matcher_.unexpected_.end()) return false;
    const MessageHeader& header = found->second;
    arrival_ = {.source = found->first.first, .tag = header.tag, .kind = header.kind, .bytes = header.bytes};
    matcher_.probes_.remove(this);
    return true;
  }
  std::vector<int> waiting_for() const override { return arrival_.source >= 0 ? std::vector<int>() : matcher_.possible_sources(call_.peer); }
  bool any_will_do() const override { return call_.peer < 0; }
  Arrival arrival() const override { return arrival_; }
  const MessageCall& call() const { return call_; }

 private:
  MessageMatcher& matcher_;
  MessageCall call_;
  Arrival arrival_;
};

MessageMatcher::MessageMatcher(int rank, std::vector<Route> routes) : rank_(rank), routes_(std::move(routes)) {
  for (const Route& route : routes_) {
    if (route.carrier != nullptr && std::ranges::find(carriers_, route.carrier) == carriers_.end()) carriers_.push_back(route.carrier);
  }
}

void MessageMatcher::note_receives(int peer) {
  const Route& route = routes_[static_cast<std::size_t>(peer)];
  route.carrier->note_receives(route.peer, posted_for(peer).first != nullptr || posted_for_any_.first != nullptr);
}

std::unique_ptr<Task> MessageMatcher::send(const MessageCall& call) {
  note_receives(call.peer);
  const Route& route = routes_[static_cast<std::size_t>(call.peer)];
  if (route.peer == call.peer) return route.carrier->send(route.peer, header_of(call), call.data.data());
  return std::make_unique<SendTask>(route, call);
}
engines::MessageCarrier::Tried MessageMatcher::try_send(const MessageCall& call) {
  const Route& route = routes_[static_cast<std::size_t>(call.peer)];
  return route.carrier->try_send(route.peer, header_of(call), call.data.data());
}
std::unique_ptr<Task> MessageMatcher::probe(const MessageCall& call) { return std::make_unique<ProbeTask>(*this, call); }

std::vector<int> MessageMatcher::possible_sources(int peer) const {
  std::vector<int> sources;
  for (int source = 0; source < static_cast<int>(routes_.size()); ++source) {
    if (could_come_from(peer, source)) sources.push_back(source);
  }
  return sources;
}

std::optional<std::pair<int, MessageHeader>> MessageMatcher::unclaimed(int peer) const {
  const auto found = first_unexpected(peer, any_tag);  // messages with other tags are the library's own
  if (found == unexpected_.end()) return std::nullopt;
  return std::pair(found->first.first, found->second);
}

MessageMatcher::Unexpected::const_iterator MessageMatcher::first_unexpected(int peer, int tag) const {
  auto message = peer < 0 ? unexpected_.begin() : unexpected_.lower_bound({peer, 0});
  for (; message != unexpected_.end(); ++message) {
    const int source = message->first.first;
    if (peer >= 0 && source != peer) break;
    if (could_come_from(peer, source) && engines::takes_tag(tag, message->second.tag)) return message;
  }
  return unexpected_.end();
}

PostedReceive* MessageMatcher::Receives::find(int tag) const {
  PostedReceive* receive = first;
  while (receive != nullptr && !receive->takes(tag)) receive = receive->next_;
  return receive;
}

void MessageMatcher::Receives::push_back(PostedReceive& receive) noexcept {
  receive.next_ = nullptr;
  receive.previous_ = last;
  (last != nullptr ? last->next_ : first) = &receive;
  last = &receive;
}

void MessageMatcher::Receives::remove(PostedReceive& receive) noexcept {
  (receive.previous_ != nullptr ? receive.previous_->next_ : first) = receive.next_;
  (receive.next_ != nullptr ? receive.next_->previous_ : last) = receive.previous_;
}

void MessageMatcher::post(PostedReceive& receive) {
  if (const auto found = first_unexpected(receive.peer_, receive.tag_); found != unexpected_.end()) {
    const auto [source, ticket] = found->first;
    const AnnouncedMessage message{found->second, ticket};
    unexpected_.erase(found);
    return give_to(receive, source, message);
  }
  if (receive.peer_ >= 0 && posted_.empty()) posted_.resize(routes_.size());
  receive.is_posted_ = true;
  receive.number_ = ++numbers_;
  list_of(receive).push_back(receive);
}

void MessageMatcher::unpost(PostedReceive& receive) noexcept {
  list_of(receive).remove(receive);
  receive.is_posted_ = false;
}

bool MessageMatcher::is_wanted_from(int source) const {
  if (posted_for(source).first != nullptr || (posted_for_any_.first != nullptr && source != rank_)) return true;
  return std::ranges::any_of(probes_, [&](const ProbeTask* probe) { return could_come_from(probe->call().peer, source); });
}

// The first receive from a source looks for all of them: whoever advances one advances those that were posted before it, too. Messages of other
// sources need not be moved as often as one that somebody waits for.
void MessageMatcher::look_for(const PostedReceive& receive) {
  constexpr unsigned looks_at_one = 16;
  if (receive.previous_ != nullptr) return;
  if (receive.peer_ < 0 || ++looks_ % looks_at_one == 0) return pump();
  // A message that has been announced is taken before more is read, so that its elements go where they are wanted.
  pump_from(receive.peer_);
  engines::MessageCarrier* const carrier = routes_[static_cast<std::size_t>(receive.peer_)].carrier;
  if (receive.is_posted_ && carrier != nullptr && carrier->poll()) pump_from(receive.peer_);
}

void MessageMatcher::pump() {
  for (engines::MessageCarrier* const carrier : carriers_) carrier->poll();
  for (int source = 0; source < static_cast<int>(routes_.size()); ++source) pump_from(source);
}

// A message that no receive and no probe could take stays where it is, so that its sender notices.
void MessageMatcher::pump_from(int source) {
  const Route& route = routes_[static_cast<std::size_t>(source)];
  if (route.carrier == nullptr) return;
  route.carrier->progress(route.peer);
  while (is_wanted_from(source)) {
    const auto message = route.carrier->next(route.peer);
    if (!message) break;
    give(source, *message);
  }
}

void MessageMatcher::give(int source, const AnnouncedMessage& message) {
  PostedReceive* const from_source = posted_for(source).find(message.header.tag);
  PostedReceive* const from_any = source == rank_ ? nullptr : posted_for_any_.find(message.header.tag);
  PostedReceive* const receive = from_any == nullptr || (from_source != nullptr && from_source->number_ < from_any->number_) ? from_source : from_any;
  if (receive == nullptr) {
    unexpected_.emplace(std::pair(source, message.ticket), message.header);
    return;
  }
  unpost(*receive);
  give_to(*receive, source, message);
}

void MessageMatcher::give_to(PostedReceive& receive, int source, const AnnouncedMessage& message) {
  if (receive.reports_) {
    receive.is_reported_ = true;
    given_.push_back(receive);
  }
  receive.take(source, message);
}

void MessageMatcher::forget(PostedReceive& receive) noexcept {
  given_.remove(receive);
  receive.is_reported_ = false;
}

PostedReceive* MessageMatcher::next_given() noexcept {
  PostedReceive* const receive = given_.first;
  if (receive != nullptr) forget(*receive);
  return receive;
}

}  // namespace unisono::group
