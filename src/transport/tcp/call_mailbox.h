#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "unisono/error.h"

namespace unisono::transport {

/// The messages of a peer about the calls of groups, until they are taken.
class CallMailbox {
 public:
  /// Throws ProtocolError where the peer has sent too much.
  void keep(std::uint64_t group, std::string message) {
    Mail& mail = mail_[group];
    if (mail.bytes + message.size() > most_of_group || bytes_ + message.size() > most) {
      throw ProtocolError("more messages of calls than anybody makes");
    }
    bytes_ += message.size();
    mail.bytes += message.size();
    mail.messages.push_back(std::move(message));
  }
  /// Takes the oldest message of the group. Returns false where there is none.
  bool take(std::uint64_t group, std::string& into) {
    const auto found = mail_.find(group);
    if (found == mail_.end() || found->second.messages.empty()) return false;
    into.swap(found->second.messages.front());
    found->second.messages.pop_front();
    found->second.bytes -= into.size();
    bytes_ -= into.size();
    return true;
  }
  void end_group(std::uint64_t group) {
    const auto found = mail_.find(group);
    if (found == mail_.end()) return;
    bytes_ -= found->second.bytes;
    mail_.erase(found);
  }

 private:
  /// Bytes of untaken messages, beyond which a peer is taken for broken: of one group, and of all. A group has few calls under way, but a rank may be
  /// in many groups whose calls another one has not begun yet.
  static constexpr std::size_t most_of_group = std::size_t{16} << 20, most = std::size_t{1} << 30;
  struct Mail {
    std::deque<std::string> messages;
    std::size_t bytes = 0;
  };
  std::size_t bytes_ = 0;  ///< of all messages
  std::unordered_map<std::uint64_t, Mail> mail_;
};

}  // namespace unisono::transport
