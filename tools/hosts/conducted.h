#pragma once

#include <string>
#include <vector>

namespace unisono::tools {

/// What a launcher is told by the process of its host that a conductor of several hosts has started:
/// `unisono __launch REPORT SECRET NAME run …`.
struct Conducted {
  int report = -1;            ///< the descriptor for its messages; -1: nobody conducts it
  std::string log_name = {};  ///< of the folder in --logs
};
Conducted& conducted();

/// Returns how many words `unisono __host` has put in front of those of the sub-command; 0: nobody conducts this launcher.
std::size_t conductor_words(const std::vector<std::string>& words);
/// Takes them off, and notes what they say. The ranks get none of the descriptors.
void take_conductor_off(std::vector<std::string>& words);

}  // namespace unisono::tools
