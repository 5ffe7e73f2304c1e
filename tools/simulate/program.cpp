#include "simulate/program.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "coordination/exchange.h"
#include "schedule/calibration.h"
#include "schedule/carried_call.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::simulate {
namespace {

using schedule::Level;
using schedule::Problem;
using schedule::Setting;
using schedule::Slice;
using schedule::Step;

constexpr double head_bytes = 32;        // of a message of the agreement
constexpr double signature_bytes = 256;  // that the first rank of a host shares with the others
constexpr double uneven_elements = 64;   // by which parts of even partitions may differ where they are joined

std::vector<int> hosts_of(const Call& call) {
  std::vector<int> hosts(static_cast<std::size_t>(call.ranks));
  for (int r = 0; r < call.ranks; ++r) hosts[static_cast<std::size_t>(r)] = r / call.ranks_per_host;
  return hosts;
}

DType dtype_of(const Call& call) { return call.bytes % sizeof(float) == 0 ? DType::float32 : DType::uint8; }

const schedule::Algorithm* named(const Call& call) {
  if (call.algorithm.empty()) return nullptr;
  const auto rows = schedule::rows_of(call.operation);
  const auto row = std::ranges::find(rows, call.algorithm, &schedule::Algorithm::name);
  if (row == rows.end() || row->cost == nullptr) {
    std::vector<std::string_view> names;
    for (const schedule::Algorithm& each : rows)
      if (each.cost != nullptr) names.push_back(each.name);
    throw InvalidArgument(fmt::format("{} has no schedule '{}'; it has {}", to_string(call.operation), call.algorithm, fmt::join(names, ", ")));
  }
  return &*row;
}

/// Adds to the work that the rank has begun, or begins some.
void add_work(Program& program, double ns) {
  if (ns <= 0) return;
  auto& all = program.instructions;
  if (!all.empty() && all.back().kind == Instruction::Kind::work) all.back().amount += ns;
  else all.push_back({.kind = Instruction::Kind::work, .amount = ns});
}

/// Ends a wave. One that is only work ends by itself.
void end_wave(Program& program) {
  auto& all = program.instructions;
  bool has_messages = false, has_begun = false;
  for (auto at = all.rbegin(); at != all.rend() && at->kind != Instruction::Kind::wait; ++at) {
    has_begun = has_begun || at->kind != Instruction::Kind::work;
    has_messages = has_messages || at->kind == Instruction::Kind::send || at->kind == Instruction::Kind::receive;
  }
  if (!has_begun) return;
  all.push_back({.kind = Instruction::Kind::wait});
  program.rounds += has_messages ? 1 : 0;
}

}  // namespace

bool Program::is_like(const Program& other, double tolerance) const {
  return std::ranges::equal(instructions, other.instructions, [&](const Instruction& a, const Instruction& b) {
    return a.kind == b.kind && a.is_absolute == b.is_absolute && a.peer == b.peer && std::abs(a.amount - b.amount) <= tolerance;
  });
}

ProgramWriter::ProgramWriter(const Call& call, const Parameters& parameters)
    : call_(call), parameters_(parameters), topology_(0, hosts_of(call)), named_(named(call)) {
  tolerance_ = uneven_elements * static_cast<double>(size_of(dtype_of(call_)));
  const Problem problem = problem_of(0);
  if (call_.operation == Operation::barrier) {
    algorithm_ = "agreement";
  } else if (call_.hosts() == 1) {
    if (named_ != nullptr) throw InvalidArgument("the ranks of one host combine in shared memory, without a schedule");
    algorithm_ = "shared memory";
  } else if (named_ != nullptr) {
    Setting own = setting();
    if (!named_->on_two_levels) own.topology = nullptr;
    if (!schedule::can(*named_, problem, own)) {
      throw InvalidArgument(
          fmt::format("{} cannot be done by '{}' on {} ranks and {} hosts", to_string(call_.operation), call_.algorithm, call_.ranks, call_.hosts()));
    }
    algorithm_ = named_->name;
  } else {
    carried_by_ = call_.has_agreement ? schedule::pattern_with_agreement(schedule::call_without_memory(problem), problem, setting()) : std::nullopt;
    algorithm_ = carried_by_ ? std::string_view("agreement") : schedule::select(problem, setting()).name;
  }
}

