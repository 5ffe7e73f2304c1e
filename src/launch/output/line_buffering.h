#pragma once

#include <string>

#include "launch/process/environment_block.h"

namespace unisono::launcher {

/// Makes programs write to this pipe, their standard output, at every end of line, although it is no terminal: Python by PYTHONUNBUFFERED, users of
/// the C library's stdio (printf, std::cout) by a small preloaded library (LD_PRELOAD). `isatty` stays false, and a reader that leaves still ends the
/// writer by SIGPIPE. Statically linked programs are not reached. Variables set by the user are kept.
void write_line_by_line(EnvironmentBlock& environment, int pipe, const std::string& program);

}  // namespace unisono::launcher
