#pragma once

#include <memory>

#include "unisono/engine.h"

namespace unisono::engines::serial {

/// Makes the engine of a group of one, whose collectives are copies.
std::unique_ptr<Engine> make_serial();

}  // namespace unisono::engines::serial
