#pragma once

#include "base/environment.h"

namespace unisono::engines::shm {

/// Reads all variables of this engine. Throws InvalidArgument where one cannot be read.
void check_settings(const base::Environment& environment);

}  // namespace unisono::engines::shm
