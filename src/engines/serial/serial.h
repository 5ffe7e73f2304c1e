#pragma once

#include <memory>

#include "unisono/engine.h"

namespace unisono::engines::serial {

/// The engine of a group of one: every collective is a copy, if anything.
std::unique_ptr<Engine> make_serial();

}  // namespace unisono::engines::serial
