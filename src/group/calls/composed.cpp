#include "group/calls/composed.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error_place.h"
#include "engines/decision.h"
#include "group/calls/check.h"
#include "group/group.h"
#include "unisono/collectives_v.h"
#include "unisono/detail/ending.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"

namespace unisono::group {
namespace {

ErrorInfo info_of(std::string_view name, const ProcessGroup& group, const CallOptions& options, std::optional<int> culprit, std::string hint) {
  const Group& inside = *group.implementation();
  ErrorInfo info = inside.facts().error_info(name, inside.facts().sequence(), culprit);
  info.hint = std::move(hint);
  info.where = options.where;
  return info;
}

}  // namespace

Composed::Composed(std::string_view name, const ProcessGroup& group, const CallOptions& options)
    : name_(name), group_(group), options_(options), deadline_(options.timeout.value_or(group.implementation()->facts().timeout())) {}

CallOptions Composed::options() {
  CallOptions next = options_;
  if (std::exchange(begun_, true)) next.timeout = deadline_.left();
  return next;
}

void Composed::throw_mismatch(const Difference& found, const std::string& text) const {
  const Mismatch mismatch(engines::describe(engines::Decision{.calls = text}, found.own_is_blamed),
                          info_of(name_, group_, options_, found.culprit, engines::mismatch_hint));
  Group& inside = *group_.implementation();
  inside.errors().note_mismatch(mismatch, inside.size(), inside.facts().sequence());
  throw mismatch;
}

void Composed::throw_invalid(int culprit, const std::string& what) const {
  const InvalidArgument wrong(what, info_of(name_, group_, options_, culprit, "nothing was moved, the group stays usable"));
  Group& inside = *group_.implementation();
  inside.errors().note_error_of_all(wrong, culprit, inside.size(), inside.facts().sequence());
  throw wrong;
}

}  // namespace unisono::group

namespace unisono {

void detail::note_error_of_all(const ProcessGroup& group, const Error& error, int culprit) {
  group::Group& inside = *group.implementation();
  inside.errors().note_error_of_all(error, culprit, inside.size(), inside.facts().sequence());
}

}  // namespace unisono

namespace unisono::detail {

void check_exchanging(const Request& request, const ProcessGroup& group, const CallOptions& options) {
  base::with_place(options.where, [&] { group::check_exchanging(group.implementation()->facts(), request, options); });
}

Counts exchange_counts(const Request& request, const ProcessGroup& group, CallOptions& options) {
  group::Composed composed(name_of(request), group, options);
  const auto n = static_cast<std::size_t>(group.size());
  const bool pairwise = request.operation == Operation::all_to_all_v;
  // Each rank is told a pair of numbers: how many elements, and of which dtype.
  const auto dtype = static_cast<std::uint64_t>(request.in.dtype());
  std::vector<std::uint64_t> mine, theirs(2 * n);
  for (std::size_t r = 0; r < (pairwise ? n : 1); ++r) {
    mine.push_back(pairwise ? request.counts[r] : static_cast<std::uint64_t>(request.in.numel()));
    mine.push_back(dtype);
  }
  const auto line = [](std::vector<std::uint64_t>& x) { return TensorView(x.data(), DType::uint64, x.size()); };
  Request exchange{pairwise ? Operation::all_to_all : Operation::all_gather, line(mine), line(theirs)};
  exchange.label = composed.name();
  run(exchange, group, composed.options());

  std::vector<std::size_t> counts(n);
  std::vector<engines::Ballot> ballots;
  for (std::size_t r = 0; r < n; ++r) {
    counts[r] = theirs[2 * r];
    const std::string name(to_string(static_cast<DType>(theirs[2 * r + 1])));
    ballots.push_back({.rank = static_cast<int>(r), .key = name, .call = "gives " + name});
  }
  if (std::ranges::any_of(ballots, [&](const engines::Ballot& ballot) { return ballot.key != ballots.front().key; })) {
    const engines::Decision decision = engines::decide(ballots);
    composed.throw_mismatch({.culprit = decision.culprit(), .own_is_blamed = decision.blames(group.rank())}, decision.calls);
  }
  options = composed.options();
  return counts;
}

void abandon(const ProcessGroup& group, const std::exception_ptr& reason) { group.implementation()->errors().abort_after(reason); }

MessageInfo recv_sized(const TensorView& now, std::optional<Rank> src, const std::function<TensorView(std::size_t count)>& resize,
                       const ProcessGroup& group, const CallOptions& options) {
  group::Composed call(to_string(Operation::recv), group, options);
  const MessageRequest request{Operation::recv, now, src, call.name()};
  const MessageInfo info = *probe(request, group, call.options(), true);
  CallOptions rest = call.options();
  rest.tag = info.tag;
  // The receive of a message of another dtype, or of an object, throws the mismatch and drops the message.
  const bool fits = info.dtype == now.dtype() && !info.is_object;
  return run({Operation::recv, fits ? resize(info.count) : now, Rank(info.source)}, group, rest);
}

}  // namespace unisono::detail
