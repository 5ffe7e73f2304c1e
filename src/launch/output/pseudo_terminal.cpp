#include "launch/output/pseudo_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>

#include <array>

namespace unisono::launcher {

std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size) {
  PseudoTerminal terminal;
  terminal.reading.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 64> name{};
  const int reading = terminal.reading.get();
  if (reading < 0 || ::grantpt(reading) != 0 || ::unlockpt(reading) != 0 || ::ptsname_r(reading, name.data(), name.size()) != 0) return std::nullopt;
  terminal.writing.reset(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes{};
  if (!terminal.writing || ::tcgetattr(terminal.writing.get(), &modes) != 0) return std::nullopt;
  ::cfmakeraw(&modes);
  if (::tcsetattr(terminal.writing.get(), TCSANOW, &modes) != 0) return std::nullopt;
  ::ioctl(reading, TIOCSWINSZ, &size);
  return terminal;
}

}  // namespace unisono::launcher
