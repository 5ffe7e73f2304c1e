#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/process/first_cause.h"

namespace unisono::launcher {

/// A report of one launcher that makes the others end their ranks, too.
struct Trouble {
  enum class Kind { failure, interrupt, lost, too_few, displaced };
  Kind kind = Kind::failure;
  int node = 0;
  int rank = 0;          ///< failure: the rank; lost: the first one of the lost node; too_few: the rank that was lost last
  std::string how = {};  ///< failure: "exit 7", "signal 9"; too_few, displaced: a sentence
  int signal = 0;        ///< interrupt: its number
  std::string text() const;
  static std::optional<Trouble> parse(const std::string& text);
};

/// Returns the rank that ended a job of several hosts, as index into `ends`, which are those of all hosts; see first_cause.h. A loss that the others
/// have survived is not the cause where a host is lost later.
std::optional<std::size_t> first_cause_of_hosts(std::span<const RankEnd> ends, int least_ranks, const std::optional<Trouble>& trouble);

/// Writes how the ranks of a node have ended, one line each, for the other launchers.
std::string encode_ends(const std::vector<RankEnd>& ends);
/// Throws ProtocolError where the text is not such a list.
std::vector<RankEnd> decode_ends(const std::string& text);

}  // namespace unisono::launcher
