#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unisono::rendezvous {

enum class HostOrder {
  as_given,  ///< as `scontrol show hostnames` does
  sorted,    ///< the numbers of each bracket ascending, each once
};

/// The host names of a list as Slurm writes it: "node[1-3,07],login" is node1, node2, node3, node07, login. Spaces do not count. The text before a
/// dash says how wide the numbers of its range are; several brackets in one name are multiplied, the first one slowest. InvalidArgument, with the
/// text, for what is no such list, or one of more than a million names.
std::vector<std::string> parse_host_list(std::string_view text, HostOrder order = HostOrder::as_given);

}  // namespace unisono::rendezvous
