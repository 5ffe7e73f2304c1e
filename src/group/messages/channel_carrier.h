#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordination/coordination.h"
#include "coordination/failure_attribution.h"
#include "engines/message.h"
#include "unisono/engine.h"

namespace unisono::group {

/// The channels by which elements travel between ranks of different hosts. They are the engine's, or the link's where the engine has none.
struct Channels {
  std::function<std::unique_ptr<Task>(const void* data, std::size_t bytes, int peer, std::uint32_t channel)> send;
  std::function<std::unique_ptr<Task>(void* data, std::size_t bytes, int peer, std::uint32_t channel)> recv;
  std::function<std::unique_ptr<Task>(std::size_t bytes, int peer, std::uint32_t channel)> discard;
  std::uint32_t largest = 32767;
  std::size_t inline_bytes = std::size_t{4} << 10;  ///< of a message: up to so many stand in its notice, for which no channel is needed
};
/// Bytes of the longest message of the library itself (DeviceMessages). Messages of up to so many are words of their notice, which its code covers.
inline constexpr std::size_t longest_own_message = 64;
/// `engine_is_on_link`: it works on our connections, as notices do.
Channels channels_of(Engine& engine, coordination::Coordination& coordination, bool engine_is_on_link);

/// Carries messages between ranks of different hosts. A short notice goes ahead of each and holds its header. The elements stand in the notice where
/// they are few. Else they follow on a channel of their own, which is read when a receive has taken the message. A message waits at its sender while
/// too many that were announced before have not been returned by `next` there. Peers are ranks in the group.
class ChannelCarrier final : public engines::MessageCarrier {
 public:
  /// The carrier sends notices by `tell(rank, notice, elements)`; the elements follow the notice. `poll` takes what has come. `rank`: this rank, for
  /// errors.
  struct Parts {
    int rank = 0;
    std::function<void(int rank, std::string_view notice, std::span<const std::byte> elements)> tell;
    std::function<void()> poll;
    Channels channels;
    /// Makes the attribution that finds out why a channel broke; null: its exception is thrown as it is.
    std::function<std::unique_ptr<coordination::FailureAttribution>()> attribution = {};
  };
  explicit ChannelCarrier(Parts parts);

  std::unique_ptr<Task> send(int peer, const engines::MessageHeader& header, const void* data) override;
  std::optional<engines::AnnouncedMessage> next(int peer) override;
  void progress(int) override {}
  bool poll() override {
    parts_.poll();
    return true;
  }
  void deliver(int peer, std::uint64_t ticket, const engines::MessageHeader& header, engines::Delivery& delivery) override;
  void advance(int peer, engines::Delivery& delivery) override;
  bool withdraw(int peer, std::uint64_t ticket, engines::Delivery& delivery) noexcept override;

  /// Takes a notice of a message from that rank. From any thread.
  void take(int peer, std::string notice);
  /// Takes that rank's report of the messages that it has taken. From any thread.
  void take_report(int peer, std::string_view notice);

 private:
  class SendTask;
  class ChannelTask;
  struct Announced {
    engines::MessageHeader header;
    std::uint32_t channel = 0;  // 0: the elements are here
    std::string notice = {};    // with the elements at its end, where they are here

    std::string_view elements() const { return std::string_view(notice).substr(notice.size() - (channel == 0 ? header.bytes : 0)); }
  };
  struct Destination {
    std::uint64_t messages = 0;           // announced so far
    std::uint64_t announced = 0;          // the cost of these at the receiver
    std::atomic<std::uint64_t> taken{0};  // of that, as far as the receiver has reported it
    std::list<SendTask*> waiting;         // in order, for room
  };
  struct Source {
    std::map<std::uint64_t, Announced> messages;  // by ticket: those whose elements nobody has asked for
    std::uint64_t tickets = 0, returned = 0;      // the last one given to a message, and the last one that `next` has returned
    std::uint64_t taken = 0, reported = 0;        // the cost of the messages that `next` has returned, in all and as the sender knows it
  };
  Destination& destination_of(int peer) {
    const std::lock_guard lock(mutex_);
    return destinations_[peer];
  }
  void forget(int peer, std::uint64_t ticket);
  void check_channel(int peer, std::uint64_t ticket, std::uint32_t channel) const;

  Parts parts_;
  // The mutex guards both lists and the sources, since notices come from any thread. A destination itself is used by the thread that sends, but for
  // its `taken`. A rank gets its entry with its first message.
  mutable std::mutex mutex_;
  std::unordered_map<int, Destination> destinations_;
  std::unordered_map<int, Source> sources_;
};

}  // namespace unisono::group
