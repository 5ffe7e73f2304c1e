#include "launch/view/job_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "base/host.h"
#include "base/printable.h"
#include "launch/job_options.h"
#include "recorder/ticks.h"

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

template <class Field>
concept OneByte = std::is_enum_v<Field> || std::is_same_v<Field, bool>;

/// Writes fields; FieldReader reads them.
struct FieldWriter {
  base::ByteWriter bytes = {};
  std::uint64_t now = 0;

  void operator()(const auto&... fields) { (write(fields), ...); }
  void times(const auto&... fields) { (bytes.put(age_of(fields, now)), ...); }
  template <class Field>
  void write(const Field& field) {
    if constexpr (OneByte<Field>) bytes.put(static_cast<std::uint8_t>(field));
    else if constexpr (std::is_same_v<Field, double>) bytes.put(in_parts(field));
    else if constexpr (std::is_integral_v<Field>) bytes.put(field);
    else bytes.text(field);
  }
};

struct FieldReader {
  base::ByteReader bytes;
  std::uint64_t now = 0;

  void operator()(auto&... fields) { (read(fields), ...); }
  void times(auto&... fields) { ((fields = time_of(bytes.get<std::uint64_t>(), now)), ...); }
  template <class Field>
  void read(Field& field) {
    if constexpr (OneByte<Field>) field = static_cast<Field>(bytes.get<std::uint8_t>());
    else if constexpr (std::is_same_v<Field, double>) field = of_parts(bytes.get<std::uint64_t>());
    else if constexpr (std::is_integral_v<Field>) field = bytes.get<Field>();
    else field = base::printable(bytes.text());
  }
};

void job_fields(auto& io, auto& job) { io(job.job, job.host, job.node, job.world_size, job.restarts); }

void rank_fields(auto& io, auto& rank) {
  auto& [record, process, has_joined, is_here, is_trace] = rank;
  io(record.rank, record.size, record.pid, record.state, has_joined, process.lives, process.is_stopped, process.cpu_seconds, process.cpu_share,
     process.memory_bytes, record.calls, record.bytes, record.failures, record.waited);
  io.times(record.began, record.program_waits_since);
  io(record.program, record.failure);
}

void call_fields(auto& io, auto& call) {
  io(call.operation, call.group, call.place, call.kind, call.state, call.dtype, call.sequence, call.bytes, call.peer, call.tag);
  io.times(call.queued, call.begun, call.done);
  io(call.waited_for, call.waited_count);
}

void put_rank(FieldWriter& io, const RankFacts& rank) {
  io.now = rank.record.now;
  rank_fields(io, rank);
  const recorder::CallSeen* call = call_shown(rank);
  io(call != nullptr);
  if (call != nullptr) call_fields(io, *call);
}

std::optional<RankFacts> get_rank(FieldReader& io, const JobSeen& job) {
  RankFacts rank{.is_here = false};
  recorder::RankSeen& record = rank.record;
  record.now = io.now;
  record.host = job.host;
  record.job = job.job;
  record.node = job.node;
  rank_fields(io, rank);
  bool is_sound = record.rank >= 0 && record.rank < most_ranks && record.state <= recorder::RankState::ended;
  if (io.bytes.get<std::uint8_t>() != 0) {
    recorder::CallSeen& call = record.recent.emplace_back();
    call_fields(io, call);
    is_sound = is_sound && call.kind >= Operation::barrier && call.kind <= Operation::all_to_all_v && call.state <= recorder::CallState::failed &&
               call.dtype <= DType::complex128;
  }
  return io.bytes.ok() && is_sound ? std::optional(std::move(rank)) : std::nullopt;
}

}  // namespace

JobView::JobView(std::string job, int node, int world_size) : job_(std::move(job)), host_(base::host_name()), node_(node), world_size_(world_size) {}

void JobView::begin_attempt(int number) {
  const std::lock_guard lock(mutex_);
  attempt_ = number;
  ranks_.clear();
}

void JobView::add(int rank, int pid, std::shared_ptr<const base::FileDescriptor> record) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranks_, [&](const Rank& other) { return other.rank == rank; });
  const auto behind = std::ranges::find_if(ranks_, [&](const Rank& other) { return other.rank > rank; });
  ranks_.insert(behind, {.rank = rank, .pid = pid, .record = std::move(record), .reader = nullptr});
}

RankFacts JobView::look_at(Rank& rank, std::size_t calls) {
  if (!rank.reader && rank.record && *rank.record) rank.reader = recorder::RecordReader::open(*rank.record);
  if (rank.reader) {
    if (recorder::RankSeen seen = rank.reader->read(calls); seen.rank >= 0) return facts_of(std::move(seen));
  }
  RankFacts facts{.process = process_facts(rank.pid, 0), .has_joined = false};
  facts.record.rank = rank.rank;
  facts.record.pid = rank.pid;
  return facts;
}

JobSeen JobView::look(std::size_t calls) const {
  const std::lock_guard lock(mutex_);
  JobSeen seen{.job = job_, .host = host_, .node = node_, .world_size = world_size_, .restarts = attempt_, .ranks = {}};
  for (Rank& rank : ranks_) seen.ranks.push_back(look_at(rank, calls));
  keep_last_generation(seen.ranks);
  return seen;
}

std::string encode(const JobSeen& seen) {
  FieldWriter io;
  io(magic);
  job_fields(io, seen);
  io(static_cast<std::uint32_t>(seen.ranks.size()));
  for (const RankFacts& rank : seen.ranks) put_rank(io, rank);
  return io.bytes.take();
}

std::optional<JobSeen> decode_job(std::string_view text) {
  FieldReader io{.bytes = base::ByteReader(text), .now = recorder::steady_ns()};
  if (io.bytes.text() != magic) return std::nullopt;
  JobSeen seen;
  job_fields(io, seen);
  const auto ranks = io.bytes.get<std::uint32_t>();
  if (std::max(seen.job.size(), seen.host.size()) > longest_name) return std::nullopt;  // each rank gets a copy
  for (std::uint32_t i = 0; i < ranks; ++i) {
    auto rank = get_rank(io, seen);
    if (!rank) return std::nullopt;
    seen.ranks.push_back(std::move(*rank));
  }
  return io.bytes.complete() ? std::optional(std::move(seen)) : std::nullopt;
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