/// Returns the ranks for each processor of a machine, at least 1.
double ProgramWriter::crowding() const {
  if (parameters_.cores == 0) return call_.is_crowded ? 2 : 1;
  const double ranks = std::min(call_.ranks, call_.ranks_per_host * parameters_.hosts_per_machine);
  return std::max(1.0, ranks / parameters_.cores);
}

Setting ProgramWriter::setting() const {
  Setting setting{.engine = schedule::Abilities(nullptr), .topology = &topology_, .network = call_.selection};
  setting.network.crowding = crowding();
  setting.network.network = schedule::settled(setting.network.network, crowding());  // as a group's calibration does
  setting.sharing = topology_.has_levels() ? call_.ranks_per_host : 1;
  return setting;
}

Problem ProgramWriter::problem_of(int rank) const {
  const OperationTraits& traits = traits_of(call_.operation);
  Problem problem;
  problem.operation = call_.operation;
  problem.dtype = dtype_of(call_);
  problem.rank = rank;
  problem.size = call_.ranks;
  problem.root = has_root(call_.operation) ? call_.root : -1;
  const std::size_t count = call_.bytes / size_of(problem.dtype), all = count * static_cast<std::size_t>(call_.ranks);
  problem.count = count;
  if (has_counts(call_.operation)) {
    problem.counts = schedule::same(count, call_.ranks);
    problem.count = call_.operation == Operation::all_to_all_v ? 0 : all;
  }
  if (call_.operation == Operation::all_to_all_v) {
    problem.recv_counts = problem.counts;
    problem.typical_block = count;
  }
  const auto length = [&](Layout layout) { return layout == Layout::nothing ? 0 : layout == Layout::blocks ? all : count; };
  problem.in = {Slice::Memory::input, 0, takes_part(traits.senders, problem.is_root()) ? length(traits.in) : 0};
  problem.out = {Slice::Memory::output, 0, takes_part(traits.receivers, problem.is_root()) ? length(traits.out) : 0};
  return problem;
}

void ProgramWriter::place(int rank) {
  const int per_host = call_.ranks_per_host, host = rank / per_host;
  topology_.rank = rank;
  topology_.local = rank % per_host;
  topology_.members.clear();
  for (int r = host * per_host; r < std::min((host + 1) * per_host, call_.ranks); ++r) topology_.members.push_back(r);
  topology_.rail.clear();
  if (topology_.local >= topology_.rails) return;
  for (const int leader : topology_.leaders) topology_.rail.push_back(leader + topology_.local);
}

schedule::Cost ProgramWriter::cost() {
  place(0);
  if (call_.hosts() == 1 || algorithm_ == "agreement") return {};
  if (named_ == nullptr) return schedule::cost_of(problem_of(0), setting());
  Setting own = setting();
  if (!named_->on_two_levels) own.topology = nullptr;
  return named_->cost(problem_of(0), own);
}

double ProgramWriter::expected_messages() { return cost().messages; }

double ProgramWriter::expected_us() {
  return schedule::predicted_us(cost(), as_measured(parameters_), size_of(dtype_of(call_)), topology_.has_levels() ? call_.ranks_per_host : 1);
}

