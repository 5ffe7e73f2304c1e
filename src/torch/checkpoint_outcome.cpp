#include "torch/checkpoint_outcome.h"

#include <filesystem>
#include <string>
#include <vector>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "unisono/objects.h"
#include "unisono/torch/checkpoint.h"

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
  if (own) std::rethrow_exception(own);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Outcome& theirs = all[r];
    if (theirs.kind == Outcome::Kind::good) continue;
    const ErrorInfo info{
        .operation = std::string(operation), .group = group.name(), .rank = group.rank(), .culprit = static_cast<int>(r), .hint = theirs.hint};
    const std::string message = fmt::format("{} (on rank {})", theirs.message, r);
    if (theirs.kind == Outcome::Kind::checkpoint) throw CheckpointError(theirs.path, message, info);
    if (theirs.kind == Outcome::Kind::invalid_argument) throw InvalidArgument(message, info);
    throw Error(message, info);
  }
}

}  // namespace libtorch
}  // namespace unisono
