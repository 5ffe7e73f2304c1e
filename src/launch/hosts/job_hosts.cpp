#include "launch/hosts/job_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "unisono/error.h"
#include "launch/job_options.h"

namespace unisono::launcher {
namespace {

bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) <= 0x20; });
}

bool is_count(int number) { return number >= 0 && number <= most_ranks; }

}  // namespace

std::string encode_roster(const std::vector<JobHost>& hosts) {
  std::string text;
  for (const JobHost& host : hosts) {
    text += fmt::format("{} {} {} {} {} {}\n", host.number, host.ranks, host.first_rank, int{host.is_late}, int{host.is_gone}, host.where);
  }
  return text;
}

std::vector<JobHost> decode_roster(const std::string& text) {
  std::vector<JobHost> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    JobHost host;
    int late = 0, gone = 0;
    fields >> host.number >> host.ranks >> host.first_rank >> late >> gone >> host.where;
    if (!fields || host.number < 0 || !is_count(host.ranks) || host.first_rank < 0 || !is_plain(host.where)) {
      throw ProtocolError("the launcher of host 0 named the hosts of the job in no way of ours");
    }
    host.is_late = late != 0;
    host.is_gone = gone != 0;
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

bool HostRoster::note_gone(int number) {
  const std::lock_guard lock(mutex_);
  const auto host = std::ranges::find(hosts_, number, &JobHost::number);
  return host != hosts_.end() && !std::exchange(host->is_gone, true);
}

int HostRoster::present() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count(hosts_, false, &JobHost::is_gone));
}

std::optional<JobHost> HostRoster::find(int number) const {
  const std::lock_guard lock(mutex_);
  const auto host = std::ranges::find(hosts_, number, &JobHost::number);
  return host == hosts_.end() ? std::nullopt : std::optional(*host);
}

int HostRoster::host_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto host = std::ranges::find_if(hosts_, [&](const JobHost& each) { return rank >= each.first_rank && rank < each.first_rank + each.ranks; });
  return host == hosts_.end() ? 0 : host->number;
}

std::string encode_tally(const HostTally& tally) {
  return fmt::format("{} {} {} {}", tally.members, tally.well, tally.last_lost, fmt::join(tally.names, " "));
}

HostTally decode_tally(const std::string& text) {
  std::istringstream fields(text);
  HostTally tally;
  fields >> tally.members >> tally.well >> tally.last_lost;
  if (!fields || !is_count(tally.members) || !is_count(tally.well) || tally.last_lost < -1) {
    throw ProtocolError("a launcher told of its ranks in no way of ours");
  }
  for (std::string name; fields >> name;) tally.names.push_back(name);
  return tally;
}

}  // namespace unisono::launcher
