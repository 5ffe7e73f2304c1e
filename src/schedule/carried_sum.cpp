#include "schedule/carried_sum.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduce.h"
#include "schedule/carried_call.h"
#include "schedule/scheduled_task.h"

namespace unisono::schedule {

CarriedSum::CarriedSum(LevelEngines& engines, const ScheduleChoice& choice, const CollectiveCall& call)
    : engines_(engines),
      choice_(choice),
      call_(call),
      carried_(contributions_to(call, engines.coordination().size(), engines.coordination().rank(), coordination::Carried::Pattern::blocks)),
      current_(engines.coordination().start_agreement(call, &carried_)) {}

std::size_t CarriedSum::begin_of(int rank) const { return std::min(static_cast<std::size_t>(rank) * carried_.each, carried_.own.size()); }

bool CarriedSum::advance() {
  if (is_done_) return true;
  if (!current_->advance()) return false;
  if (!has_agreed_) {
    has_agreed_ = true;
    combine_share();
    begin_gather();
    if (!current_->advance()) return false;
  }
  is_done_ = true;
  return true;
}

void CarriedSum::combine_share() {
  const coordination::GroupTopology& topology = engines_.coordination().topology();
  const std::size_t begin = begin_of(topology.rank), bytes = begin_of(topology.rank + 1) - begin;
  const std::size_t count = bytes / size_of(call_.in.dtype());
  std::byte* const out = static_cast<std::byte*>(call_.out.data()) + begin;
  const std::byte* mine = static_cast<const std::byte*>(call_.in.data()) + begin;
  if (call_.custom && mine == out) {
    own_.assign(mine, mine + bytes);
    mine = own_.data();
  }
  std::vector<const void*> versions;
  for (int r = 0; r < topology.size(); ++r) versions.push_back(r == topology.rank ? mine : carried_.from(r, topology).data());
  if (count == 0) return;
  if (!call_.custom) return kernels::reduce(out, versions.data(), versions.size(), count, call_.in.dtype(), call_.op, versions.size());
  std::memcpy(out, versions.front(), bytes);
  for (std::size_t r = 1; r < versions.size(); ++r) call_.custom->combine(out, versions[r], count);
}

void CarriedSum::begin_gather() {
  const int rank = engines_.coordination().rank(), size = engines_.coordination().size();
  const std::size_t element = size_of(call_.in.dtype());
  std::vector<std::size_t> counts;
  for (int r = 0; r < size; ++r) counts.push_back((begin_of(r + 1) - begin_of(r)) / element);
  auto* const out = static_cast<std::byte*>(call_.out.data());
  gather_.operation = Operation::all_gather_v;
  gather_.in = TensorView(out + begin_of(rank), call_.in.dtype(), counts[static_cast<std::size_t>(rank)]);
  gather_.out = TensorView(out, call_.in.dtype(), call_.count);
  gather_.counts = Counts(counts);
  gather_.count = call_.count;
  gather_.sequence = call_.sequence;
  engines_.scratch().reset();
  current_ = std::make_unique<ScheduledTask>(engines_, gather_, choice_.schedule_of(gather_));
}

}  // namespace unisono::schedule
