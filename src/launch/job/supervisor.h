#pragma once

#include "launch/job_options.h"

namespace unisono::launcher {

class Console;
class SignalScope;
/// Writes until the reader has taken everything. A further Ctrl-C ends the wait.
void write_out(Console& console, SignalScope* signals);

/// Starts the ranks, watches them to their end and leaves no process behind. Call it from a thread that lives as long as the job, because the kernel
/// ends the ranks with it. Throws InvalidArgument for options that make no sense, StartFailed where the job could not be started.
JobResult run_job(const JobOptions& options);

}  // namespace unisono::launcher
