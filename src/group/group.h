#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "group/calls/collective_calls.h"
#include "group/fork_guard.h"
#include "group/messages/message_calls.h"
#include "group/seals.h"
#include "unisono/process_group.h"

namespace unisono::group {

/// The one way to the engines: who the members are, what becomes of failures, what every call goes through, the collectives and the messages.
class Group : public std::enable_shared_from_this<Group> {
 public:
  explicit Group(GroupParts parts);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const GroupFacts& facts() const { return facts_; }
  GroupErrors& errors() { return errors_; }
  const std::string& name() const { return facts_.name(); }
  int rank() const { return facts_.rank(); }
  int size() const { return facts_.size(); }
  GroupCore& core() const { return *parts_.core; }
  coordination::Coordination& coordination() const { return parts_.core->coordination(); }
  /// The codes of the objects that travel in it.
  Seals& seals() { return seals_; }

  CollectiveCalls& collectives() { return collectives_; }
  MessageCalls& messages() { return messages_; }

  /// Waits, at most that long, for what is under way, then leaves the group: no call is possible afterwards.
  void close(std::chrono::milliseconds at_most, coordination::Leaving how);
  /// Leaves the group without waiting, after a failure.
  void drop(coordination::Leaving how);

 private:
  void end_pending();
  /// Waits for what is under way. What takes longer than a moment is named in the log.
  void drain(std::chrono::milliseconds at_most);

  const GroupParts parts_;
  GroupFacts facts_;
  GroupErrors errors_;
  DeviceGroup devices_;
  GroupCalls calls_;
  CollectiveCalls collectives_;
  MessageCalls messages_;
  Seals seals_;
  const int exceptions_;  // that were under way when the group was made
};

}  // namespace unisono::group
