#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "unisono/engine.h"

// What the blocks of docs/write-a-backend.md stand in: a plug-in that defines the rest.
unisono::EngineTraits traits();
std::unique_ptr<unisono::Engine> make(const unisono::EngineOptions& options);

#define FRAGMENTS_BEGIN(name)
#define FRAGMENT_BEGIN
#define FRAGMENT_END
#define FRAGMENTS_END
