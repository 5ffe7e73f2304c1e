#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <memory>

#include "unisono/call.h"

namespace unisono::engines {

/// Whether Gloo's ring gives the result that is promised: partial results go round in the dtype itself, so that halves of more than two ranks would
/// be rounded more than once, and an average of integers needs more room than they have.
bool can_combine(const CollectiveCall& call, int size);

void all_reduce_on(const std::shared_ptr<gloo::Context>& context, const CollectiveCall& call);

/// Memory for shares that a rank combines and has no place for; it stays, since fresh memory costs more than combining does.
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

/// A collective of one rank, whatever it is.
void copy_alone(const CollectiveCall& call);

}  // namespace unisono::engines
