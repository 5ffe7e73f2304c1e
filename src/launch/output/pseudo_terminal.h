#pragma once

#include <sys/ioctl.h>

#include <optional>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// A terminal for the output of a rank. Bytes written to `writing` are read from `reading` unchanged: no echo, no '\r' before '\n', no signals from
/// characters. No process gets it as its controlling terminal. After the last descriptor of `writing` is closed, reading gives what is left and then
/// EIO.
struct PseudoTerminal {
  base::FileDescriptor reading, writing;
};

/// Returns nothing where the system has no pseudo-terminals (left).
std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size);

}  // namespace unisono::launcher
