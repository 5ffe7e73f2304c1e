#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "recorder/reader.h"

namespace unisono::recorder {

/// Says in which call a rank is, or was last: "is in recv #3 of world (train.cpp:57)", "was last in barrier #6 of world (train.cpp:40), which
/// ended 12.1 s ago".
std::string whereabouts_of(const RankSeen& rank);
/// Says which messages a send or a receive is for: ", with tag 7"; empty for a collective, and where the tag says nothing.
std::string tag_text(const CallSeen& call);
/// Returns the call in which a rank waits for another one, and does nothing else meanwhile; null where it does not.
const CallSeen* wait_of(const RankSeen& rank);

/// What ranks should do instead that wait for each other because each of them sends first.
inline constexpr std::string_view advice_for_sends =
    "all of them send before they receive, and a message of more than 64 KiB waits for its receiver: use send_recv, or isend";

/// Follows the waits of messages from one rank to the next. `wait_of` returns the call in which a rank of the world waits, as far as it is known.
/// Where they lead back to this rank, returns the whole circle as a sentence with advice: "ranks 0 and 1 wait for each other: rank 0 is in …"; else
/// nothing.
std::string circle_of_messages(int rank, const std::function<std::optional<CallSeen>(int rank)>& wait_of);

/// Says it of the rank that is this process of this host, by its record. Empty where that cannot be read. Makes system calls.
std::string whereabouts_of(pid_t process);

}  // namespace unisono::recorder
