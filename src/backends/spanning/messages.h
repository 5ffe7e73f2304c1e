#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/backend.h"

namespace unisono::backends {

/// Messages between ranks of different hosts. A short notice goes ahead of each and says what it is; what it carries follows on a channel of its own,
/// or stands in the notice if it is small. The receiver picks by sender and tag, in the order of the sends, and then asks for the bytes.
class Messages {
 public:
  struct Parts {
    int rank = 0, size = 1;
    std::function<bool(int rank)> is_remote;
    std::function<void(int rank, std::string text)> tell;
    std::function<std::unique_ptr<Task>(const void* data, std::size_t bytes, int peer, std::uint32_t channel)> send;
    std::function<std::unique_ptr<Task>(void* data, std::size_t bytes, int peer, std::uint32_t channel)> recv;
    std::function<std::unique_ptr<Task>(std::size_t bytes, int peer, std::uint32_t channel)> discard = {};
    std::uint32_t largest_channel = 32767;
    std::function<void()> poll;
  };
  explicit Messages(Parts parts);

  std::unique_ptr<Task> send(const MessageCall& call);
  /// `call.peer` < 0: from anybody on another host.
  std::unique_ptr<Task> recv(const MessageCall& call);
  std::unique_ptr<Task> probe(const MessageCall& call);
  /// A notice of a message from that rank has come.
  void take(int peer, std::string_view text);

 private:
  class SendTask;
  class RecvTask;
  class ProbeTask;
  struct Header {
    std::uint64_t bytes = 0;
    std::int32_t tag = 0;
    std::uint32_t kind = 0;  // dtype and label
    std::uint32_t channel = 0;
    std::uint64_t number = 0;  // counts the notices as they come
    std::string inlined = {};  // what it carries, where that is small
  };
  std::vector<int> possible_sources(const MessageCall& call) const;
  /// Gives what has arrived to the receives that want it, in the order in which these were posted.
  void match();
  /// Throws ProtocolError where the bytes that come next on the channel are another message's.
  void check_channel(int source, const Header& header);

  Parts parts_;
  std::vector<std::uint64_t> sent_;  // to each rank so far
  std::mutex mutex_;                 // of what follows: notices come from whoever polls
  std::vector<std::deque<Header>> arrived_;
  std::uint64_t noticed_ = 0;
  std::vector<RecvTask*> posted_;  // that have nothing yet
};

}  // namespace unisono::backends
