#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "common/text.h"

namespace unisono::tools {

namespace {

/// Returns a name short enough for the table.
std::string_view shown_name(const BenchRow& row) {
  if (row.impl == "unisono-unchecked") return "unchecked";
  if (row.impl == "unisono-unrecorded") return "unrecorded";
  return row.impl;
}

bool counts_messages(const BenchRow& row) { return row.operation == bench::Operation::message_rate && row.impl != roofline_impl; }

/// A copy reads and writes its bytes, so twice as many go through the cache.
bool is_bound(const BenchRow& row, std::size_t cache_bytes) { return bench::moves_as_much_as_a_copy(row.operation) && row.bytes > cache_bytes / 2; }

}  // namespace

std::vector<std::vector<BenchRow>> groups_of(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<BenchRow>> groups;
  for (const BenchRow& row : rows) {
    const auto is_its = [&](const auto& group) { return group.front().set == row.set && group.front().conditions == row.conditions; };
    auto found = std::ranges::find_if(groups, is_its);
    if (found == groups.end()) found = groups.insert(found, std::vector<BenchRow>());
    found->push_back(row);
  }
  return groups;
}

void print_table(std::ostream& out, const std::vector<BenchRow>& rows, std::size_t cache_bytes) {
  std::vector<const BenchRow*> shown;
  std::size_t size_width = 8, name_width = 8;
  bool has_bound = false;
  for (const BenchRow& row : rows) {
    if (row.impl == roofline_impl && !is_bound(row, cache_bytes)) continue;
    has_bound = has_bound || row.impl == roofline_impl;
    shown.push_back(&row);
    size_width = std::max(size_width, size_text(row.bytes).size());
    name_width = std::max(name_width, shown_name(row).size());
  }
  const auto line = [&](std::string_view size, std::string_view name, std::string_view median, std::string_view p99, std::string_view rate,
                        std::string_view bus, std::string_view ratio) {
    std::string text = pad_left(size, size_width) + "  " + pad_right(name, name_width) + pad_left(median, 10) + pad_left(p99, 9) + pad_left(rate, 8) +
                       pad_left(bus, 10) + "  " + std::string(ratio);
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << "\n";
  };
  const BenchRow* last = nullptr;
  for (const BenchRow* row : shown) {
    if (last == nullptr || last->operation != row->operation) {
      out << "\n" << bench::to_string(row->operation) << "\n";
      line("size", "", "median us", "p99 us", "GB/s", counts_messages(*row) ? "M msg/s" : "bus GB/s", "× unisono");
      last = nullptr;
    }
    const double rate = gigabytes_per_second(*row);
    const bool moves = row->bytes != 0;
    const double last_rate = counts_messages(*row) ? messages_per_second(*row) / 1e6 : rate * bus_factor_of(*row);
    line(last != nullptr && last->bytes == row->bytes ? "" : size_text(row->bytes), shown_name(*row), microseconds(row->time_us.middle),
         microseconds(row->p99_us), moves ? three_digits(rate) : "-", moves ? three_digits(last_rate) : "-",
         row->ratio ? ratio_text(*row->ratio) : std::string());
    last = row;
  }
  if (has_bound)
    out << "\n"
        << wrap("roofline: each rank copies as many bytes, with the fastest copy there is. Shown from where memory sets the time.", 10) << "\n";
}

}  // namespace unisono::tools
