#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "coordination/coordination.h"
#include "engines/message.h"
#include "group/messages/message_matcher.h"
#include "unisono/engine.h"

namespace unisono::group {

/// Messages of device memory. The two sides find each other by messages of host memory, with all that holds for these (tags, receives from any
/// source, mismatches). The sender announces the message, the receiver answers, and then both give the message to the engine of devices, in the order
/// in which the receiver answered. A sender waits for its receiver, however small the message.
class DeviceMessages {
 public:
  DeviceMessages(MessageMatcher& host, coordination::Coordination& coordination, Engine& engine)
      : host_(host), coordination_(coordination), engine_(engine) {}
  std::unique_ptr<Task> send(const engines::MessageCall& call);
  std::unique_ptr<Task> recv(const engines::MessageCall& call);

 private:
  class Side;
  class Send;
  class Recv;
  /// The announcement of a sender.
  struct Announcement {
    std::uint64_t dtype = 0, count = 0, ticket = 0;
  };
  /// The answer of the receiver. Nothing is sent where the two do not fit.
  struct Answer {
    std::uint64_t fits = 0, number = 0;
  };
  MessageMatcher& host_;
  coordination::Coordination& coordination_;
  Engine& engine_;
  std::map<int, std::uint64_t> announced_;  // by destination: the number of announcements
  std::map<int, std::uint64_t> answered_;   // by source: the number of messages it may send
  std::map<int, std::uint64_t> given_;      // by destination: the number of messages the engine has
};

}  // namespace unisono::group
