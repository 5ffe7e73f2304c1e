#include "launch/hosts/host_texts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include "launch/job_options.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

constexpr std::size_t longest_status = 400;

// The fields of each text, in the order in which they are written; a text may go on behind them.
auto host_fields(auto& host) { return std::tie(host.number, host.ranks, host.first_rank, host.is_late, host.is_gone, host.where); }
auto tally_fields(auto& tally) { return std::tie(tally.members, tally.well, tally.last_lost); }
auto trouble_fields(auto& trouble) { return std::tie(trouble.kind, trouble.node, trouble.rank, trouble.signal); }
auto end_fields(auto& end) {
  return std::tie(end.rank, end.pid, end.how, end.code, end.dumped_core, end.out_of_memory, end.is_taken, end.ended_by_launcher,
                  end.left_without_finalize, end.is_survived, end.is_well, end.order, end.waited, end.host);
}

bool is_count(int number) { return number >= 0 && number <= most_ranks; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

std::string one_line(std::string text) {
  std::ranges::replace_if(text, is_control, ' ');
  return text.substr(0, longest_status);
}

/// Returns the rest of a line, behind its fields and a blank.
std::string rest_of(std::istream& line) {
  std::string rest;
  line.get();
  std::getline(line, rest);
  return rest;
}

}  // namespace

bool is_one_word(std::string_view text) {
  return !text.empty() && std::ranges::none_of(text, [](char c) { return c == ' ' || is_control(c); });
}

std::string encode_roster(const std::vector<JobHost>& hosts) {
  std::string text;
  for (const JobHost& host : hosts) text += write_fields(host_fields(host)) + "\n";
  return text;
}

std::vector<JobHost> decode_roster(const std::string& text) {
  std::vector<JobHost> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    JobHost host;
    if (!read_fields(in, host_fields(host)) || host.number < 0 || !is_count(host.ranks) || host.first_rank < 0 || !is_one_word(host.where)) {
      throw ProtocolError("the launcher of host 0 sent a malformed list of hosts");
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::vector<JobHost> HostRoster::all() const {
  const std::lock_guard lock(mutex_);
  return hosts_;
}

void HostRoster::set(std::vector<JobHost> hosts) {
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(hosts);
}

void HostRoster::add(JobHost host) {
  const std::lock_guard lock(mutex_);
  hosts_.push_back(std::move(host));
}

void HostRoster::note_gone(int number) {
  const std::lock_guard lock(mutex_);
  if (const auto host = std::ranges::find(hosts_, number, &JobHost::number); host != hosts_.end()) host->is_gone = true;
}

int HostRoster::present() const { return static_cast<int>(std::ranges::count(all(), false, &JobHost::is_gone)); }

std::optional<JobHost> HostRoster::find(int number) const {
  const std::vector<JobHost> hosts = all();
  const auto host = std::ranges::find(hosts, number, &JobHost::number);
  return host == hosts.end() ? std::nullopt : std::optional(*host);
}

int HostRoster::host_of(int rank) const {
  for (const JobHost& host : all()) {
    if (rank >= host.first_rank && rank < host.first_rank + host.ranks) return host.number;
  }
  return 0;
}

std::string encode_tally(const HostTally& tally) { return fmt::format("{} {}", write_fields(tally_fields(tally)), fmt::join(tally.names, " ")); }

HostTally decode_tally(const std::string& text) {
  std::istringstream in(text);
  HostTally tally;
  if (!read_fields(in, tally_fields(tally)) || !is_count(tally.members) || !is_count(tally.well) || tally.last_lost < -1) {
    throw ProtocolError("a launcher sent malformed data about its ranks");
  }
  for (std::string name; in >> name;) tally.names.push_back(name);
  return tally;
}

std::string encode_ends(const std::vector<RankEnd>& ends) {
  std::string text;
  for (RankEnd end : ends) {
    end.host = end.host.empty() ? "?" : one_line(end.host);
    text += fmt::format("{} {}\n", write_fields(end_fields(end)), one_line(end.status));
  }
  return text;
}

std::vector<RankEnd> decode_ends(const std::string& text) {
  std::vector<RankEnd> ends;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    RankEnd end;
    const bool is_whole = read_fields(in, end_fields(end));
    const bool is_known = end.how >= RankEnd::How::running && end.how <= RankEnd::How::signaled && end.code >= 0 && end.code <= UINT8_MAX &&
                          end.waited >= -1 && end.waited <= 1000;
    if (!is_whole || !is_known || std::ranges::any_of(end.host, is_control))
      throw ProtocolError("a launcher sent malformed data about the end of its ranks");
    end.status = rest_of(in);
    ends.push_back(std::move(end));
  }
  return ends;
}

std::optional<std::size_t> first_cause_of_hosts(std::span<const RankEnd> ends, int least_ranks, const std::optional<Trouble>& trouble) {
  if (least_ranks == 0 || (trouble && trouble->kind == Trouble::Kind::lost)) return first_cause(ends);
  return first_cause_of_elastic(ends, least_ranks, trouble && trouble->kind == Trouble::Kind::too_few);
}

std::string Trouble::text() const { return fmt::format("{} {}", write_fields(trouble_fields(*this)), how); }

std::optional<Trouble> Trouble::parse(const std::string& text) {
  std::istringstream in(text);
  Trouble trouble;
  if (!read_fields(in, trouble_fields(trouble)) || trouble.kind < Kind::failure || trouble.kind > Kind::displaced) return std::nullopt;
  trouble.how = rest_of(in);
  return trouble;
}

}  // namespace unisono::launcher
