#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::backends {

/// Messages of device memory. The two sides find each other through the host's mailbox, with all that holds there (tags, receives from anybody,
/// mismatches): the sender announces what it has, the receiver answers that it is there, and then both give it to the engine, in the order in which
/// the receiver answered. Whoever sends waits for its receiver, however small the message.
class DeviceMessages {
 public:
  DeviceMessages(Backend& host, Engine& engine, Device device, int rank) : host_(host), engine_(engine), device_(device), rank_(rank) {}
  std::unique_ptr<Task> send(const MessageCall& call);
  std::unique_ptr<Task> recv(const MessageCall& call);

 private:
  class Send;
  class Recv;
  /// What a sender announces.
  struct Announcement {
    std::uint64_t dtype = 0, count = 0, ticket = 0;
  };
  /// What the receiver answers: nothing is sent where the two do not fit.
  struct Answer {
    std::uint64_t fits = 0, number = 0;
  };
  Backend& host_;
  Engine& engine_;
  Device device_;
  int rank_;
  std::map<int, std::uint64_t> announced_;  // by destination
  std::map<int, std::uint64_t> answered_;   // by source: how many messages it may send
  std::map<int, std::uint64_t> given_;      // by destination: how many the engine has
};

}  // namespace unisono::backends
