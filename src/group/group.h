#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/secret.h"
#include "coordination/coordination.h"
#include "group/calls/collective_calls.h"
#include "group/fork_guard.h"
#include "group/messages/message_calls.h"
#include "unisono/process_group.h"

namespace unisono::group {

/// What keeps the objects of a group from being changed, replaced and repeated on their way between hosts. Elements that travel as they are have no
/// codes; objects have, because somebody decodes them.
class Seals {
 public:
  enum class Need {
    none,        ///< nobody can change what travels: on one host, over TLS, over loopback
    codes,       ///< every object carries a code
    impossible,  ///< the ranks know no secret that others do not
  };
  /// `engine`: the name of the one that moves the bytes between hosts.
  Seals(const coordination::Coordination& coordination, std::string_view engine);

  Need need() const { return need_; }
  const base::Secret& secret() const { return secret_; }
  /// Returns the text by which no other group is known.
  const std::string& group() const { return group_; }
  /// Returns the number of this rank's next object, which no other object of this rank in this group has.
  std::uint64_t next();
  /// Takes the number of an object of a rank, which came by a collective (`way` any_collective) or by messages with the tag `way`. Returns false
  /// where it is not above the last one that came this way: it was sent before, and is repeated.
  bool accept(int from, std::int64_t way, std::uint64_t number);
  static constexpr std::int64_t any_collective = INT64_MIN;

 private:
  Need need_ = Need::none;
  base::Secret secret_;
  std::string group_;
  std::mutex mutex_;
  std::uint64_t own_ = 0;
  std::map<std::pair<int, std::int64_t>, std::uint64_t> last_;
};

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
