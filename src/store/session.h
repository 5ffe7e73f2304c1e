#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "store/authentication.h"
#include "store/wire.h"

namespace unisono::store {

/// One connection as the server sees it.
struct Session {
  enum class Stage {
    greeting,  ///< nothing is known of the other side yet
    hello,     ///< it speaks our version
    proof,     ///< it was challenged
    open,      ///< it may ask
    closing,   ///< it hears why it was refused; what it still says is thrown away
  };

  base::FileDescriptor fd;
  std::string source;  ///< numeric address, for messages
  bool trusted = false;
  base::Clock::time_point since{};  ///< it was accepted
  Stage stage = Stage::greeting;
  Exchange exchange;
  FrameBuffer in;
  std::string out;
  std::size_t sent = 0;                                   ///< bytes of `out` that are on their way
  std::set<std::uint64_t> waiting;                        ///< its parked requests
  std::size_t waiting_bytes = 0;                          ///< what their keys take
  std::vector<std::pair<std::string, std::string>> will;  ///< keys and values to be set when it ends, where nobody has set them
  base::Clock::time_point expires = base::Clock::time_point::max();
  std::uint32_t interest = 0;  ///< what epoll watches for

  /// It has not proved itself, and may yet.
  bool pending() const { return stage == Stage::greeting ? !trusted : stage == Stage::hello || stage == Stage::proof; }
  /// It takes one of the few places of those that have not proved themselves, be it that it was refused.
  bool takes_place() const { return !trusted && stage != Stage::open; }
  std::size_t unsent() const { return out.size() - sent; }
};

}  // namespace unisono::store
