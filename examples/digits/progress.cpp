#include "progress.h"

#include <unistd.h>

#include <cstdio>

Progress::Progress(int epochs) : epochs_(epochs), terminal_(isatty(STDOUT_FILENO) == 1) {}

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
