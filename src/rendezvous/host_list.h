#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::rendezvous {

enum class HostOrder {
  as_given,  ///< as `scontrol show hostnames` does
  sorted,    ///< the numbers of each bracket ascending, each once
};

inline constexpr std::size_t longest_host_name = 255;  ///< in bytes; the domain name system allows fewer

/// Returns the host names of a list in Slurm's form: "node[1-3,07],login" is node1, node2, node3, node07, login. Spaces do not count. The text before
/// a dash determines the width of the numbers of its range. Several brackets in one name are multiplied, the first one slowest. Throws
/// InvalidArgument, with the text, for any other form, for more than a million names, and for one of more than `longest_host_name` bytes.
std::vector<std::string> parse_host_list(std::string_view text, HostOrder order = HostOrder::as_given);

}  // namespace unisono::rendezvous
