#include "engines/shm/direct_access.h"

namespace unisono::engines::shm {
namespace {

/// Returns the offset in the pool + 1; 0 where the view does not lie there. An empty view counts as lying in the pool.
std::uint64_t place_of(const base::SharedPool& pool, const TensorView& view) {
  if (view.numel() == 0) return 1;
  const auto offset = pool.offset_of(view.data(), view.bytes());
  return offset ? *offset + 1 : 0;
}

}  // namespace

Announcement DirectAccess::announce(const CollectiveCall& call) {
  const base::SharedPool* pool = base::shared_pool();
  if (pool == nullptr) return {};
  const Announcement announcement{place_of(*pool, call.in), place_of(*pool, call.out), reaches_all_ ? 1U : 0U};
  if (announcement.in != 0 && announcement.out != 0) {
    PoolCard& card = segment_.member(rank_).pool;  // written once, and read by no rank before the step of this announcement
    if (card.inode != pool->inode()) card = {pool->inode(), pool->size(), pool->descriptor()};
  }
  return announcement;
}

bool DirectAccess::all_in_pools(std::uint32_t step) const {
  for (int r = 0; r < segment_.ranks(); ++r) {
    const Announcement announcement = segment_.line(r, step).announcement();
    if (announcement.in == 0 || announcement.out == 0) return false;
  }
  return true;
}

bool DirectAccess::all_reach_all(std::uint32_t step) const {
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (segment_.line(r, step).announcement().reaches_all == 0) return false;
  }
  return true;
}

void DirectAccess::note(std::uint32_t step) {
  expected_ = false;
  const Announcement own = segment_.line(rank_, step).announcement();
  if (own.in == 0 || own.out == 0 || !all_in_pools(step)) return;
  if (!tried_) {
    tried_ = true;
    reaches_all_ = map_all();
  }
  expected_ = all_reach_all(step);
}

bool DirectAccess::agreed(std::uint32_t step) {
  expected_ = all_in_pools(step) && all_reach_all(step);
  return expected_;
}

bool DirectAccess::map_all() {
  const base::SharedPool* own = base::shared_pool();
  for (int r = 0; r < segment_.ranks(); ++r) {
    const Member& member = segment_.member(r);
    auto& base = bases_[static_cast<std::size_t>(r)];
    const int pid = member.pid.load(std::memory_order_relaxed);
    if (r == rank_ || pid == 0) {  // a thread of this process
      base = own->base();
      continue;
    }
    auto pool = base::MappedPool::map(pid, member.pool.descriptor, member.pool.inode, member.pool.size);
    if (!pool) {
      mapped_.clear();
      return false;
    }
    base = pool->base();
    mapped_.push_back(std::move(pool));
  }
  return true;
}

}  // namespace unisono::engines::shm
