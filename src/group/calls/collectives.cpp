#include "unisono/collectives.h"

#include "base/error_place.h"
#include "group/group.h"
#include "unisono/error.h"
#include "unisono/point_to_point.h"

namespace unisono {

void barrier(const ProcessGroup& group, const CallOptions& options) {
  static const auto& request =  // made once: it is the same in every call
      *new const detail::Request{Operation::barrier, detail::nothing(), detail::nothing()};
  detail::run(request, group, options);
}
Work barrier_async(const ProcessGroup& group, const CallOptions& options) {
  return detail::start({Operation::barrier, detail::nothing(), detail::nothing()}, group, options);
}
void monitored_barrier(std::chrono::milliseconds timeout, const ProcessGroup& group, std::source_location where) {
  barrier(group, {.timeout = timeout, .where = where});
}
void synchronize(const ProcessGroup& group, std::source_location where) { barrier(group, {.where = where}); }

namespace detail {
bool rank_is(Rank rank, const ProcessGroup& group) { return (rank.is_global() ? group.global_rank(group.rank()) : group.rank()) == rank.value(); }

void require_min_or_max(Operation operation, ReduceOp op, const ProcessGroup& group, std::source_location where) {
  if (op == ReduceOp::min || op == ReduceOp::max) return;
  throw InvalidArgument(
      std::string(to_string(op)) + " is not defined on values with places",
      {.operation = std::string(to_string(operation)), .group = group.name(), .rank = group.rank(), .hint = "those are min and max", .where = where});
}
}  // namespace detail

std::vector<Work> batch(std::span<const P2POp> operations, const ProcessGroup& group, const CallOptions& options) {
  base::with_place(options.where, [&] {
    for (const P2POp& operation : operations) group.implementation()->messages().verify(operation.request(), options);
  });
  std::vector<Work> works;
  works.reserve(operations.size());
  for (const P2POp& operation : operations) works.push_back(detail::start(operation.request(), group, options));
  return works;
}

}  // namespace unisono
