#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/detail/object_seal.h"
#include "unisono/detail/remote_call.h"
#include "unisono/process_group.h"
#include "unisono/work.h"

namespace unisono::controller {

/// What a message between a controller and a worker is about.
enum class Kind : std::uint8_t {
  // To a worker, in the order in which it deals with them.
  call,
  release,  ///< drop the object
  flush,    ///< acknowledge what is done
  cancel,   ///< leave out the call of that number if it has not begun; looked at when it comes
  regroup,  ///< the members of the job change
  end,      ///< the controller has ended in order
  // To the controller, in the order of the calls.
  result,
  error,
  cancelled,
  acknowledged,  ///< all calls up to that number are done
};

/// The first message of a frame, which has the same length for all. The rest of the frame follows: its content (a PartHead for each part, and the
/// body) in one message unless it lies inside, and a message for each part.
struct Head {
  static constexpr std::size_t room = 168;

  Kind kind = Kind::call;
  std::uint8_t has_result = 0;
  std::uint16_t has_content = 0;  ///< the content is a message of its own
  std::uint32_t parts = 0;
  std::uint64_t sequence = 0;  ///< of the call
  std::uint64_t function = 0;
  std::uint64_t object = 0;
  std::uint64_t content = 0;                ///< bytes
  std::array<std::byte, room> inside = {};  ///< between hosts the code of a content that is a message of its own
  // Between hosts: what tells the other side that nobody has changed the frame.
  std::uint64_t number = 0;
  detail::ObjectCode of_parts = {}, of_head = {};
};
static_assert(sizeof(Head) == 248 && std::is_trivially_copyable_v<Head>);

struct PartHead {
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0, unused = 0;
};

/// The connection of a controller and a worker: a group of two, of which one end sends and receives frames. One thread at a time.
class FrameLink {
 public:
  explicit FrameLink(ProcessGroup pair);
  ~FrameLink() = default;
  FrameLink(const FrameLink&) = delete;
  FrameLink& operator=(const FrameLink&) = delete;

  const ProcessGroup& pair() const { return pair_; }
  /// Ends the group for both, with that reason.
  void abort(std::string_view reason) { pair_.abort(reason); }

  /// Sends a frame, and returns when it is on its way. What keeps a part alive that has not left by then is kept until `sweep` finds that it has;
  /// that of others stays in the frame. `head`: kind, sequence, function, object.
  void send(const Head& head, detail::Frame&& frame = {});
  /// Hands over what has kept alive what has left meanwhile: its end may be the program's, and takes no lock then.
  void sweep(std::vector<std::shared_ptr<const void>>& gone);

  /// Starts to receive the next message.
  Work start_receive(void* data, std::size_t bytes);
  /// Waits for the head of the next frame, and checks it. Lets go of what leaves meanwhile.
  void receive(Head& head);
  /// Waits for the next message.
  void receive(void* data, std::size_t bytes);
  /// Waits for the next message, and throws it away.
  void discard();
  /// Tells whether a frame has come. Lets go of what has left.
  bool has_come();
  // Throw ProtocolError if somebody has changed what was received, and end the group.
  void check(const Head& head) const;
  void check_content(const Head& head, std::span<const std::byte> content) const;
  void check_parts(const Head& head, const std::vector<detail::FramePart>& parts) const;

 private:
  struct Outgoing {
    Work work;
    std::shared_ptr<const void> owner;
  };
  void start_send(const void* data, std::size_t bytes, std::shared_ptr<void>& owner);
  void seal(Head& head, std::span<const std::byte> content, const std::vector<detail::FramePart>& parts) const;

  ProcessGroup pair_;
  int peer_;
  detail::ObjectSeal sending_, receiving_;
  std::deque<Outgoing> outgoing_;
};

/// No frame has more parts, so that what is said of them is bounded.
inline constexpr std::size_t most_parts = std::size_t{1} << 20;

/// Takes a receive back, or waits for its end: nobody writes into its memory afterwards.
void let_go(Work& receive) noexcept;
/// Returns the bytes of a frame's body and parts.
std::size_t bytes_of(const detail::Frame& frame);
/// Throws InvalidArgument if a frame is above the limit of objects. `what`: "the arguments have".
void check_limit(const detail::Frame& frame, std::string_view what);

}  // namespace unisono::controller
