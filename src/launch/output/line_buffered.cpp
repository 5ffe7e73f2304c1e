// `unisono run` has the loader put this library into its ranks (LD_PRELOAD) where their standard output is a pipe. stdio then writes at every end of
// line, as it does on a terminal, so that lines are seen when they are printed and are not lost when the program crashes.
//
// The library changes only standard output, and only where it is the launcher's pipe; files and other pipes of a rank stay block-buffered. It uses
// only long-standing functions of the C library, so that it works in programs and containers with an older one.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace {

__attribute__((constructor)) void write_at_line_ends() {
  const char* pipe = std::getenv("UNISONO_OUTPUT_PIPE");
  if (pipe == nullptr || std::getenv("_STDBUF_O") != nullptr) return;  // stdbuf(1) has set another buffer
  char own[64];
  const ssize_t length = ::readlink("/proc/self/fd/1", own, sizeof own - 1);
  if (length <= 0) return;
  own[length] = '\0';
  if (std::strcmp(own, pipe) == 0) std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

}  // namespace