Program ProgramWriter::program_of(int rank) {
  place(rank);
  Program program{.algorithm = algorithm_};
  add_call(program, rank);
  std::set<int> peers;
  for (const Instruction& each : program.instructions) {
    if (each.kind != Instruction::Kind::send && each.kind != Instruction::Kind::receive) continue;
    program.messages += each.kind == Instruction::Kind::send ? 1 : 0;
    const int peer = each.is_absolute ? each.peer : (rank + each.peer) % call_.ranks;
    if (peer / call_.ranks_per_host != rank / call_.ranks_per_host) peers.insert(peer);
  }
  program.connections = static_cast<int>(peers.size());
  if (call_.calls == 1) return program;
  const std::vector<Instruction> once = std::exchange(program.instructions, {});
  for (int i = 0; i < call_.calls; ++i) {
    program.instructions.push_back({.kind = Instruction::Kind::begin, .amount = call_.are_apart ? 1.0 : 0.0});
    program.instructions.insert(program.instructions.end(), once.begin(), once.end());
  }
  return program;
}

void ProgramWriter::add_call(Program& program, int rank) {
  const Problem problem = problem_of(rank);
  if (call_.hosts() == 1) {
    const auto bytes = static_cast<double>(std::max(problem.in.count, problem.out.count) * size_of(problem.dtype));
    program.instructions.push_back({.kind = Instruction::Kind::host_call, .amount = bytes});
    return end_wave(program);
  }
  const bool carries = algorithm_ == "agreement";
  if (call_.has_agreement || carries) add_agreement(program, rank, carries && call_.operation != Operation::barrier);
  if (is_by_shares()) add_schedule(program, gather_of_shares(rank));
  if (!carries) add_schedule(program, problem);
}

/// Returns true for an all_reduce whose first step travels with the comparison of the calls (schedule/carried_call.h).
bool ProgramWriter::is_by_shares() const { return call_.operation == Operation::all_reduce && carried_by_ == coordination::Carried::Pattern::blocks; }

/// Returns what follows that step.
Problem ProgramWriter::gather_of_shares(int rank) const {
  const Problem sum = problem_of(rank);
  Problem gather = sum;
  const std::size_t share = schedule::largest_share(sum.count, sum.size);
  const auto begin_of = [&](int r) { return std::min(static_cast<std::size_t>(r) * share, sum.count); };
  std::vector<std::size_t> counts;
  for (int r = 0; r < sum.size; ++r) counts.push_back(begin_of(r + 1) - begin_of(r));
  gather.operation = Operation::all_gather_v;
  gather.counts = Counts(counts);
  gather.in = sum.out.part(begin_of(rank), counts[static_cast<std::size_t>(rank)]);
  return gather;
}

/// Adds the comparison of the calls (coordination/agreement.cpp, coordination/exchange.h), and the elements where they travel with it.
void ProgramWriter::add_agreement(Program& program, int rank, bool carries) {
  const OperationTraits& traits = traits_of(call_.operation);
  const Problem problem = problem_of(rank);
  const std::size_t blocks = traits.in == Layout::blocks ? static_cast<std::size_t>(call_.ranks) : 1;
  coordination::Carried carried{.pattern = carried_by_.value_or(coordination::Carried::Pattern::to_all)};
  if (carries) carried.each = traits.in == Layout::nothing ? 0 : (carried.is_direct() ? 1 : blocks) * call_.bytes;
  if (is_by_shares()) carried.each = schedule::largest_share(problem.count, problem.size) * size_of(problem.dtype);
  if (carries && traits.senders == Participants::root) carried.only = call_.root;
  const auto on_host = [&](double bytes) {
    if (topology_.members.size() == 1) return;
    program.instructions.push_back({.kind = Instruction::Kind::host_call, .amount = bytes});
    end_wave(program);
  };
  on_host(0);
  if (carries && carried.bytes_of_host(topology_.host(), topology_) > 0)
    on_host(static_cast<double>(carried.bytes_of_host(topology_.host(), topology_)));
  if (topology_.is_leader()) {
    const int hosts = call_.hosts(), host = topology_.host();
    const bool by_tree = crowding() > 1 && hosts >= coordination::Exchange::least_hosts_of_tree;
    const auto rounds = carried.is_direct() ? std::vector{coordination::direct_round(host, hosts)}
                                            : coordination::exchange_rounds(host, hosts, by_tree, carries ? carried.bytes(topology_) : 0);
    for (const coordination::ExchangeRound& round : rounds) {
      const auto add = [&](Instruction::Kind kind, const coordination::ExchangeMove& move) {
        double bytes = head_bytes + (carried.is_direct() ? static_cast<double>(carried.each) : 0);
        for (int i = 0; carries && i < move.count; ++i)
          bytes += static_cast<double>(carried.bytes_of_host((move.first - i + hosts) % hosts, topology_));
        add_message(program, kind, rank, topology_.leaders[static_cast<std::size_t>(move.host)], bytes);
      };
      for (const auto& move : round.sends) add(Instruction::Kind::send, move);
      for (const auto& move : round.receives) add(Instruction::Kind::receive, move);
      end_wave(program);
    }
  }
  on_host(carries ? static_cast<double>(carried.bytes(topology_)) : signature_bytes);
  if (!carries || !takes_part(traits.receivers, rank == call_.root)) return;
  const double ns = traits.reduces ? parameters_.reduce_ns_per_byte : parameters_.copy_ns_per_byte;
  add_work(program, ns * static_cast<double>(is_by_shares() ? carried.each : call_.bytes) * (carried.only < 0 ? call_.ranks : 1));
}

