#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "rendezvous/identity.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// The task of this process, after argument, URL and environment were merged.
struct Plan {
  explicit Plan(const base::Environment& variables) : environment(variables) {}
  const base::Environment& environment;
  std::optional<int> rank;
  int world_size = 1;
  JobIdentity identity;  ///< all but the store and the members
  std::string group_name, library;
  std::chrono::milliseconds timeout{};
  std::string place = "a store that rank 0 serves";  ///< the meeting place, for the log
  bool store_may_end = false;
};

/// A value and its source.
struct Said {
  int value = 0;
  std::string_view source;
};

inline std::optional<Said> said(std::optional<int> value, std::string_view source) {
  return value ? std::optional(Said{*value, source}) : std::nullopt;
}
inline std::optional<Said> said(const std::optional<Given>& given) {
  return given ? std::optional(Said{given->value, given->variable}) : std::nullopt;
}
inline std::optional<int> value(const std::optional<Said>& said) { return said ? std::optional(said->value) : std::nullopt; }

/// Merges a value from two sources. Both may give it, but must not differ.
std::optional<Said> agree(std::string_view what, const std::optional<Said>& first, const std::optional<Said>& second);

/// Refuses numbers that no job can have, before any rank is waited for.
void check_range(const Plan& plan);

/// Makes the plan of a program that says itself where the ranks meet.
Plan explicit_plan(const JobRequest& request, std::optional<int> rank, std::optional<int> world_size, const base::Environment& environment);

}  // namespace unisono::rendezvous
