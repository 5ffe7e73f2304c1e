#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/process/environment_block.h"
#include "launch/process/program.h"

// The programs of the command itself (`unisono` in bin/, and those in libexec/unisono/ of the same prefix), and those that it starts beside ranks:
// ssh, the launcher of a host, debuggers, the drivers of the bench.
namespace unisono::tools {

/// Both ends of a pipe, which no started program inherits. Throws StartFailed.
struct Pipe {
  base::FileDescriptor reading, writing;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw launcher::StartFailed("cannot make a pipe: " + launcher::error_text(errno), 1);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
};

/// In what a child differs from this process.
struct ChildManner {
  enum class Errors { piped, with_output, inherited };
  Errors errors = Errors::piped;              ///< where its standard error goes
  bool has_session = false;                   ///< of its own; else it has a process group of its own
  int signal_after_us = SIGKILL;              ///< ends it where this process ends first
  std::span<const int> default_signals = {};  ///< that are not ignored or handled there
  std::span<const int> kept = {};             ///< descriptors that it gets beside the standard streams; -1 is none
};

/// A program whose standard input and output are pipes. Its ends here do not block.
struct PipedChild {
  pid_t pid = -1;
  base::FileDescriptor pidfd = {};
  base::FileDescriptor input = {};                ///< writes to its standard input
  base::FileDescriptor output = {}, errors = {};  ///< read what it writes
};

/// Starts a program; the first word is its name. Throws StartFailed.
PipedChild start_piped(const std::string& path, const std::vector<std::string>& words, launcher::EnvironmentBlock& environment,
                       const ChildManner& manner);

/// Reads what there is now from a descriptor that does not block. Returns a part of the buffer, which is empty at the end; nothing: nothing has come.
std::optional<std::string_view> read_some(int fd, std::span<char> buffer);
/// Writes as much of the front of the text as a descriptor takes now, and wipes it off. Returns false if nobody reads any more.
bool write_front(int fd, std::string& text);

/// Returns the file of a program along PATH; nothing: none can be run.
std::optional<std::string> find_tool(const std::string& name);

struct Captured {
  std::string printed;
  bool in_time = false;
};
/// Runs a program without input and returns what it prints to standard output, and to standard error `with_output`. One that takes longer is killed,
/// with what it has started.
Captured capture(const std::vector<std::string>& words, std::chrono::milliseconds at_most, ChildManner::Errors errors);

/// Returns the path of `unisono`, from within it and from within the others.
std::string path_of_command();

/// A program in libexec/unisono/.
struct Helper {
  std::string path = {};       ///< empty: it cannot be started
  std::string objection = {};  ///< why it is not started although it is there: somebody else could have put it there
};
Helper helper(const std::string& name);

}  // namespace unisono::tools
