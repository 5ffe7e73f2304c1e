#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

/// The output of a launched rank goes through the launcher, which says in UNISONO_TERMINAL whether it ends on a terminal.
bool ends_on_terminal() {
  const char* launcher = std::getenv("UNISONO_TERMINAL");
  return isatty(STDOUT_FILENO) == 1 || (launcher != nullptr && std::string_view(launcher) == "1");
}

}  // namespace

Progress::Progress(int epochs) : epochs_(epochs), terminal_(ends_on_terminal()) {}

void Progress::epoch_done(int epoch, double loss) {
  if (!terminal_) {
    std::printf("epoch %2d/%d  loss %.4f\n", epoch, epochs_, loss);
  } else {
    constexpr int width = 40;
    const int done = width * epoch / epochs_;
    const std::string bar = std::string(static_cast<std::size_t>(done), '#') + std::string(static_cast<std::size_t>(width - done), '.');
    std::printf("\repoch %2d/%d [%s] loss %.4f%s", epoch, epochs_, bar.c_str(), loss, epoch == epochs_ ? "\n" : "");
  }
  std::fflush(stdout);
}
