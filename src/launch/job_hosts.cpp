#include "launch/job_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "launch/supervisor.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) <= 0x20; });
}

bool is_count(int number) { return number >= 0 && number <= most_ranks; }

}  // namespace

std::string encode_hosts(const std::vector<JobHost>& hosts) {
  std::string text;
  for (const JobHost& host : hosts) {
    text += fmt::format("{} {} {} {} {}\n", host.number, host.ranks, host.first_rank, int{host.is_late}, host.where);
  }
  return text;
}

std::vector<JobHost> decode_hosts(const std::string& text) {
  std::vector<JobHost> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    JobHost host;
    int late = 0;
    fields >> host.number >> host.ranks >> host.first_rank >> late >> host.where;
    if (!fields || host.number < 0 || !is_count(host.ranks) || host.first_rank < 0 || !is_plain(host.where)) {
      throw ProtocolError("the launcher of host 0 named the hosts of the job in no way of ours");
    }
    host.is_late = late != 0;
    hosts.push_back(std::move(host));
  }
  return hosts;
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
