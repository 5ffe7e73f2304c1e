#include "unisono/c/group.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/arguments.h"

namespace unisono::c {
namespace {

/// Writes a handle of the group that `form` makes; NULL where this process is no member.
template <class F>
unisono_status formed(unisono_group** to, std::string_view operation, F&& form) noexcept {
  return guarded([&] {
    unisono_group*& handle = target(to, operation, "group");
    handle = nullptr;
    if (std::optional<ProcessGroup> group = form()) handle = groups().add(std::move(*group));
  });
}

/// Calls f with the group that a handle stands for.
template <class F>
unisono_status with_group(const unisono_group* handle, std::string_view operation, F&& f) noexcept {
  return guarded([&] { f(GroupOf(handle, operation).get()); });
}

/// The same, where f answers with a number.
template <class F>
unisono_status number_of_group(const unisono_group* handle, std::int32_t* to, std::string_view operation, std::string_view name, F&& f) noexcept {
  return with_group(handle, operation, [&](const ProcessGroup& group) {
    std::int32_t& answer = target(to, operation, name);
    answer = f(group);
  });
}

}  // namespace
}  // namespace unisono::c

using unisono::ProcessGroup;
using unisono::c::formed;
using unisono::c::guarded;
using unisono::c::number_of_group;
using unisono::c::refuse;
using unisono::c::with_group;

unisono_group* unisono_world() {
  return reinterpret_cast<unisono_group*>(std::uintptr_t{1});  // NOLINT(performance-no-int-to-ptr): as all handles, it is no address
}

unisono_status unisono_new_group(const int32_t* global_ranks, size_t count, const unisono_group_options* options, unisono_group** group) {
  return formed(group, "new_group", [&] {
    if (global_ranks == nullptr && count > 0) refuse("new_group", "global_ranks is NULL, and count is " + std::to_string(count));
    return unisono::new_group(std::span<const int>(global_ranks, count), unisono::c::options_of(options, "new_group"));
  });
}

unisono_status unisono_split_group(unisono_group* parent, int32_t color, int32_t key, const unisono_group_options* options, unisono_group** group) {
  return formed(group, "split_group", [&] {
    const unisono::c::GroupOf whole(parent, "split_group");
    return unisono::split_group(whole.get(), color, key, unisono::c::options_of(options, "split_group"));
  });
}

unisono_status unisono_local_group(unisono_group** group) {
  return formed(group, "local_group", [] { return std::optional(unisono::local_group()); });
}

unisono_status unisono_shrink_group(unisono_group* group, unisono_group** survivors) {
  return formed(survivors, "shrink_group", [&] { return unisono::shrink_group(unisono::c::GroupOf(group, "shrink_group").get()); });
}

unisono_status unisono_group_free(unisono_group* group) {
  return guarded([&] {
    if (group == unisono_world()) refuse("group_free", "the world cannot be freed", "unisono_finalize ends it");
    static_cast<void>(unisono::c::groups().remove(group, "group_free"));
  });
}

unisono_status unisono_group_rank(unisono_group* group, int32_t* rank) {
  return number_of_group(group, rank, "group_rank", "rank", [](const ProcessGroup& of) { return of.rank(); });
}

unisono_status unisono_group_size(unisono_group* group, int32_t* size) {
  return number_of_group(group, size, "group_size", "size", [](const ProcessGroup& of) { return of.size(); });
}

unisono_status unisono_group_global_rank(unisono_group* group, int32_t rank, int32_t* global_rank) {
  return number_of_group(group, global_rank, "group_global_rank", "global_rank", [&](const ProcessGroup& of) { return of.global_rank(rank); });
}

unisono_status unisono_group_rank_of(unisono_group* group, int32_t global_rank, int32_t* rank) {
  return number_of_group(group, rank, "group_rank_of", "rank",
                         [&](const ProcessGroup& of) { return of.rank_of(unisono::GlobalRank{global_rank}).value_or(-1); });
}

unisono_status unisono_group_global_ranks(unisono_group* group, int32_t* global_ranks, size_t capacity) {
  return with_group(group, "group_global_ranks", [&](const ProcessGroup& of) {
    const std::vector<int> ranks = of.global_ranks();
    if (capacity < ranks.size()) {
      refuse("group_global_ranks", "the group has " + std::to_string(ranks.size()) + " members, and capacity is " + std::to_string(capacity));
    }
    std::copy(ranks.begin(), ranks.end(), &unisono::c::target(global_ranks, "group_global_ranks", "global_ranks"));
  });
}

unisono_status unisono_group_name(unisono_group* group, char* text, size_t capacity, size_t* length) {
  return with_group(group, "group_name", [&](const ProcessGroup& of) { unisono::c::write_text(of.name(), text, capacity, length, "group_name"); });
}

unisono_status unisono_group_backend(unisono_group* group, char* text, size_t capacity, size_t* length) {
  return with_group(group, "group_backend",
                    [&](const ProcessGroup& of) { unisono::c::write_text(of.backend(), text, capacity, length, "group_backend"); });
}

unisono_status unisono_group_abort(unisono_group* group, const char* reason) {
  return with_group(group, "group_abort",
                    [&](const ProcessGroup& of) { ProcessGroup(of).abort(unisono::c::text_of(reason, "group_abort", "reason")); });
}
