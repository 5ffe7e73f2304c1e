#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <memory>

#include "unisono/call.h"

namespace unisono::engines {

/// Returns true where Gloo's ring gives the promised result. Partial results travel in the dtype itself: with more than two ranks halves would be
/// rounded more than once, and sums for an average of integers could overflow.
bool can_combine(const CollectiveCall& call, int size);

void all_reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call);

/// Memory for shares that a rank combines without a buffer for them. It is kept, since the first touch of new memory costs more than the combination.
class Room {
 public:
  void* of(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(new std::byte[bytes]);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};
void reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call, Room& room);

/// Carries out any collective of one rank.
void copy_alone(const CollectiveCall& call);

}  // namespace unisono::engines
