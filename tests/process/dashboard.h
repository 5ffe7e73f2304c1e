#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "running_command.h"

namespace unisono::testing {

/// Adds all texts of the key `expr`, wherever they are.
inline void gather_queries(const nlohmann::json& json, std::vector<std::string>& queries) {
  if (json.is_object() && json.contains("expr")) queries.push_back(json.at("expr").get<std::string>());
  if (json.is_structured()) {
    for (const auto& each : json) gather_queries(each, queries);
  }
}

/// The queries of the dashboard for Grafana, with its variables in them.
inline std::vector<std::string> queries_of_dashboard(const std::string& path) {
  std::vector<std::string> queries;
  gather_queries(nlohmann::json::parse(contents(path)), queries);
  return queries;
}

}  // namespace unisono::testing
