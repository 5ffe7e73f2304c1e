#include "schedule/early_call.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "schedule/algorithm.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::schedule {
namespace {

/// Bytes of a block. Its receiver copies it once more than it would after the comparison.
constexpr std::size_t most_of_block = std::size_t{64} << 10;

}  // namespace

bool leaves_early(const CollectiveCall& call, const Problem& problem, const Setting& setting, bool connects_all) {
  const coordination::GroupTopology& topology = *setting.topology;
  if (!connects_all || !setting.network.is_crowded() || topology.host_count() < 2 || is_overridden(call.operation)) return false;
  if (setting.engine.offers(call, topology.size())) return false;
  const std::size_t bytes = problem.bytes();
  if (call.operation != Operation::all_to_all || !topology.has_levels() || bytes > most_of_block) return false;
  const Cost direct = algorithms::cost_exchange(problem, setting), best = cost_of(problem, setting);
  const std::size_t element = size_of(problem.dtype);
  return predicted_us(direct, setting.network, element, 1) / setting.network.crowding < predicted_us(best, setting.network, element, 1);
}

EarlyCall::EarlyCall(coordination::Coordination& coordination, const CollectiveCall& call)
    : coordination_(coordination),
      call_(call),
      block_(call.count * size_of(call.in.dtype())),
      agreement_(coordination.start_agreement(call)),
      number_(coordination.agreement_number()) {
  const int rank = coordination.rank(), size = coordination.size();
  std::vector<int> ranks;
  for (int by = 1; by < size; ++by) {
    ranks.push_back((rank + size - by) % size);
    incoming_.push_back({.from = ranks.back(), .to = block_of(call.out, ranks.back())});
  }
  coordination.early_mail().expect(number_, std::move(ranks));
}

std::byte* EarlyCall::block_of(const TensorView& buffer, int rank) const {
  return static_cast<std::byte*>(buffer.data()) + static_cast<std::size_t>(rank) * block_;
}

void EarlyCall::post() {
  const int rank = coordination_.rank(), size = coordination_.size();
  for (int by = 1; by < size; ++by) {
    const int to = (rank + by) % size;
    coordination_.early_mail().post(to, number_, {block_of(call_.in, to), block_});
  }
}

EarlyCall::Incoming* EarlyCall::incoming_from(int rank) {
  const auto found = std::ranges::find(incoming_, rank, &Incoming::from);
  return found == incoming_.end() ? nullptr : &*found;
}

void EarlyCall::take_parts() {
  coordination::EarlyMail::Part part;
  while (coordination_.early_mail().next(part)) {
    if (Incoming* const incoming = incoming_from(part.from)) incoming->arrived += part.bytes().size();
    parts_.push_back(std::move(part));
  }
}

bool EarlyCall::is_complete() const {
  return std::ranges::all_of(incoming_, [this](const Incoming& each) { return each.arrived >= block_; });
}

/// Called when all ranks have agreed: what they sent is of this call.
void EarlyCall::hand_out() {
  for (const auto& part : parts_) {
    const Incoming* const incoming = incoming_from(part.from);
    const auto bytes = part.bytes();
    if (incoming == nullptr || part.total != block_ || part.offset > part.total || bytes.size() > part.total - part.offset) {
      throw ProtocolError(fmt::format("rank {} sent {} bytes ahead of a call, at {} of {}", part.from, bytes.size(), part.offset, part.total));
    }
    if (!bytes.empty()) std::memcpy(incoming->to + part.offset, bytes.data(), bytes.size());
  }
  const int rank = coordination_.rank();
  if (block_ > 0) std::memmove(block_of(call_.out, rank), block_of(call_.in, rank), block_);
}

bool EarlyCall::advance() {
  if (is_done_) return true;
  if (!is_agreed_) is_agreed_ = agreement_->advance();
  if (!std::exchange(has_begun_, true)) post();
  take_parts();
  if (is_agreed_ && !is_complete()) {
    coordination_.poll();
    take_parts();
  }
  if (!is_agreed_ || !is_complete()) return false;
  hand_out();
  is_done_ = true;
  return true;
}

std::vector<int> EarlyCall::waiting_for() const {
  if (!is_agreed_) return agreement_->waiting_for();
  std::vector<int> ranks;
  for (const Incoming& each : incoming_) {
    if (each.arrived < block_) ranks.push_back(each.from);
  }
  return ranks;
}

bool EarlyCall::sleep(std::chrono::nanoseconds at_most) {
  if (!is_agreed_) return agreement_->sleep(at_most);
  return coordination_.link()->sleep([this] { return coordination_.early_mail().fetch(); }, at_most);
}

}  // namespace unisono::schedule
