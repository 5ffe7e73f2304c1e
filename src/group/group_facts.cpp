// The failures of a group, as errors of its calls.

#include "group/group_facts.h"

#include <cxxabi.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error_text.h"
#include "engines/decision.h"
#include "group/calls/check.h"
#include "group/fork_guard.h"

namespace unisono::group {

GroupFacts::GroupFacts(const GroupParts& parts)
    : parts_(parts),
      device_(parts.core->device()),
      compares_shapes_(wants_shapes(base::Environment::process())),
      refused_values_(group::refused_values(base::Environment::process())) {}

const std::string& GroupFacts::host_name(int rank) const {
  static const auto& unknown = *new const std::string;
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < parts_.host_names.size() ? parts_.host_names[index] : unknown;
}

int GroupFacts::from_record(int recorded) const {
  if (recorded < 0 || parts_.recorded_ranks.empty()) return recorded;
  const auto found = std::ranges::find(parts_.recorded_ranks, recorded);
  return found == parts_.recorded_ranks.end() ? -1 : static_cast<int>(found - parts_.recorded_ranks.begin());
}

ErrorInfo GroupFacts::error_info(std::string_view operation, std::uint64_t sequence, std::optional<int> culprit) const {
  ErrorInfo info;
  info.operation = operation;
  info.group = name();
  info.sequence = sequence;
  info.rank = rank();
  info.world_rank = in_record(rank());
  if (!culprit || *culprit < 0) return info;
  info.culprit = culprit;
  info.world_culprit = in_record(*culprit);
  info.host = host_name(*culprit);
  return info;
}

void GroupErrors::record_wait(const recorder::Recorder::Call& call, const std::vector<int>& ranks) const {
  parts_.recorder->wait(call, ranks.empty() ? -1 : facts_.in_record(ranks.front()), ranks.size());
}

void GroupErrors::end(std::string_view how) {
  if (in_forked_child() || !is_open()) return;
  fail(Failure{.kind = Failure::Kind::peer_failed,
               .cause = PeerFailed::Cause::aborted,
               .culprit = facts_.rank(),
               .missing = {},
               .message = "rank " + std::to_string(facts_.rank()) + " " + std::string(how)},
       "abort", 0);
}

void GroupErrors::abort_after(const std::exception_ptr& error) { abort(base::what_of(error)); }

std::exception_ptr GroupErrors::fail(const Failure& failure, std::string_view operation, std::uint64_t sequence) {
  coordination().poison(failure);
  const Failure first = coordination().failure().value_or(failure);
  // A group that ends right after a Mismatch ends because of it, whichever rank gives up first.
  if (!reported_.exchange(true) && !is_after_mismatch()) {
    parts_.recorder->set_failure(text_of(first));
    if (parts_.on_failure) {
      Failure told = first;  // which others read who do not know whose deadline it was
      if (first.reporter >= 0 && first.culprit >= 0) told.message = fmt::format("rank {}: {}", facts_.in_world(first.reporter), first.message);
      parts_.on_failure(told);
    }
  }
  return error_of(first, operation, sequence);
}

bool GroupErrors::has_lost_a_member() {
  if (coordination().failure()) return true;
  std::vector<int> all(static_cast<std::size_t>(facts_.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto failure = coordination().detector().look_at(all);
  if (failure) fail(*failure, "shrink_group", 0);
  return failure.has_value();
}

// A rank that others have waited for did not have their deadline: the rank whose deadline passed has ended the group for it.
std::exception_ptr GroupErrors::error_of(const Failure& failure, std::string_view operation, std::uint64_t sequence) const {
  const bool of_another = failure.kind == Failure::Kind::timeout && failure.reporter >= 0 && failure.reporter != facts_.rank();
  ErrorInfo info = facts_.error_info(operation, sequence, of_another && failure.culprit == facts_.rank() ? failure.reporter : failure.culprit);
  if (failure.kind == Failure::Kind::timeout) {
    info.hint = of_another && failure.culprit == facts_.rank()
                    ? "the group is over; see why this rank was not there in time, or give that call more time"
                    : "the group is over; look at what the missing ranks are doing";
    return std::make_exception_ptr(Timeout(text_of(failure), std::move(info), failure.missing));
  }
  info.hint = "the group is over; shrink_group makes one of the survivors";
  return std::make_exception_ptr(PeerFailed(failure.message, std::move(info), failure.cause));
}

std::string GroupErrors::text_of(const Failure& failure) const {
  const bool of_another = failure.kind == Failure::Kind::timeout && failure.reporter >= 0 && failure.reporter != facts_.rank();
  return of_another ? fmt::format("a deadline of {} has passed: {}", coordination().name(failure.reporter), failure.message) : failure.message;
}

std::exception_ptr GroupErrors::error_when_over(std::string_view operation, std::uint64_t sequence) {
  if (const auto failure = coordination().failure()) return fail(*failure, operation, sequence);
  return error_of({.kind = Failure::Kind::peer_failed,  // a closed group tells no failure any more
                   .cause = PeerFailed::Cause::aborted,
                   .culprit = facts_.rank(),
                   .missing = {},
                   .message = "rank " + std::to_string(facts_.rank()) + " has given up a call that was under way"},
                  operation, sequence);
}

GroupErrors::Thrown GroupErrors::of_thrown(std::string_view operation, std::uint64_t sequence, Known known) {
  // Its group's name and the culprit's host are not known below.
  const auto completed = [&](const Mismatch& mismatch, int ranks) -> Thrown {
    ErrorInfo info = facts_.error_info(operation, sequence, mismatch.culprit());
    info.hint = mismatch.hint();
    info.where = mismatch.info().where;
    const Mismatch error(mismatch.message(), std::move(info));
    if (known == Known::to_all) note_mismatch(error, ranks, sequence);
    return {std::make_exception_ptr(error)};
  };
  try {
    throw;
  } catch (const engines::Disagreement& disagreement) {
    return completed(disagreement, disagreement.ranks());
  } catch (const Mismatch& mismatch) {  // the engine does not say how many were compared
    return completed(mismatch, 0);
  } catch (const GroupFailure& over) {
    return {fail(over.failure(), operation, sequence), true};
  } catch (const abi::__forced_unwind&) {  // the thread ends (pthread_cancel, pthread_exit), which nobody may stop
    if (known != Known::to_this_rank) abort_after(nullptr);
    throw;
  } catch (...) {
    if (known == Known::to_this_rank) return {std::current_exception()};
    abort_after(std::current_exception());
    return {std::current_exception(), true};
  }
}

void GroupErrors::note_mismatch(const Mismatch& mismatch, int ranks, std::uint64_t sequence) {
  parts_.recorder->dump();
  note_error_of_all(mismatch, mismatch.culprit().value_or(-1), ranks, sequence);
}

void GroupErrors::note_error_of_all(const Error& error, int culprit, int ranks, std::uint64_t sequence) {
  last_mismatch_.store(sequence);
  if (parts_.on_error_of_all) parts_.on_error_of_all(error.message(), culprit, ranks);
}

}  // namespace unisono::group
