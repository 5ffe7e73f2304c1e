#pragma once

#include "unisono/export.h"

namespace unisono::detail {

/// The comparison of calls between ranks (api rule 6), switched off only to measure what it costs. The same on all ranks.
UNISONO_API void set_call_comparison(bool on) noexcept;
UNISONO_API bool call_comparison() noexcept;

}  // namespace unisono::detail
