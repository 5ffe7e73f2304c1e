#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "unisono/c/types.h"
#include "unisono/process_group.h"
#include "unisono/work.h"

namespace unisono::c {

/// The objects that handles stand for. A handle is a number in the form of a pointer, and no number is given twice, so that one that was freed is
/// known as such. Any thread may call; a value that is found stays usable if another thread frees its handle.
template <class Handle, class Value>
class Handles {
 public:
  /// `what` is the name of a handle in errors. Numbers are odd where `first` is, so that a handle of another kind is not taken for one.
  Handles(std::string_view what, std::uintptr_t first) : what_(what), first_(first), next_(first) {}

  Handle* add(Value value) {
    const std::lock_guard lock(mutex_);
    all_.emplace(next_, std::move(value));
    return reinterpret_cast<Handle*>(std::exchange(next_, next_ + 2));  // NOLINT(performance-no-int-to-ptr): it is no address
  }
  /// Puts the value behind the handle, unless somebody has freed it.
  void replace(const Handle* handle, Value value) {
    const std::lock_guard lock(mutex_);
    if (const auto found = all_.find(number(handle)); found != all_.end()) std::swap(found->second, value);
  }
  /// Throws InvalidArgument for no handle, with the name of the function.
  Value find(const Handle* handle, std::string_view operation) const {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(number(handle));
    if (found == all_.end()) refuse(handle, operation);
    return found->second;
  }
  /// The same, and takes the handle away.
  Value remove(const Handle* handle, std::string_view operation) {
    const std::lock_guard lock(mutex_);
    auto node = all_.extract(number(handle));
    if (node.empty()) refuse(handle, operation);
    return std::move(node.mapped());
  }

 private:
  static std::uintptr_t number(const Handle* handle) { return reinterpret_cast<std::uintptr_t>(handle); }
  [[noreturn]] void refuse(const Handle* handle, std::string_view operation) const {
    const bool was_given = number(handle) >= first_ && number(handle) < next_ && (number(handle) - first_) % 2 == 0;
    throw InvalidArgument("this " + what_ +
                              (was_given           ? " was freed"
                               : handle == nullptr ? " is NULL"
                                                   : " is not a handle of this library"),
                          {.operation = std::string(operation)});
  }

  const std::string what_;
  const std::uintptr_t first_;
  mutable std::mutex mutex_;
  std::uintptr_t next_;
  std::unordered_map<std::uintptr_t, Value> all_;
};

/// The groups of this process, but for the world. They are never destroyed, as the works, since a thread may call at any time.
Handles<unisono_group, ProcessGroup>& groups();
Handles<unisono_work, Work>& works();

}  // namespace unisono::c
