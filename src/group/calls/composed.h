#pragma once

#include <optional>
#include <string>
#include <span>
#include <string_view>

#include "base/deadline.h"
#include "unisono/counts.h"
#include "unisono/process_group.h"

namespace unisono::group {

/// A difference between the ranks: who is to blame (see engines/decision.h), and which rank this one is to compare itself with.
struct Difference {
  std::optional<int> culprit = {};
  bool own_is_blamed = false;
  int other = 0;  ///< a rank that differs from this one: the culprit, where this one is not to blame
};

/// A call that is made of several operations: they share its deadline and its name.
class Composed {
 public:
  Composed(std::string_view name, const ProcessGroup& group, const CallOptions& options);

  /// Returns the options of the next operation, with what is left of the time.
  CallOptions options();
  const ProcessGroup& group() const { return group_; }
  std::string_view name() const { return name_; }

  /// Throws an error of the call. All ranks must come to the same error by themselves, from what they have exchanged.
  [[noreturn]] void throw_mismatch(const Difference& found, const std::string& text) const;
  [[noreturn]] void throw_invalid(int culprit, const std::string& what) const;

 private:
  std::string_view name_;
  const ProcessGroup& group_;
  CallOptions options_;
  base::Deadline deadline_;
  bool begun_ = false;
};

}  // namespace unisono::group

namespace unisono::detail {

/// Tells all ranks the sizes of the parts that rank `src` has for them. Throws InvalidArgument on all of them unless there is a part for each.
Counts exchange_list_sizes(group::Composed& call, std::span<const std::size_t> own, Rank src);

}  // namespace unisono::detail
