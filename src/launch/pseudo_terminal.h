#pragma once

#include <sys/ioctl.h>

#include <optional>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// A terminal for the output of a rank. What is written to `writing` is read from `reading` byte for byte: no echo, no '\r' before '\n', no signals
/// from characters. It becomes nobody's controlling terminal. When nobody holds `writing` any more, reading gives what is left and then EIO.
struct PseudoTerminal {
  base::FileDescriptor reading, writing;
};

/// Nothing where the system has no more of them, or none at all.
std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size);

}  // namespace unisono::launcher
