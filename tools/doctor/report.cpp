#include "doctor/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"

namespace unisono::tools {
namespace {

using Json = nlohmann::ordered_json;
using Matrix = std::vector<std::vector<double>>;

/// The column in which the text of a finding begins.
constexpr std::size_t text_column = 10;
constexpr std::size_t least_cell = 7;

bool is_wrong(const Finding& finding) { return finding.kind == Finding::Kind::wrong; }

std::string text_of(const Finding& finding, bool with_host) {
  const std::string kind = is_wrong(finding) ? "wrong" : "remark";
  const std::string where = with_host && !finding.host.empty() ? finding.host + ": " : "";
  return pad_right(kind, text_column) + wrap(where + finding.text, text_column, text_column) + "\n" + pad_right("  to do", text_column) +
         wrap(finding.advice, text_column, text_column) + "\n";
}

std::string cell(double value) { return value == 0 ? "-" : fmt::format("{:.{}f}", value, value < 10 ? 1 : 0); }

std::string text_of(const std::vector<std::string>& hosts, const Matrix& matrix, const std::string& title) {
  std::size_t width = 0;
  for (const std::string& host : hosts) width = std::max(width, columns_of(host));
  std::string text = "\n" + title + "\n" + pad_right("from \\ to", std::max<std::size_t>(width, 9));
  for (const std::string& host : hosts) text += "  " + pad_left(host, least_cell);
  text += '\n';
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += pad_right(hosts[i], std::max<std::size_t>(width, 9));
    for (std::size_t j = 0; j < hosts.size(); ++j)
      text += "  " + pad_left(i == j ? "" : cell(matrix[i][j]), std::max(least_cell, columns_of(hosts[j])));
    text += '\n';
  }
  return text;
}

}  // namespace

bool is_anything_wrong(const Examination& examination) { return std::ranges::any_of(examination.findings, is_wrong); }

std::string text_of(const Examination& examination) {
  const bool several = examination.hosts.size() > 1;
  std::string text;
  Findings sorted = examination.findings;
  std::ranges::stable_sort(sorted, [](const Finding& a, const Finding& b) { return is_wrong(a) && !is_wrong(b); });
  for (const Finding& finding : sorted) text += text_of(finding, several);
  const auto wrong = std::ranges::count_if(sorted, is_wrong);
  const auto hosts = examination.hosts.size();
  text += fmt::format("{} host{}: {}, {} remark{}\n", hosts, hosts == 1 ? "" : "s",
                      wrong == 0 ? std::string("nothing is wrong") : fmt::format("{} wrong", wrong), std::ssize(sorted) - wrong,
                      std::ssize(sorted) - wrong == 1 ? "" : "s");
  if (!several) return text;
  text += text_of(examination.hosts, examination.latency_us, "latency of 8 bytes over TCP, in µs");
  text += text_of(examination.hosts, examination.mebibytes_per_s, "bandwidth of one TCP connection, in MiB/s");
  return text;
}

Json json_of(const Examination& examination) {
  Json findings = Json::array();
  for (const Finding& each : examination.findings)
    findings.push_back(
        {{"kind", is_wrong(each) ? "wrong" : "remark"}, {"host", each.host}, {"about", each.about}, {"text", each.text}, {"advice", each.advice}});
  Json result{{"hosts", examination.hosts}, {"facts", examination.facts}, {"findings", findings}};
  if (examination.hosts.size() > 1) {
    result["latency_us"] = examination.latency_us;
    result["mebibytes_per_s"] = examination.mebibytes_per_s;
  }
  return result;
}

}  // namespace unisono::tools
