#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/error_place.h"
#include "c/guarded.h"
#include "c/handles.h"
#include "unisono/c/context.h"
#include "unisono/c/types.h"
#include "unisono/message_info.h"
#include "unisono/process_group.h"
#include "unisono/tensor.h"

// From the arguments of a function of C to those of C++. What is wrong is InvalidArgument with the name of the function.

namespace unisono::c {

[[noreturn]] void refuse(std::string_view operation, const std::string& what, std::string_view hint = {});

/// Returns what an out parameter points to. `name` is the parameter's.
template <class T>
T& target(T* pointer, std::string_view operation, std::string_view name) {
  if (pointer == nullptr) refuse(operation, std::string(name) + " is NULL");
  return *pointer;
}

/// Returns the text that a parameter points to.
std::string_view text_of(const char* text, std::string_view operation, std::string_view name);

/// Writes a text with a 0 behind it, as unisono_hostname says.
void write_text(std::string_view text, char* to, std::size_t capacity, std::size_t* length, std::string_view operation);

/// The group that a handle stands for, as long as the call lasts.
class GroupOf {
 public:
  GroupOf(const unisono_group* handle, std::string_view operation);
  const ProcessGroup& get() const { return held_ ? *held_ : *world_; }

 private:
  const ProcessGroup* world_ = nullptr;
  std::optional<ProcessGroup> held_;
};

/// Returns a view of a buffer. `name` is the parameter's.
TensorView view_of(const void* data, std::size_t count, unisono_dtype dtype, std::string_view operation, std::string_view name);

CallOptions options_of(const unisono_call_options* options, std::string_view operation);
GroupOptions options_of(const unisono_group_options* options, std::string_view operation);

/// The sizes that the structures had in the first version; newer members stand behind.
template <class T>
inline constexpr std::size_t first_size = 0;
template <>
inline constexpr std::size_t first_size<unisono_call_options> = 40;
template <>
inline constexpr std::size_t first_size<unisono_group_options> = 40;
template <>
inline constexpr std::size_t first_size<unisono_init_options> = 64;
template <>
inline constexpr std::size_t first_size<unisono_message_info> = 32;

/// Throws if a structure has a size that none of any version has. `type` is its name.
void check_size(std::size_t size, std::size_t first, std::string_view operation, std::string_view type);

/// Returns the structure with 0 for the members that the program's headers did not have yet. Throws WrongVersion if the program sets a member that
/// this library does not know.
template <class T>
T structure_of(const T& given, std::string_view operation, std::string_view type) {
  check_size(given.size, first_size<T>, operation, type);
  T structure{};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  std::memcpy(&structure, bytes, std::min(given.size, sizeof(T)));
  if (given.size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + given.size, [](unsigned char byte) { return byte != 0; })) {
    throw WrongVersion(std::string(type) + " has a member set that unisono " + unisono_version_text() + " does not know",
                       {.operation = std::string(operation), .hint = "compile the program with the headers of the library that it runs with"});
  }
  return structure;
}

/// Throws if the structure cannot take a message's facts; NULL can.
void check_info(const unisono_message_info* info, std::string_view operation);
/// Fills in what `check_info` has seen.
void write_info(unisono_message_info* info, const MessageInfo& message);

/// Returns what f returns for the group and the options of a call. Errors name the call's place.
template <class F>
decltype(auto) with_call(const unisono_group* handle, const unisono_call_options* given, std::string_view operation, F&& f) {
  const CallOptions options = options_of(given, operation);
  return base::with_place(options.where, [&] { return f(GroupOf(handle, operation).get(), options); });
}

/// Starts an operation and writes its handle. Nothing is started where there is no memory for the handle.
template <class F>
unisono_status started(unisono_work** work, std::string_view operation, F&& start) noexcept {
  return guarded([&] {
    unisono_work*& handle = target(work, operation, "work");
    handle = nullptr;
    unisono_work* const added = works().add(Work());
    try {
      works().replace(added, start());
    } catch (...) {
      static_cast<void>(works().remove(added, operation));
      throw;
    }
    handle = added;
  });
}

}  // namespace unisono::c
