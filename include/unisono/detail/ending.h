#pragma once

#include <optional>
#include <string_view>

#include "unisono/export.h"
#include "unisono/process_group.h"

namespace unisono {
class Error;
}

namespace unisono::detail {

/// Tells the other processes of the job why this one leaves it early: in every group they have
/// PeerFailed with the cause `aborted`, and `how` behind its rank: "ended with ValueError: bad
/// data". `blamed` is the rank in the world that the reason names. Nothing if this process is in
/// no job.
UNISONO_API void give_up(std::string_view how, std::optional<int> blamed = {});

/// Thrown by a rank of run_threads whose function is not to go on, although all is well: the thread ends as if it had returned.
struct EndOfRank {};

/// Does what `finalize` does, for a program that ends without it: a rank that still waits for this
/// one is told how its process has ended.
UNISONO_API void leave_at_exit();

/// Notes that all ranks of the group throw this error at the same place, because of one of them. If
/// nothing is called after it, it is why the job ends.
UNISONO_API void note_error_of_all(const ProcessGroup& group, const Error& error, int culprit);

}  // namespace unisono::detail
