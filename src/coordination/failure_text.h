#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engines/shm/segment.h"
#include "unisono/failure.h"

namespace unisono::coordination {

/// Encode a failure as a notice to ranks of other hosts, and decode it. A malformed notice is nothing, and
/// numbers that are no ranks of a group of `ranks` are left out.
std::string encode_failure(const Failure& failure);
std::optional<Failure> decode_failure(std::string_view notice, int ranks);

/// Writes the failure into memory that the ranks of a host share, unless it contains one already.
void record_failure(engines::shm::FailureRecord& record, const Failure& failure);
/// Returns none where a rank is still writing. If that rank dies, it is found dead instead.
std::optional<Failure> recorded_failure(const engines::shm::FailureRecord& record);

}  // namespace unisono::coordination
