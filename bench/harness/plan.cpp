#include "harness/plan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "unisono/error.h"

template <class Rep, class Period>
struct nlohmann::adl_serializer<std::chrono::duration<Rep, Period>> {
  static void to_json(json& json, std::chrono::duration<Rep, Period> time) { json = time.count(); }
  static void from_json(const json& json, std::chrono::duration<Rep, Period>& time) { time = std::chrono::duration<Rep, Period>(json.get<Rep>()); }
};

namespace unisono::bench {

void to_json(nlohmann::json& json, const Operation& operation) { json = to_string(operation); }

void from_json(const nlohmann::json& json, Operation& operation) {
  const auto name = json.get<std::string>();
  const std::optional<Operation> known = parse_operation(name);
  if (!known) throw std::runtime_error("the plan names an unknown operation: " + name);
  operation = *known;
}

namespace {

constexpr std::array short_names = {std::pair{DType::float32, "f32"},   std::pair{DType::float64, "f64"}, std::pair{DType::float16, "f16"},
                                    std::pair{DType::bfloat16, "bf16"}, std::pair{DType::int8, "i8"},     std::pair{DType::uint8, "u8"},
                                    std::pair{DType::int32, "i32"},     std::pair{DType::int64, "i64"}};

/// Calls `visit` with the name and the value of every member, but for the dtype.
template <class PlanType, class Visit>
void each_field(PlanType& plan, const Visit& visit) {
  visit("operations", plan.operations);
  visit("sizes", plan.sizes);
  visit("data", plan.data);
  visit("candidates", plan.candidates);
  visit("mpi", plan.mpi.name);
  visit("library", plan.mpi.library);
  visit("backend", plan.backend);
  visit("ranks", plan.ranks);
  visit("hosts", plan.hosts);
  visit("in_place", plan.in_place);
  visit("shared_buffers", plan.shared_buffers);
  visit("on_device", plan.on_device);
  visit("bind", plan.bind);
  visit("reports", plan.reports);
  visit("seed", plan.seed);
  visit("block_us", plan.block_time);
  visit("timeout_ms", plan.timeout);
  visit("folder", plan.folder);
  visit("arena", plan.arena);
}

}  // namespace

std::string_view to_string(DataMode mode) noexcept {
  constexpr std::array<std::string_view, 3> names{"static", "varying", "touch"};
  return names[static_cast<std::size_t>(mode)];
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
  each_field(plan, [&](const char* name, const auto& value) { json[name] = value; });
  json["dtype"] = short_name(plan.dtype);
  return json.dump();
}

Plan plan_from_json(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text);
  // Scripts that start the drivers leave these out.
  json.emplace("on_device", false);
  json.emplace("reports", nlohmann::json::array());
  json.emplace("mpi", "");
  json.emplace("library", "");
  Plan plan;
  each_field(plan, [&](const char* name, auto& value) { json.at(name).get_to(value); });
  plan.dtype = parse_dtype(json.at("dtype").get<std::string>());
  return plan;
}

}  // namespace unisono::bench
