#pragma once

#include <cstdint>
#include <string>

#include "recorder/reader.h"

namespace unisono::recorder {

/// "12.1 s", "3 min 5 s"
std::string duration_text(std::uint64_t ns);
/// "all_reduce #841 of world"
std::string call_text(const CallSeen& call);
/// "all_reduce #841 of world (train.cpp:57)"
std::string placed_text(const CallSeen& call);

}  // namespace unisono::recorder
