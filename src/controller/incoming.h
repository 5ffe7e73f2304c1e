#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <vector>

#include "controller/frame.h"
#include "group/progress/work_state.h"
#include "unisono/detail/remote_call.h"
#include "unisono/work.h"

namespace unisono::controller {

/// The rest of a frame whose head was received, on its way in.
///
/// The steps, of which each begins once nothing is awaited: the constructor, `open`, `start_parts`, `check` and `take`. The link is in use in the
/// constructor and in `start_parts` alone. A receiver that starts its receives never waits inside it, and may leave and go on later.
class Incoming {
 public:
  enum class Receives { wait, start };

  /// Throws ProtocolError for a head that no sender makes.
  Incoming(FrameLink& link, const Head& head, Receives receives);
  ~Incoming();
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  /// Returns what has to end before the next step; null: nothing. Throws the error of the connection.
  detail::WorkState* awaited();
  /// Whether the head has all of it: no step takes time, and no memory is asked for.
  bool is_inside() const { return head_.parts == 0 && head_.has_content == 0; }
  bool is_open() const { return is_open_; }
  /// Checks sizes, and makes the memory of the parts. What that throws is `error`, and the parts are thrown away when they come. Throws ProtocolError
  /// if somebody has changed what has come.
  void open(const detail::PartMemory& memory);
  void start_parts();
  /// Throws ProtocolError if somebody has changed the parts.
  void check() const;
  /// Returns why the frame is of no use, though the connection is: its memory could not be made, or it is above the limit of objects.
  const std::exception_ptr& error() const { return error_; }
  detail::Frame take();

 private:
  /// `data`: null for what is thrown away.
  void receive(void* data, std::size_t bytes);
  void make_memory(const detail::PartMemory& memory);

  FrameLink& link_;
  const Head head_;
  const Receives how_;
  std::vector<std::byte> content_;
  std::vector<detail::FramePart> parts_;
  std::deque<Work> receives_;
  bool is_open_ = false;
  std::exception_ptr error_;
};

}  // namespace unisono::controller
