#pragma once

#include <string>

#include "fake_ranks.h"

namespace fake {

inline constexpr Result all_results[] = {Result::unhandled_cuda_error, Result::system_error,  Result::internal_error,
                                         Result::invalid_argument,     Result::invalid_usage, Result::remote_error};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace fake
