#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "common/child.h"
#include "hosts/frames.h"
#include "hosts/host_list.h"
#include "launch/process/poll_set.h"

namespace unisono::tools {

/// The descriptors that a RemoteHost takes, and some to spare.
inline constexpr std::size_t descriptors_per_host = 8;

/// `unisono __host` on a host, started through ssh or the like, or directly where it is this host. It lives as long as this process: without us its
/// standard input ends, and it ends what it has started.
class RemoteHost {
 public:
  /// Starts it. `command`: --ssh, which is not needed for this host. Throws StartFailed where the program of its first word cannot be run.
  RemoteHost(HostEntry entry, const std::string& command);
  /// Ends it, and waits for ssh to have ended.
  ~RemoteHost();
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  const HostEntry& entry() const { return entry_; }
  const std::string& name() const { return entry_.name; }
  bool is_local() const { return local_; }

  /// Queues a frame.
  void send(FrameKind kind, std::string_view payload = {});
  /// Writes as much as it takes now.
  void flush() { write_some(); }
  /// Closes its standard input when all frames are sent, by which it ends.
  void close_input() {
    closing_ = true;
    write_some();
  }
  /// Adds what there is to wait for. Each frame that arrives goes to `take`; none is read unless `may_read`.
  void wait_for(launcher::PollSet& set, const std::function<void(const Frame&)>& take, bool may_read = true);
  /// Returns true when it has ended and everything that it sent was taken.
  bool is_over() const { return over_; }
  /// Returns why it ended without a result, with the text of ssh: "ssh ended with exit code 255: Permission denied".
  std::string why() const;
  /// Returns what to do about that; empty: nothing is known.
  std::string hint() const;
  /// Returns true where it has ended because it was told to: by SIGTERM, or with the code that stands for it.
  bool was_terminated() const;
  /// Ends ssh at once.
  void kill() const;
  /// Returns how long nothing has come from the host, as far as it was read.
  base::Clock::duration silent_for() const { return base::Clock::now() - heard_; }
  /// What comes from the host was not read for a while, which is no silence of its.
  void forgive_silence() { heard_ = base::Clock::now(); }

 private:
  void write_some();
  void read_frames(const std::function<void(const Frame&)>& take);
  void read_errors();
  void note_end();

  HostEntry entry_;
  bool local_;
  std::string program_;
  PipedChild child_;
  std::string to_send_, errors_, broken_;
  FrameReader reader_;
  std::optional<int> status_;
  base::Clock::time_point heard_ = base::Clock::now();
  bool closing_ = false, over_ = false;
};

/// Returns the line with which the other host begins: the version must be ours.
std::string greeting_line();

}  // namespace unisono::tools
