#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
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

/// The wait of a rank for another one in a message, in which it does nothing else. Ranks are ranks of the world.
struct MessageWait {
  int rank = -1, waited_for = -1;
  bool sends = false;
  std::string call = {};  ///< "send #3 of world (train.cpp:57), with tag 7"
};
/// Returns the wait of that rank; nothing where it waits for no message, or for one of any rank.
std::optional<MessageWait> message_wait_of(int rank, const RankSeen& seen);

/// Says with advice that these ranks wait for each other, each for the next one and the last for the first: "ranks 0 and 1 wait for each other: all
/// of them send …; rank 0 is in …". The advice comes first, because the end of a long text is cut off. Only the first few calls are told.
std::string circle_text(std::span<const MessageWait> circle);
inline constexpr std::size_t most_told_of_circle = 4;

/// Says it of the rank that is this process of this host, by its record. Empty where that cannot be read. Makes system calls.
std::string whereabouts_of(pid_t process);

}  // namespace unisono::recorder
