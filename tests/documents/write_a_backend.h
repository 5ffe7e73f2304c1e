#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "unisono/engine.h"

// The plug-in around the blocks of docs/guide/write-a-backend.md: it defines the rest.
unisono::EngineTraits traits();
std::unique_ptr<unisono::Engine> make(const unisono::EngineOptions& options);

#define FRAGMENTS_BEGIN(name)
#define FRAGMENT_BEGIN
#define FRAGMENT_END
#define FRAGMENTS_END
