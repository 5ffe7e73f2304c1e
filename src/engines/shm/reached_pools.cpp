#include "engines/shm/reached_pools.h"

#include <algorithm>

namespace unisono::engines::shm {
namespace {

/// An empty view counts as lying in the pool.
bool lies_in(const base::SharedPool& pool, const TensorView& view) {
  return view.numel() == 0 || pool.offset_of(view.data(), view.bytes()).has_value();
}

}  // namespace

bool lie_in_pool(const CollectiveCall& call) {
  const base::SharedPool* pool = base::shared_pool();
  return pool != nullptr && lies_in(*pool, call.in) && lies_in(*pool, call.out);
}

void ReachedPools::announce(const CollectiveCall& call, Announcement& announcement) const {
  if (!lie_in_pool(call)) return;
  const base::SharedPool* pool = base::shared_pool();
  announcement.in_pools = 1;
  announcement.maps_all = maps_all_;
  PoolCard& card = segment_.member(rank_).pool;  // written once, and read by no rank before the step of this announcement
  if (card.inode != pool->inode()) card = {pool->inode(), reinterpret_cast<std::uintptr_t>(pool->base()), pool->size(), pool->descriptor()};
}

bool ReachedPools::reach_all(std::uint32_t step) const {
  return segment_.all_announce(step, [](const Announcement& each) { return each.in_pools != 0 && each.maps_all != 0; });
}

void ReachedPools::note(std::uint32_t step) {
  expected_ = reach_all(step);
  all_map_ = all_map_ || expected_;
  if (tried_to_map_ || !segment_.all_announce(step, [](const Announcement& each) { return each.in_pools != 0; })) return;
  tried_to_map_ = true;
  maps_all_ = map_all();
}

const std::byte* ReachedPools::source(int rank, std::uint32_t step, std::uint64_t address) const {
  const std::byte* const pool = pools_[static_cast<std::size_t>(rank)];
  if (pool == nullptr || segment_.line(rank, step).announcement().in_pools == 0) return nullptr;
  const PoolCard& card = segment_.member(rank).pool;
  const std::uint64_t offset = address - card.base;
  if (offset > card.size) return nullptr;  // of an empty view, which counts as lying in the pool
  return pool + offset;
}

bool ReachedPools::map_all() {
  const base::SharedPool* own = base::shared_pool();
  for (int r = 0; r < segment_.ranks(); ++r) {
    const Member& member = segment_.member(r);
    auto& base = pools_[static_cast<std::size_t>(r)];
    const int pid = member.pid.load(std::memory_order_relaxed);
    if (r == rank_ || pid == 0) {  // a thread of this process
      base = own->base();
      continue;
    }
    auto pool = base::MappedPool::map(pid, member.pool.descriptor, member.pool.inode, member.pool.size);
    if (!pool) {
      mapped_.clear();
      std::ranges::fill(pools_, nullptr);
      return false;
    }
    base = pool->base();
    mapped_.push_back(std::move(pool));
  }
  return true;
}

}  // namespace unisono::engines::shm
