#pragma once

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "engines/message.h"
#include "unisono/task.h"

namespace unisono::group {

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
  std::unique_ptr<Task> recv(const engines::MessageCall& call);
  /// Makes a task that is done when the message has come that the next receive from there with that tag will take. The message stays; `data` does not
  /// count.
  std::unique_ptr<Task> probe(const engines::MessageCall& call);

 private:
  class SendTask;
  class RecvTask;
  class ProbeTask;

  bool could_come_from(const engines::MessageCall& call, int source) const { return call.peer < 0 ? source != rank_ : call.peer == source; }
  bool is_wanted_from(int source) const;
  std::vector<int> possible_sources(const engines::MessageCall& call) const;
  /// Takes the messages that have come, and gives them to the receives that want them.
  void pump();
  void give(int source, const engines::AnnouncedMessage& message);

  int rank_;
  std::vector<Route> routes_;
  std::vector<engines::MessageCarrier*> carriers_;                 // each carrier of the routes once
  std::vector<std::deque<engines::AnnouncedMessage>> unexpected_;  // by source, in order: no receive has taken them
  std::vector<RecvTask*> posted_;                                  // in order: they have no message yet
  std::list<const ProbeTask*> probes_;                             // they have found nothing yet
};

}  // namespace unisono::group
