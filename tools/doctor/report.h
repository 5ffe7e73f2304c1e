#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "doctor/session.h"

namespace unisono::tools {

/// Returns the findings and, of several hosts, the matrices, for people.
std::string text_of(const Examination& examination);
/// Returns the same for programs.
nlohmann::ordered_json json_of(const Examination& examination);
/// Returns a picture of the matrices, in which a slow pair stands out. SVG 1.1.
std::string svg_of(const Examination& examination);

bool is_anything_wrong(const Examination& examination);

}  // namespace unisono::tools
