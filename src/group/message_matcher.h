#pragma once

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "engines/message.h"
#include "unisono/task.h"

namespace unisono::group {

using engines::MessageCall;

/// The messages of one group: which receive takes which message. A receive takes the first message of its source with its tag, in the order of the
/// sends; of several receives that want a message, the one that was posted first takes it. A receive of another length or dtype than its message, or
/// of another kind of call, takes it as well, and throws Mismatch: the elements are dropped, and the group stays usable. Carriers bring the messages
/// (shared memory on one host, channels between hosts), and know nothing of this. One thread at a time.
class MessageMatcher {
 public:
  /// How the messages of one rank of the group travel: the carrier, and the rank's name there. No carrier: the rank is this one.
  struct Route {
    engines::MessageCarrier* carrier = nullptr;
    int peer = -1;
  };
  /// `routes`: of every rank of the group.
  MessageMatcher(int rank, std::vector<Route> routes);

  std::unique_ptr<Task> send(const engines::MessageCall& call);
  std::unique_ptr<Task> recv(const engines::MessageCall& call);
  /// Done when the message has come that the next receive from there with that tag will take; takes nothing of it. `data` does not count.
  std::unique_ptr<Task> probe(const engines::MessageCall& call);

 private:
  class SendTask;
  class RecvTask;
  class ProbeTask;

  bool could_come_from(const engines::MessageCall& call, int source) const { return call.peer < 0 ? source != rank_ : call.peer == source; }
  bool is_wanted_from(int source) const;
  std::vector<int> possible_sources(const engines::MessageCall& call) const;
  /// Takes what has come, and gives it to the receives that want it.
  void pump();
  void give(int source, const engines::AnnouncedMessage& message);

  int rank_;
  std::vector<Route> routes_;
  std::vector<engines::MessageCarrier*> carriers_;                 // those of the routes
  std::vector<std::deque<engines::AnnouncedMessage>> unexpected_;  // by source, in order: that no receive has taken
  std::list<RecvTask*> posted_;                                    // that have no message yet, in order
  std::list<const ProbeTask*> probes_;                             // that have found nothing yet
};

}  // namespace unisono::group
