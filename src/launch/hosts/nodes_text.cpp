#include "launch/hosts/nodes_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "unisono/error.h"

namespace unisono::launcher {
namespace {

constexpr std::size_t longest_status = 400;

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text.substr(0, longest_status);
}

}  // namespace

std::string encode_ends(const std::vector<RankEnd>& ends) {
  std::string text;
  for (const RankEnd& end : ends) {
    text +=
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", end.rank, end.pid, static_cast<int>(end.how), end.code, int{end.dumped_core},
                    int{end.out_of_memory}, int{end.is_taken}, int{end.ended_by_launcher}, int{end.left_without_finalize}, int{end.is_survived},
                    int{end.is_well}, end.order, end.waited, end.host.empty() ? "?" : one_line(end.host), one_line(end.status));
  }
  return text;
}

std::vector<RankEnd> decode_ends(const std::string& text) {
  std::vector<RankEnd> ends;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    RankEnd end;
    int how = 0, core = 0, memory = 0, taken = 0, by_launcher = 0, left = 0, survived = 0, well = 0;
    fields >> end.rank >> end.pid >> how >> end.code >> core >> memory >> taken >> by_launcher >> left >> survived >> well >> end.order >>
        end.waited >> end.host;
    const bool is_known = how >= 0 && how <= static_cast<int>(RankEnd::How::signaled) && end.code >= 0 && end.code <= UINT8_MAX && end.waited >= -1 &&
                          end.waited <= 1000;
    const bool is_name = std::ranges::none_of(end.host, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    if (!fields || !is_known || !is_name) throw ProtocolError("a launcher told in no way of ours how its ranks ended");
    fields.get();
    std::getline(fields, end.status);
    end.how = static_cast<RankEnd::How>(how);
    end.dumped_core = core != 0;
    end.out_of_memory = memory != 0;
    end.is_taken = taken != 0;
    end.ended_by_launcher = by_launcher != 0;
    end.left_without_finalize = left != 0;
    end.is_survived = survived != 0;
    end.is_well = well != 0;
    ends.push_back(std::move(end));
  }
  return ends;
}

std::optional<std::size_t> first_cause_of_hosts(std::span<const RankEnd> ends, int least_ranks, const std::optional<Trouble>& trouble) {
  if (least_ranks == 0 || (trouble && trouble->kind == Trouble::Kind::lost)) return first_cause(ends);
  return first_cause_of_elastic(ends, least_ranks, trouble && trouble->kind == Trouble::Kind::too_few);
}

std::string Trouble::text() const { return fmt::format("{} {} {} {} {}", static_cast<int>(kind), node, rank, signal, how); }

std::optional<Trouble> Trouble::parse(const std::string& text) {
  std::istringstream fields(text);
  Trouble trouble;
  int kind = -1;
  fields >> kind >> trouble.node >> trouble.rank >> trouble.signal;
  if (!fields || kind < 0 || kind > static_cast<int>(Kind::displaced)) return std::nullopt;
  trouble.kind = static_cast<Kind>(kind);
  fields.get();
  std::getline(fields, trouble.how);
  return trouble;
}

}  // namespace unisono::launcher
