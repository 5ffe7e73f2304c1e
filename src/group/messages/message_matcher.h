#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engines/message.h"
#include "unisono/task.h"

namespace unisono::group {

/// A receive as the matcher sees it: the messages that it takes, and its place among the others.
class PostedReceive {
 public:
  PostedReceive(const PostedReceive&) = delete;
  PostedReceive& operator=(const PostedReceive&) = delete;

 protected:
  PostedReceive() = default;
  virtual ~PostedReceive() = default;

  /// Sets what the receive wants, before it is posted.
  void want(int peer, int tag) {
    peer_ = peer;
    tag_ = tag;
    is_reported_ = false;
  }
  int peer() const { return peer_; }
  bool is_posted() const { return is_posted_; }
  /// Has the matcher keep it in the list of those that have been given a message (MessageMatcher::given), so that nobody need ask it for that.
  void report() { reports_ = true; }
  bool is_reported() const { return is_reported_; }

 private:
  friend class MessageMatcher;
  bool takes(int tag) const { return engines::takes_tag(tag_, tag); }
  virtual void take(int source, const engines::AnnouncedMessage& message) = 0;

  PostedReceive *previous_ = nullptr, *next_ = nullptr;  // among the posted ones
  std::uint64_t number_ = 0;                             // among them, in order
  int peer_ = -1, tag_ = 0;
  bool is_posted_ = false;
  bool reports_ = false, is_reported_ = false;
};

using engines::MessageCall;

/// Decides which receive of a group takes which message. A receive takes the first message of its source with its tag, in the order of the
/// sends; of several receives that want a message, the one that was posted first takes it. A receive of another length or dtype than its message, or
/// of another kind of call, takes it as well, and throws Mismatch: the elements are dropped, and the group stays usable. Carriers bring the messages
/// (shared memory on one host, channels between hosts). One thread at a time.
class MessageMatcher {
 public:
  /// The way of the messages of one rank: the carrier, and the rank's number there. No carrier: the rank is this one.
  struct Route {
    engines::MessageCarrier* carrier = nullptr;
    int peer = -1;
  };
  /// `routes`: one for every rank of the group.
  MessageMatcher(int rank, std::vector<Route> routes);

  std::unique_ptr<Task> send(const engines::MessageCall& call);
  /// Sends a message if it can leave at once, whole.
  engines::MessageCarrier::Tried try_send(const engines::MessageCall& call);
  /// Whether a small send had better lend its memory for a moment: see MessageCarrier.
  engines::MessageCarrier::Lending lends(const engines::MessageCall& call) {
    const Route& route = routes_[static_cast<std::size_t>(call.peer)];
    return route.carrier->lends(route.peer, call.data.bytes());
  }
  /// Whether a send leaves all of the work to its receiver now: see MessageCarrier.
  bool leaves_to_receiver(const engines::MessageCall& call) {
    note_receives(call.peer);
    const Route& route = routes_[static_cast<std::size_t>(call.peer)];
    return route.carrier->leaves_to_receiver(route.peer, call.data.bytes());
  }
  /// Takes the messages that have come, and gives them to the receives that want them.
  void pump();
  /// Takes a receive out of those that report and have been given a message since they were posted; null: there is none.
  PostedReceive* next_given() noexcept;
  /// Makes a task that is done when the message has come that the next receive from there with that tag will take. The message stays; `data` does not
  /// count.
  std::unique_ptr<Task> probe(const engines::MessageCall& call);
  /// Returns the first message that has come from that rank (-1: from any), and that no receive has taken.
  std::optional<std::pair<int, engines::MessageHeader>> unclaimed(int peer) const;

  // For a receive.

  int rank() const { return rank_; }
  const Route& route_of(int source) const { return routes_[static_cast<std::size_t>(source)]; }
  std::vector<int> possible_sources(int peer) const;
  /// Gives the receive a message that has come, or posts it.
  void post(PostedReceive& receive);
  void unpost(PostedReceive& receive) noexcept;
  /// Looks for a message for a receive, where no earlier one does so.
  void look_for(const PostedReceive& receive);
  /// Gives a message to the receive that wants it.
  void give(int source, const engines::AnnouncedMessage& message);
  /// Takes a receive out of those that have been given a message.
  void forget(PostedReceive& receive) noexcept;

 private:
  /// Tells the carrier of a peer, before a send, whether messages of that peer are wanted.
  void note_receives(int peer);
  class SendTask;
  class ProbeTask;
  /// Receives in order. Each is in one list at most.
  struct Receives {
    PostedReceive *first = nullptr, *last = nullptr;
    PostedReceive* find(int tag) const;
    void push_back(PostedReceive& receive) noexcept;
    void remove(PostedReceive& receive) noexcept;
  };

  /// The messages that have come and no receive has taken, by source and ticket: those of a source are in their order.
  using Unexpected = std::map<std::pair<int, std::uint64_t>, engines::MessageHeader>;
  /// Returns the first of them that a receive from `peer` (-1: from any) with this tag takes, or the end.
  Unexpected::const_iterator first_unexpected(int peer, int tag) const;
  static bool could_come_from(int peer, int source, int rank) { return peer < 0 ? source != rank : peer == source; }
  bool could_come_from(int peer, int source) const { return could_come_from(peer, source, rank_); }
  /// Returns those that wait for messages of a rank alone.
  const Receives& posted_for(int source) const {
    static constexpr Receives none;
    return posted_.empty() ? none : posted_[static_cast<std::size_t>(source)];
  }
  Receives& list_of(const PostedReceive& receive) { return receive.peer_ < 0 ? posted_for_any_ : posted_[static_cast<std::size_t>(receive.peer_)]; }
  bool is_wanted_from(int source) const;
  void pump_from(int source);
  void give_to(PostedReceive& receive, int source, const engines::AnnouncedMessage& message);

  int rank_;
  std::vector<Route> routes_;
  std::vector<engines::MessageCarrier*> carriers_;  // each carrier of the routes once
  Unexpected unexpected_;
  std::vector<Receives> posted_;  // by source, as they were posted: they have no message yet. Empty until there has been one
  Receives posted_for_any_;
  std::uint64_t numbers_ = 0;           // of the receives that were posted
  Receives given_;                      // those that report, before next_given has returned them
  std::list<const ProbeTask*> probes_;  // they have found nothing yet
  unsigned looks_ = 0;
};

}  // namespace unisono::group
