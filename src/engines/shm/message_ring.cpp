#include "engines/shm/message_ring.h"

#include <utility>

#include "base/notifier.h"
#include "engines/shm/private_memory.h"
#include "engines/shm/ring_send_task.h"

namespace unisono::engines::shm {

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank, const base::Environment& environment)
    : MessageRing(std::move(segment), rank, single_copy_range(environment, single_copy_rule(SingleCopyOf::messages))) {}

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank, const std::optional<SingleCopyRange>& range)
    : segment_(std::move(segment)), sender_(*segment_, rank, range), receiver_(*segment_, rank, range.has_value()) {
  base::AsymmetricFence::register_process();
}

std::unique_ptr<Task> MessageRing::send(int peer, const MessageHeader& header, const void* data) {
  return std::make_unique<RingSendTask>(sender_, peer, header, data);
}

void MessageRing::advance(int peer, Delivery& delivery) {
  if (delivery.task) delivery.is_done = delivery.task->advance();
  else if (!delivery.is_done) receiver_.pump(peer);
}

bool MessageRing::withdraw(int peer, std::uint64_t, Delivery& delivery) noexcept {
  receiver_.withdraw(peer, delivery);
  return false;
}

}  // namespace unisono::engines::shm
