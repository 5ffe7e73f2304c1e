#include "group/seals.h"

namespace unisono::group {

Seals::Seals(const coordination::Coordination& coordination, std::string_view engine) {
  if (coordination.is_one_host()) return;
  const transport::Link::Protection& link = coordination.link()->protection();
  if (link.is_local || (link.is_encrypted && engine == "tcp")) return;
  need_ = link.secret.empty() ? Need::impossible : Need::codes;
  secret_ = link.secret;
  group_ = coordination.key();
}

std::uint64_t Seals::next() {
  const std::lock_guard lock(mutex_);
  return ++own_;
}

bool Seals::accept(int from, std::int64_t way, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& last = last_[{from, way}];
  if (number <= last) return false;
  last = number;
  return true;
}

}  // namespace unisono::group
