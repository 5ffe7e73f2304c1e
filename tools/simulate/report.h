#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "simulate/crossing.h"
#include "simulate/engine.h"
#include "simulate/startup.h"

namespace unisono::simulate {

/// What `unisono simulate` has found.
struct Report {
  Call call;
  SimulationOptions options;
  Outcome outcome;
  std::vector<std::pair<std::string_view, Startup>> starts = {};  ///< by design
  std::optional<Crossing> crossing = {};
};

std::string text_of(const Report& report);
nlohmann::ordered_json json_of(const Report& report);

}  // namespace unisono::simulate
