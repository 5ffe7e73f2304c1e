#include "c/arguments.h"

#include <chrono>
#include <limits>
#include <source_location>

#include "unisono/c/context.h"
#include "unisono/c/group.h"
#include "unisono/detail/place.h"

namespace unisono::c {
namespace {

constexpr std::size_t most_of_structure = 4096;  // a size beyond it was never set

static_assert(first_size<unisono_call_options> <= sizeof(unisono_call_options) &&
              first_size<unisono_group_options> <= sizeof(unisono_group_options) &&
              first_size<unisono_init_options> <= sizeof(unisono_init_options) && first_size<unisono_message_info> <= sizeof(unisono_message_info));

std::source_location place_of(const char* file, std::uint64_t line) {
  if (file == nullptr || line == 0 || line > std::numeric_limits<std::uint32_t>::max()) return {};
  return detail::place_in(file, static_cast<std::uint32_t>(line));
}

std::optional<std::chrono::milliseconds> timeout_of(std::int64_t timeout_ms) {
  if (timeout_ms == 0) return std::nullopt;
  return std::chrono::milliseconds(timeout_ms);
}

}  // namespace

Handles<unisono_group, ProcessGroup>& groups() {
  static auto& instance = *new Handles<unisono_group, ProcessGroup>("group", 3);  // 1 is the world
  return instance;
}

Handles<unisono_work, Work>& works() {
  static auto& instance = *new Handles<unisono_work, Work>("work", 2);
  return instance;
}

void refuse(std::string_view operation, const std::string& what, std::string_view hint) {
  throw InvalidArgument(what, {.operation = std::string(operation), .hint = std::string(hint)});
}

std::string_view text_of(const char* text, std::string_view operation, std::string_view name) { return &target(text, operation, name); }

void write_text(std::string_view text, char* to, std::size_t capacity, std::size_t* length, std::string_view operation) {
  if (length != nullptr) *length = text.size();
  if (to == nullptr && capacity > 0) refuse(operation, "text is NULL, and capacity is " + std::to_string(capacity));
  if (capacity <= text.size()) {
    refuse(operation,
           "the text takes " + std::to_string(text.size() + 1) + " bytes with the 0 at its end, and capacity is " + std::to_string(capacity));
  }
  std::copy_n(text.data(), text.size(), to);
  to[text.size()] = 0;
}

GroupOf::GroupOf(const unisono_group* handle, std::string_view operation) {
  if (handle == unisono_world()) [[likely]] {
    world_ = &current_world();
  } else if (handle == nullptr) {
    refuse(operation, "the group is NULL, as in a process that is not a member", "unisono_world() is the group of all");
  } else {
    held_.emplace(groups().find(handle, operation));
  }
}

TensorView view_of(const void* data, std::size_t count, unisono_dtype dtype, std::string_view operation, std::string_view name) {
  const auto type = static_cast<DType>(dtype);
  const std::size_t size = size_of(type);
  if (size == 0) refuse(operation, std::to_string(static_cast<int>(dtype)) + " is no unisono_dtype");
  if (count > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / size) {
    refuse(operation, std::string(name) + " of " + std::to_string(count) + " elements of " + unisono_dtype_name(dtype) + " is beyond any memory");
  }
  if (data == nullptr && count > 0) refuse(operation, std::string(name) + " is NULL, and has " + std::to_string(count) + " elements");
  return {const_cast<void*>(data), type, count};
}

CallOptions options_of(const unisono_call_options* options, std::string_view operation) {
  if (options == nullptr) return {.where = std::source_location()};
  const auto given = structure_of(*options, operation, "unisono_call_options");
  return {.timeout = timeout_of(given.timeout_ms),
          .tag = given.tag,
          .where = place_of(given.file, given.line),
          .deterministic = given.deterministic != 0};
}

GroupOptions options_of(const unisono_group_options* options, std::string_view operation) {
  if (options == nullptr) return {.where = std::source_location()};
  const auto given = structure_of(*options, operation, "unisono_group_options");
  return {
      .backend = given.backend == nullptr ? "" : given.backend, .timeout = timeout_of(given.timeout_ms), .where = place_of(given.file, given.line)};
}

void check_size(std::size_t size, std::size_t first, std::string_view operation, std::string_view type) {
  if (size >= first && size <= most_of_structure) return;
  refuse(operation, "the member size of " + std::string(type) + " is " + std::to_string(size), "set it to sizeof(" + std::string(type) + ")");
}

void check_info(const unisono_message_info* info, std::string_view operation) {
  if (info != nullptr) check_size(info->size, first_size<unisono_message_info>, operation, "unisono_message_info");
}

void write_info(unisono_message_info* info, const MessageInfo& message) {
  if (info == nullptr) return;
  const std::size_t size = info->size;
  const unisono_message_info filled{.size = size,
                                    .source = message.source,
                                    .tag = message.tag,
                                    .dtype = static_cast<unisono_dtype>(message.dtype),
                                    .is_object = message.is_object ? 1 : 0,
                                    .count = message.count};
  std::memset(info, 0, size);
  std::memcpy(info, &filled, std::min(size, sizeof filled));
}

}  // namespace unisono::c
