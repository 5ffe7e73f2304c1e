#include "torch/python/errors.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "unisono/detail/place.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

constexpr c10::SourceLocation here{"unisono", "", 0};

using Words = std::pair<std::string_view, std::string_view>;

// Names of the C++ interface in error texts, with their names in Python.
constexpr Words phrases[] = {
    {"(finalize)", "(destroy_process_group)"},
    {"before finalize", "before destroy_process_group"},
    {"without finalize", "without destroy_process_group"},
    {"the group is closed: its context was finalized", "the group was destroyed"},
    {"initialize was not done", "the group was not formed"},
};
constexpr Words hints[] = {
    {"the group is over; shrink_group makes one of the survivors",
     "the group is over; destroy_process_group and init_process_group make another one of the survivors"},
    {"start processes before initialize, or exec after fork", "start processes before init_process_group, or with the start method spawn"},
};

// PyTorch finds a group by its ranks and by how many groups each member has made before.
constexpr Words group_hint = {
    "were all of them started, and can they reach the store?",
    "have all members called new_group with these ranks, each after as many other groups? PyTorch names a group by both",
};

std::string in_python(const Error& error, std::string_view joining) {
  std::string message = error.message();
  for (const auto& [ours, theirs] : phrases) {
    if (const auto at = message.find(ours); at != std::string::npos) message.replace(at, ours.size(), theirs);
  }
  ErrorInfo info = error.info();
  if (info.operation == "initialize") info.operation = joining;
  if (joining == "new_group" && info.hint == group_hint.first) info.hint = group_hint.second;
  if (info.where.line() == 0) info.where = detail::place_of_caller();
  for (const auto& [ours, theirs] : hints) {
    if (info.hint == ours) info.hint = theirs;
  }
  return Error(message, std::move(info)).what();
}

}  // namespace

void throw_torch_error(const char* joining) {
  try {
    throw;
  } catch (const Timeout& late) {  // programs search for "Timed out"
    throw c10::DistBackendError(here, fmt::format("unisono: Timed out : {}", in_python(late, joining)));
  } catch (const InvalidArgument& wrong) {
    throw c10::ValueError(here, in_python(wrong, joining));
  } catch (const Unsupported& lacking) {
    throw c10::NotImplementedError(here, in_python(lacking, joining));
  } catch (const Error& error) {
    throw c10::DistBackendError(here, fmt::format("unisono: {}", in_python(error, joining)));
  }
}

std::exception_ptr as_torch_error(const std::exception_ptr& error) {
  if (!error) return nullptr;
  try {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      throw_torch_error();
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace unisono::libtorch