void ProgramWriter::add_schedule(Program& program, const Problem& problem) {
  schedule::Schedule made;
  schedule::Builder builder(made);
  if (named_ == nullptr) {
    schedule::build(problem, setting(), builder);
  } else {
    Setting own = setting();
    if (!named_->on_two_levels) own.topology = nullptr;
    named_->build(problem, own, builder);
  }
  std::uint32_t wave = 0;
  for (const Step& step : made.steps) {
    if (step.wave != wave) end_wave(program);
    wave = step.wave;
    add_step(program, step);
  }
  end_wave(program);
  program.scratch_bytes = static_cast<double>(made.scratch * size_of(problem.dtype));
}

void ProgramWriter::add_step(Program& program, const Step& step) const {
  const auto element = static_cast<double>(size_of(dtype_of(call_)));
  const auto bytes = [&](const Slice& slice) { return static_cast<double>(slice.count) * element; };
  const auto peer = [&] {
    const auto p = static_cast<std::size_t>(step.peer);
    return step.level == Level::rail ? topology_.rail[p] : step.level == Level::host ? topology_.members[p] : step.peer;
  };
  switch (step.kind) {
    case Step::Kind::engine:
      program.instructions.push_back({.kind = Instruction::Kind::host_call, .amount = std::max(bytes(step.in), bytes(step.out))});
      return;
    case Step::Kind::send: return add_message(program, Instruction::Kind::send, topology_.rank, peer(), bytes(step.in));
    case Step::Kind::receive: return add_message(program, Instruction::Kind::receive, topology_.rank, peer(), bytes(step.out));
    case Step::Kind::reduce: return add_work(program, bytes(step.out) * static_cast<double>(step.blocks - 1) * parameters_.reduce_ns_per_byte);
    case Step::Kind::combine:
    case Step::Kind::divide: return add_work(program, bytes(step.out) * parameters_.reduce_ns_per_byte);
    case Step::Kind::copy: return add_work(program, bytes(step.out) * parameters_.copy_ns_per_byte);
  }
}

void ProgramWriter::add_message(Program& program, Instruction::Kind kind, int rank, int peer, double bytes) const {
  // Near the root many ranks address the same ones; elsewhere they do the same at a distance.
  const bool is_absolute = has_root(call_.operation) && peer / call_.ranks_per_host == call_.root / call_.ranks_per_host;
  const int distance = (peer - rank + call_.ranks) % call_.ranks;
  program.instructions.push_back({.kind = kind, .is_absolute = is_absolute, .peer = is_absolute ? peer : distance, .amount = bytes});
}

}  // namespace unisono::simulate
