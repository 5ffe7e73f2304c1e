// The results of `unisono bench --json`, which --baseline and --from read. A file is refused with InvalidArgument, or read: what is written again is
// read as the same, and there are a comparison and a picture of it.
#include <cmath>

#include <nlohmann/json.hpp>

#include "bench/rows.h"
#include "bench/report.h"
#include "input.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

/// Returns a number as a file may have it.
nlohmann::json number(Input& in) {
  switch (in.choice(5)) {
    case 0: return in.number<std::int64_t>();
    case 1: return static_cast<double>(in.number<std::int64_t>()) * 1e290;
    case 2: return static_cast<double>(in.number<std::uint16_t>()) / 1e3;
    case 3: return in.text();
    default: return in.number<std::uint8_t>();
  }
}

std::string made(Input& in) {
  nlohmann::json list = nlohmann::json::array();
  while (in.has_more() && list.size() < 16) {
    nlohmann::json entry = tools::to_json({{.set = "own",
                                            .conditions = {.dtype = "f32", .buffers = "private", .data = "static"},
                                            .impl = "unisono",
                                            .backend = "shm",
                                            .bytes = 8,
                                            .time_us = {1, 1, 1}}})[0];
    static constexpr const char* names[] = {"ranks",          "hosts",  "bytes",  "median_us", "median_low_us",
                                            "median_high_us", "p99_us", "min_us", "iqr_us",    "processor_us"};
    for (const char* const name : names) {
      if (in.choice(3) == 0) entry[name] = number(in);
    }
    if (in.flag()) entry["op"] = bench::to_string(bench::operations()[in.choice(bench::operations().size() - 1)]);
    if (in.flag()) entry["impl"] = in.flag() ? "roofline" : in.text(20);
    if (in.flag()) entry["ratio"] = {{"median", number(in)}, {"low", number(in)}, {"high", number(in)}};
    if (in.choice(15) == 0) entry.erase(names[in.choice(std::size(names) - 1)]);
    list.push_back(std::move(entry));
  }
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  const MemoryFile file(in.flag() ? made(in) : std::string(in.rest()));
  std::vector<tools::BenchRow> rows;
  if (refuses<InvalidArgument>([&] { rows = tools::read_rows(file.path()); })) return;
  require(!rows.empty(), "a result has rows");
  const auto written = [](const std::vector<tools::BenchRow>& of) {
    return tools::to_json(of).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const MemoryFile again(written(rows));
  require(written(tools::read_rows(again.path())) == written(rows), "a result comes back");
  require(!tools::BenchBaseline(file.path()).changes_in(rows).empty(), "it can be compared");
  require(tools::plot_of(rows).starts_with("<svg"), "it has a picture");
}

}  // namespace unisono::fuzz
