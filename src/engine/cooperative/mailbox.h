#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "engine/cooperative/segment.h"
#include "unisono/backend.h"

namespace unisono::engine {

/// Messages between the ranks of a segment. Each ordered pair has a ring of bytes in shared memory; a message is a header and its elements,
/// streamed through the ring, so that of a large one the receiver copies out while the sender copies in. A small one fits whole: its send is
/// done at once. What the receiver finds in a ring before it has asked for it (another tag) is kept aside in arrival order.
/// One thread at a time.
class Mailbox {
 public:
  Mailbox(std::shared_ptr<Segment> segment, int rank);

  std::unique_ptr<Task> send(const MessageCall& call);
  std::unique_ptr<Task> recv(const MessageCall& call);
  std::unique_ptr<Task> probe(const MessageCall& call);

 private:
  class SendTask;
  class RecvTask;
  class ProbeTask;
  struct Header {
    std::uint64_t bytes = 0;
    std::int32_t tag = 0;
    std::uint32_t kind = 0;  // dtype and label
  };
  struct Stored {
    Header header;
    std::vector<std::byte> data;
    bool complete = false;
  };
  /// The message that is coming out of a ring.
  struct Incoming {
    bool active = false;
    Header header;
    std::uint64_t received = 0;
    RecvTask* receiver = nullptr;     // into its buffer, or
    std::shared_ptr<Stored> storage;  // aside, or, both null, away
  };
  struct Source {
    Incoming incoming;
    std::deque<std::shared_ptr<Stored>> stored;
  };

  void pump();
  bool pump(int source);
  bool accept(int source, const Header& header);
  bool wanted_from(int source) const;
  std::vector<int> possible_sources(const MessageCall& call) const;

  std::shared_ptr<Segment> segment_;
  int rank_;
  std::vector<Source> sources_;
  std::vector<std::deque<SendTask*>> outgoing_;  // per destination, in order; the first one writes
  std::list<RecvTask*> posted_;                  // not yet matched, in order
  std::list<const ProbeTask*> probes_;           // that have found nothing yet
};

}  // namespace unisono::engine
