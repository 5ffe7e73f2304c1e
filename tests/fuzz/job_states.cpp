// The texts by which launchers tell each other, and `unisono status`, of the ranks of a job. Any bytes are refused, or read into ranks that exist, at
// a cost that their number bounds; what is read can be encoded again, and shown.
#include "input.h"
#include "launch/view/job_view.h"

namespace unisono::fuzz {
namespace {

using launcher::JobSeen;

constexpr std::string_view magic = "unisono ranks 1";

void put_call(base::ByteWriter& out, Input& in) {
  for (int texts = 0; texts < 3; ++texts) out.text(in.text(12));
  out.put(static_cast<std::uint8_t>(1 + in.choice(18))).put(static_cast<std::uint8_t>(in.choice(6))).put(static_cast<std::uint8_t>(in.choice(15)));
  out.put(in.number<std::uint64_t>()).put(in.number<std::uint64_t>()).put(in.number<std::int32_t>()).put(in.number<std::int32_t>());
  for (int times = 0; times < 3; ++times) out.put(in.number<std::uint64_t>());
  out.put(in.number<std::int32_t>()).put(in.number<std::uint32_t>());
}

/// Returns a job's ranks on a host as they travel, with any numbers.
std::string made(Input& in) {
  base::ByteWriter out;
  const std::size_t ranks = in.choice(3);
  out.text(magic).text(in.text(20)).text(in.text(20));
  out.put(in.number<std::int32_t>()).put(in.number<std::int32_t>()).put(in.number<std::int32_t>()).put(static_cast<std::uint32_t>(ranks));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out.put(static_cast<std::int32_t>(in.choice(200))).put(in.number<std::int32_t>()).put(in.number<std::int32_t>());
    for (int bytes = 0; bytes < 4; ++bytes) out.put(static_cast<std::uint8_t>(in.choice(5)));
    for (int numbers = 0; numbers < 9; ++numbers) out.put(in.number<std::uint64_t>());
    out.text(in.text(20)).text(in.text(20));
    const bool has_call = in.flag();
    out.put(static_cast<std::uint8_t>(has_call ? 1 : 0));
    if (has_call) put_call(out, in);
  }
  return out.take();
}

void check_seen(const JobSeen& seen, std::size_t bytes) {
  require(seen.ranks.size() <= bytes, "no more ranks are read than bytes");
  for (const launcher::RankFacts& rank : seen.ranks) {
    require(rank.record.rank >= 0 && !rank.is_here, "a rank of another host has a number");
    require(!launcher::state_text(rank).empty() && launcher::waiting_share(rank) >= 0, "it has a state");
    if (const auto* const call = launcher::call_shown(rank)) require(!launcher::call_text(*call).empty(), "its call has a text");
  }
  const auto again = launcher::decode_job(launcher::encode(seen));
  require(again && again->ranks.size() == seen.ranks.size() && again->job == seen.job && again->host == seen.host, "what is read comes back");
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  const bool is_made = in.flag();
  const std::string text = is_made ? made(in) : std::string(in.rest());
  if (const auto seen = launcher::decode_job(text)) check_seen(*seen, text.size());
  const std::string hosts = is_made ? base::ByteWriter().text(text).text(text).take() : text;
  if (const auto all = launcher::decode_hosts(hosts)) {
    for (const JobSeen& seen : *all) check_seen(seen, hosts.size());
  }
}

}  // namespace unisono::fuzz
