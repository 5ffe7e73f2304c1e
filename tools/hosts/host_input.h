#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "hosts/frames.h"
#include "hosts/host_list.h"
#include "launch/process/poll_set.h"
#include "launch/process/stdin_pump.h"

namespace unisono::tools {

/// Passes standard input on to the hosts whose ranks get it, no faster than the slowest of them takes it.
class HostInput {
 public:
  using Send = std::function<void(std::size_t host, FrameKind kind, std::string_view bytes)>;

  HostInput(launcher::StdinTarget target, const std::vector<HostEntry>& hosts);

  void begin();
  /// Reads what there is now and hands it to `send`, with the end of the input where it has come.
  void pass(const Send& send);
  void wait_for(launcher::PollSet& set);
  /// The host's launcher has taken so many bytes.
  void note_taken(std::size_t host, std::size_t bytes);
  /// The host's launcher has ended.
  void note_end(std::size_t host) { hosts_[host].has_ended = true; }

 private:
  struct Host {
    bool gets_input = false, has_ended = false;
    std::size_t on_the_way = 0;  ///< bytes
  };
  bool may_send() const;

  launcher::StdinPump pump_;
  base::FileDescriptor input_;
  std::vector<Host> hosts_;
};

}  // namespace unisono::tools
