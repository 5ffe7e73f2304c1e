#include "harness/plan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "unisono/error.h"

namespace unisono::bench {

namespace {

constexpr std::array short_names = {std::pair{DType::float32, "f32"},   std::pair{DType::float64, "f64"}, std::pair{DType::float16, "f16"},
                                    std::pair{DType::bfloat16, "bf16"}, std::pair{DType::int8, "i8"},     std::pair{DType::uint8, "u8"},
                                    std::pair{DType::int32, "i32"},     std::pair{DType::int64, "i64"}};

}  // namespace

std::string_view to_string(DataMode mode) noexcept {
  switch (mode) {
    case DataMode::constant: return "static";
    case DataMode::varying: return "varying";
    case DataMode::touch: return "touch";
  }
  return "";
}

std::string_view short_name(DType dtype) noexcept {
  const auto* found = std::ranges::find(short_names, dtype, [](const auto& entry) { return entry.first; });
  return found == short_names.end() ? to_string(dtype) : found->second;
}

std::span<const std::string_view> dtype_names() noexcept {
  static const auto names = [] {
    std::array<std::string_view, short_names.size()> all;
    std::ranges::transform(short_names, all.begin(), [](const auto& entry) { return entry.second; });
    return all;
  }();
  return names;
}

DType parse_dtype(std::string_view text) {
  for (const auto& [dtype, name] : short_names)
    if (text == name || text == unisono::to_string(dtype)) return dtype;
  throw InvalidArgument("the bench does not know the dtype '" + std::string(text) + "'", {.hint = "one of f32, f64, f16, bf16, i8, u8, i32, i64"});
}

std::string to_json(const Plan& plan) {
  nlohmann::json json;
  for (Operation operation : plan.operations) json["operations"].push_back(to_string(operation));
  json["sizes"] = plan.sizes;
  json["dtype"] = short_name(plan.dtype);
  json["data"] = static_cast<int>(plan.data);
  json["candidates"] = plan.candidates;
  json["backend"] = plan.backend;
  json["ranks"] = plan.ranks;
  json["hosts"] = plan.hosts;
  json["in_place"] = plan.in_place;
  json["shared_buffers"] = plan.shared_buffers;
  json["bind"] = plan.bind;
  json["progress"] = plan.progress;
  json["seed"] = plan.seed;
  json["block_us"] = plan.block_time.count();
  json["timeout_ms"] = plan.timeout.count();
  json["folder"] = plan.folder;
  json["arena"] = plan.arena;
  json["control"] = plan.control;
  json["events"] = plan.events;
  return json.dump();
}

Plan plan_from_json(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  Plan plan;
  for (const auto& name : json.at("operations").get<std::vector<std::string>>()) {
    std::optional<Operation> operation = parse_operation(name);
    if (!operation) throw std::runtime_error("the plan names an unknown operation: " + name);
    plan.operations.push_back(*operation);
  }
  json.at("sizes").get_to(plan.sizes);
  plan.dtype = parse_dtype(json.at("dtype").get<std::string>());
  plan.data = static_cast<DataMode>(json.at("data").get<int>());
  json.at("candidates").get_to(plan.candidates);
  json.at("backend").get_to(plan.backend);
  json.at("ranks").get_to(plan.ranks);
  json.at("hosts").get_to(plan.hosts);
  json.at("in_place").get_to(plan.in_place);
  json.at("shared_buffers").get_to(plan.shared_buffers);
  json.at("bind").get_to(plan.bind);
  plan.progress = json.value("progress", false);  // scripts that start the drivers leave it out
  json.at("seed").get_to(plan.seed);
  plan.block_time = std::chrono::microseconds(json.at("block_us").get<std::int64_t>());
  plan.timeout = std::chrono::milliseconds(json.at("timeout_ms").get<std::int64_t>());
  json.at("folder").get_to(plan.folder);
  json.at("arena").get_to(plan.arena);
  json.at("control").get_to(plan.control);
  json.at("events").get_to(plan.events);
  return plan;
}

}  // namespace unisono::bench
