#pragma once

#include <chrono>
#include <memory>

#include "engines/nccl/loader.h"
#include "harness/candidate.h"
#include "unisono/store.h"

namespace unisono::bench {

/// Returns NCCL itself as a candidate, for the calling thread's current device and stream. The ranks meet through the store.
std::unique_ptr<Candidate> nccl_candidate(std::shared_ptr<const engines::nccl::Vendor> vendor, Place place, std::shared_ptr<Store> store,
                                          std::chrono::milliseconds timeout);

}  // namespace unisono::bench
