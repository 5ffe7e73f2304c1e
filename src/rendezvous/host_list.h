#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unisono::rendezvous {

enum class HostOrder {
  as_given,  ///< as `scontrol show hostnames` does
  sorted,    ///< the numbers of each bracket ascending, each once
};

/// Returns the host names of a list in Slurm's form: "node[1-3,07],login" is node1, node2, node3, node07, login. Spaces do not count. The text before
/// a dash determines the width of the numbers of its range. Several brackets in one name are multiplied, the first one slowest. Throws
/// InvalidArgument, with the text, for any other form, and for more than a million names.
std::vector<std::string> parse_host_list(std::string_view text, HostOrder order = HostOrder::as_given);

}  // namespace unisono::rendezvous
