#include "unisono/process_group.h"

#include <algorithm>

#include "base/error_place.h"
#include "group/group.h"
#include "unisono/collectives.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"
#include "unisono/point_to_point.h"

namespace unisono {

int ProcessGroup::rank() const { return implementation_->rank(); }
int ProcessGroup::size() const { return implementation_->size(); }
std::string ProcessGroup::name() const { return implementation_->name(); }
std::string ProcessGroup::backend() const { return std::string(implementation_->core().name()); }
std::vector<int> ProcessGroup::global_ranks() const { return implementation_->facts().global_ranks(); }
bool ProcessGroup::contains(GlobalRank rank) const { return rank_of(rank).has_value(); }

std::optional<int> ProcessGroup::rank_of(GlobalRank rank) const {
  const auto& members = implementation_->facts().global_ranks();
  const auto found = std::find(members.begin(), members.end(), rank.value);
  if (found == members.end()) return std::nullopt;
  return static_cast<int>(found - members.begin());
}

int ProcessGroup::global_rank(int group_rank) const {
  if (group_rank < 0 || group_rank >= size()) {
    throw InvalidArgument("rank " + std::to_string(group_rank) + " is not in the group of " + std::to_string(size()),
                          {.operation = "global_rank", .group = name(), .rank = rank()});
  }
  return implementation_->facts().global_ranks()[static_cast<std::size_t>(group_rank)];
}

void ProcessGroup::abort(std::string_view reason) { implementation_->errors().abort(reason); }

namespace detail {

using base::with_place;

void run(const Request& request, const ProcessGroup& group, const CallOptions& options) {
  try {
    group.implementation()->collectives().run(request, options);
  } catch (Error& error) {
    base::set_place(error, options.where);
    throw;
  }
}
void run(const Request& request, const ProcessGroup& group, const CallOptions& options, const std::function<void()>& issued) {
  with_place(options.where, [&] { group.implementation()->collectives().run(request, options, issued); });
}
Work start(const Request& request, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return group.implementation()->collectives().start(request, options); });
}
MessageInfo run(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return group.implementation()->messages().run(request, options); });
}
int send_recv(const MessageRequest& out, const MessageRequest& in, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return group.implementation()->messages().send_recv(out, in, options); });
}
std::optional<MessageInfo> probe(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options, bool waits) {
  return with_place(options.where, [&] { return group.implementation()->messages().probe(request, options, waits); });
}
Work start(const MessageRequest& request, const ProcessGroup& group, const CallOptions& options) {
  return with_place(options.where, [&] { return group.implementation()->messages().start(request, options); });
}

}  // namespace detail

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
