#include "launch/view/job_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "base/printable.h"
#include "recorder/ticks.h"
#include "launch/job_options.h"

namespace unisono::launcher {
namespace {

constexpr std::string_view magic = "unisono ranks 1";
constexpr std::size_t longest_name = 1024;  ///< of a job, or of a host
constexpr std::uint64_t unknown_age = ~std::uint64_t{0};
constexpr double parts_per_one = 1e6;

std::uint64_t in_parts(double number) { return static_cast<std::uint64_t>(std::llround(std::max(0.0, number) * parts_per_one)); }
double of_parts(std::uint64_t parts) { return static_cast<double>(parts) / parts_per_one; }

/// 0 stands for a time that is not known.
std::uint64_t age_of(std::uint64_t time, std::uint64_t now) { return time == 0 ? unknown_age : now - std::min(time, now); }
std::uint64_t time_of(std::uint64_t age, std::uint64_t now) { return age == unknown_age ? 0 : now - std::min(age, now - 1); }

void put_call(base::ByteWriter& bytes, const recorder::CallSeen& call, std::uint64_t now) {
  bytes.text(call.operation).text(call.group).text(call.place);
  bytes.put(static_cast<std::uint8_t>(call.kind)).put(static_cast<std::uint8_t>(call.state)).put(static_cast<std::uint8_t>(call.dtype));
  bytes.put(call.sequence).put(call.bytes).put(std::int32_t{call.peer}).put(std::int32_t{call.tag});
  for (const std::uint64_t time : {call.queued, call.begun, call.done}) bytes.put(age_of(time, now));
  bytes.put(std::int32_t{call.waited_for}).put(call.waited_count);
}

bool is_one_of(std::uint8_t value, auto last) { return value <= static_cast<std::uint8_t>(last); }

std::optional<recorder::CallSeen> get_call(base::ByteReader& bytes, std::uint64_t now) {
  recorder::CallSeen call;
  call.operation = base::printable(bytes.text());
  call.group = base::printable(bytes.text());
  call.place = base::printable(bytes.text());
  const auto kind = bytes.get<std::uint8_t>(), state = bytes.get<std::uint8_t>(), dtype = bytes.get<std::uint8_t>();
  call.kind = static_cast<Operation>(kind);
  call.state = static_cast<recorder::CallState>(state);
  call.dtype = static_cast<DType>(dtype);
  call.sequence = bytes.get<std::uint64_t>();
  call.bytes = bytes.get<std::uint64_t>();
  call.peer = bytes.get<std::int32_t>();
  call.tag = bytes.get<std::int32_t>();
  for (std::uint64_t* time : {&call.queued, &call.begun, &call.done}) *time = time_of(bytes.get<std::uint64_t>(), now);
  call.waited_for = bytes.get<std::int32_t>();
  call.waited_count = bytes.get<std::uint32_t>();
  const bool is_known = kind >= static_cast<std::uint8_t>(Operation::barrier) && is_one_of(kind, Operation::all_to_all_v) &&
                        is_one_of(state, recorder::CallState::failed) && is_one_of(dtype, DType::complex128);
  return bytes.ok() && is_known ? std::optional(std::move(call)) : std::nullopt;
}

void put_rank(base::ByteWriter& bytes, const RankFacts& rank) {
  const recorder::RankSeen& record = rank.record;
  bytes.put(std::int32_t{record.rank}).put(std::int32_t{record.size}).put(std::int32_t{record.pid});
  bytes.put(static_cast<std::uint8_t>(record.state)).put(static_cast<std::uint8_t>(rank.has_joined));
  bytes.put(static_cast<std::uint8_t>(rank.process.lives)).put(static_cast<std::uint8_t>(rank.process.is_stopped));
  bytes.put(in_parts(rank.process.cpu_seconds)).put(in_parts(rank.process.cpu_share)).put(rank.process.memory_bytes);
  bytes.put(record.calls).put(record.bytes).put(record.failures).put(record.waited).put(age_of(record.began, record.now));
  bytes.put(age_of(record.program_waits_since, record.now));
  bytes.text(record.program).text(record.failure);
  const recorder::CallSeen* call = call_shown(rank);
  bytes.put(static_cast<std::uint8_t>(call != nullptr));
  if (call != nullptr) put_call(bytes, *call, record.now);
}

std::optional<RankFacts> get_rank(base::ByteReader& bytes, const JobSeen& job, std::uint64_t now) {
  RankFacts rank{.is_here = false};
  recorder::RankSeen& record = rank.record;
  record.now = now;
  record.host = job.host;
  record.job = job.job;
  record.node = job.node;
  record.rank = bytes.get<std::int32_t>();
  record.size = bytes.get<std::int32_t>();
  record.pid = bytes.get<std::int32_t>();
  const auto state = bytes.get<std::uint8_t>();
  record.state = static_cast<recorder::RankState>(state);
  rank.has_joined = bytes.get<std::uint8_t>() != 0;
  rank.process.lives = bytes.get<std::uint8_t>() != 0;
  rank.process.is_stopped = bytes.get<std::uint8_t>() != 0;
  rank.process.cpu_seconds = of_parts(bytes.get<std::uint64_t>());
  rank.process.cpu_share = of_parts(bytes.get<std::uint64_t>());
  rank.process.memory_bytes = bytes.get<std::uint64_t>();
  record.calls = bytes.get<std::uint64_t>();
  record.bytes = bytes.get<std::uint64_t>();
  record.failures = bytes.get<std::uint64_t>();
  record.waited = bytes.get<std::uint64_t>();
  record.began = time_of(bytes.get<std::uint64_t>(), now);
  record.program_waits_since = time_of(bytes.get<std::uint64_t>(), now);
  record.program = base::printable(bytes.text());
  record.failure = base::printable(bytes.text());
  if (bytes.get<std::uint8_t>() != 0) {
    auto call = get_call(bytes, now);
    if (!call) return std::nullopt;
    record.recent.push_back(std::move(*call));
  }
  const bool is_sound = bytes.ok() && record.rank >= 0 && record.rank < most_ranks && is_one_of(state, recorder::RankState::ended);
  return is_sound ? std::optional(std::move(rank)) : std::nullopt;
}

}  // namespace

std::string encode(const JobSeen& seen) {
  base::ByteWriter bytes;
  bytes.text(magic).text(seen.job).text(seen.host);
  bytes.put(std::int32_t{seen.node}).put(std::int32_t{seen.world_size}).put(std::int32_t{seen.restarts});
  bytes.put(static_cast<std::uint32_t>(seen.ranks.size()));
  for (const RankFacts& rank : seen.ranks) put_rank(bytes, rank);
  return bytes.take();
}

std::optional<JobSeen> decode_job(std::string_view text) {
  base::ByteReader bytes(text);
  if (bytes.text() != magic) return std::nullopt;
  const std::uint64_t now = recorder::steady_ns();
  JobSeen seen;
  seen.job = base::printable(bytes.text());
  seen.host = base::printable(bytes.text());
  seen.node = bytes.get<std::int32_t>();
  seen.world_size = bytes.get<std::int32_t>();
  seen.restarts = bytes.get<std::int32_t>();
  const auto ranks = bytes.get<std::uint32_t>();
  if (std::max(seen.job.size(), seen.host.size()) > longest_name) return std::nullopt;  // each rank gets a copy
  for (std::uint32_t i = 0; i < ranks; ++i) {
    auto rank = get_rank(bytes, seen, now);
    if (!rank) return std::nullopt;
    seen.ranks.push_back(std::move(*rank));
  }
  return bytes.complete() ? std::optional(std::move(seen)) : std::nullopt;
}

std::string encode(const std::vector<JobSeen>& hosts) {
  base::ByteWriter bytes;
  for (const JobSeen& host : hosts) bytes.text(encode(host));
  return bytes.take();
}

std::optional<std::vector<JobSeen>> decode_hosts(std::string_view text) {
  std::vector<JobSeen> hosts;
  for (base::ByteReader bytes(text); !bytes.rest().empty();) {
    auto host = decode_job(bytes.text());
    if (!host) return std::nullopt;
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

}  // namespace unisono::launcher
