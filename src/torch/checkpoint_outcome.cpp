#include "torch/checkpoint_file.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "unisono/detail/ending.h"
#include "unisono/objects.h"

namespace unisono {

CheckpointError::CheckpointError(const std::filesystem::path& path, std::string_view message, ErrorInfo info)
    : Error(fmt::format("the checkpoint {} {}", path.string(), message), std::move(info)), path_(path) {}
CheckpointError::~CheckpointError() = default;

namespace libtorch {
namespace {

struct Outcome {
  enum class Kind : std::int32_t { good, invalid_argument, checkpoint, other };
  Kind kind = Kind::good;
  std::string message = {}, hint = {};
  std::filesystem::path path = {};
  UNISONO_FIELDS(kind, message, hint, path)
};

Outcome outcome_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const CheckpointError& e) {
    // The constructor adds this text again.
    const std::string start = fmt::format("the checkpoint {} ", e.path().string());
    return {Outcome::Kind::checkpoint, e.message().substr(std::min(e.message().size(), start.size())), e.hint(), e.path()};
  } catch (const InvalidArgument& e) {
    return {.kind = Outcome::Kind::invalid_argument, .message = e.message(), .hint = e.hint()};
  } catch (const Error& e) {
    return {.kind = Outcome::Kind::other, .message = e.message(), .hint = e.hint()};
  } catch (const c10::Error& e) {
    return {.kind = Outcome::Kind::other, .message = e.what_without_backtrace()};
  } catch (const std::exception& e) {
    return {.kind = Outcome::Kind::other, .message = e.what()};
  } catch (...) {
    return {.kind = Outcome::Kind::other, .message = "an exception of an unknown type"};
  }
}

}  // namespace

void share_outcome(const ProcessGroup& group, std::string_view operation, const std::exception_ptr& own) {
  const std::vector<Outcome> all = all_gather_object(outcome_of(own), group);
  const auto first = std::ranges::find_if(all, [](const Outcome& outcome) { return outcome.kind != Outcome::Kind::good; });
  if (first == all.end()) return;
  const auto culprit = static_cast<int>(first - all.begin());
  const ErrorInfo info{.operation = std::string(operation),
                       .group = group.name(),
                       .rank = group.rank(),
                       .culprit = culprit,
                       .hint = first->hint,
                       .world_rank = group.global_rank(group.rank()),
                       .world_culprit = group.global_rank(culprit)};
  const std::string message = fmt::format("{} (on rank {})", first->message, culprit);
  if (first->kind == Outcome::Kind::checkpoint) unisono::detail::note_error_of_all(group, CheckpointError(first->path, message), culprit);
  else unisono::detail::note_error_of_all(group, Error(message), culprit);
  if (own) std::rethrow_exception(own);
  if (first->kind == Outcome::Kind::checkpoint) throw CheckpointError(first->path, message, info);
  if (first->kind == Outcome::Kind::invalid_argument) throw InvalidArgument(message, info);
  throw Error(message, info);
}

}  // namespace libtorch
}  // namespace unisono
