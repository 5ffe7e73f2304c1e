#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engines/decision.h"
#include "base/error_place.h"
#include "group/calls/check.h"
#include "group/calls/composed.h"
#include "group/group.h"
#include "unisono/collectives_v.h"

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

}  // namespace unisono::detail
