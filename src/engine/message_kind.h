#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "ground/hash.h"
#include "unisono/backend.h"
#include "unisono/message_info.h"

namespace unisono::engine {

inline constexpr std::uint32_t labelled_kind = 0x80;

inline std::uint32_t kind_of(DType dtype, std::string_view label) {
  const auto number = static_cast<std::uint32_t>(dtype);
  return label.empty() ? number : number | (static_cast<std::uint32_t>(ground::stable_hash(label)) << 8) | labelled_kind;
}
/// What two sides of a message agree on beside its length: the dtype in the lowest byte, with a mark where there is a label, and a hash of it above.
inline std::uint32_t kind_of(const MessageCall& call) { return kind_of(call.data.dtype(), call.label); }
inline DType dtype_of_kind(std::uint32_t kind) { return static_cast<DType>(kind & (labelled_kind - 1)); }

/// Of the message by which a sender of device memory says what it has.
inline constexpr std::string_view device_announcement = "send of device memory";

/// Tags below it are the library's own: no program gives one, and no receive of any tag takes their messages.
inline constexpr int lowest_tag = std::numeric_limits<int>::min() + (1 << 24);

/// Whether a receive takes a message of that tag.
inline bool takes_tag(int wanted, int tag) { return wanted == tag || (wanted == any_tag && tag >= lowest_tag); }

}  // namespace unisono::engine
