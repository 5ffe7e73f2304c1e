#pragma once

#include <sys/types.h>

#include <string>

#include "recorder/reader.h"

namespace unisono::recorder {

/// Says in which call a rank is, or was last: "is in recv #3 of world (train.cpp:57)", "was last in barrier #6 of world (train.cpp:40), which
/// ended 12.1 s ago".
std::string whereabouts_of(const RankSeen& rank);
/// Says it of the rank that is this process of this host, by its record. Empty where that cannot be read. Makes system calls.
std::string whereabouts_of(pid_t process);

}  // namespace unisono::recorder
