#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/detail/remote_call.h"

namespace unisono::controller {

/// Returns the number by which a call names its function.
std::uint64_t number_of(std::string_view name, std::string_view signature) noexcept;
inline std::uint64_t number_of(const detail::RemoteFunction& function) noexcept { return number_of(function.name, function.signature); }

/// Returns the function with that number; null if this process has none.
const detail::RemoteFunction* function_of(std::uint64_t number) noexcept;

/// A function as other processes are told of it.
struct Known {
  std::string name, signature;
  friend auto operator<=>(const Known&, const Known&) = default;
};

/// Returns the functions that processes compare when they meet, in order.
std::vector<Known> compared_functions();
/// Throws InvalidArgument if an object of static storage has registered a function a second time.
void check_registered_once();

}  // namespace unisono::controller
