#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unisono::tools {

/// A host of a job, as its user has named it.
struct HostEntry {
  std::string name;   ///< as ssh takes it: a name, an address, or USER@ in front of one
  int slots = 1;      ///< how many ranks it takes
  std::string place;  ///< where it was named: "--hosts", "hosts.txt:3"
};

/// Reads "a:4,b:4,node[1-3]:2,[fd00::1]:4"; a host without a number has one slot. Throws InvalidArgument, which quotes the item, for anything else,
/// for a host that is named twice and for a number that is not positive.
std::vector<HostEntry> hosts_of_list(std::string_view text, const std::string& place = "--hosts");

/// Reads a file with a host on each line: "host slots=4" (Open MPI, with max_slots) or "host:4" (MPICH). `#` begins a comment. Throws
/// InvalidArgument, which names the file and the line.
std::vector<HostEntry> hosts_of_file(const std::string& path);

/// Returns how many ranks all of them take.
long slots_of(const std::vector<HostEntry>& hosts);

/// Fills the hosts in order with so many ranks, and leaves out those that get none. Throws InvalidArgument where there are not enough slots.
void limit_ranks(std::vector<HostEntry>& hosts, int ranks);

/// Returns the name without "USER@".
std::string bare_name(const std::string& name);

}  // namespace unisono::tools
