#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "coordination/exchange.h"
#include "coordination/group_topology.h"
#include "schedule/algorithm.h"
#include "simulate/parameters.h"

namespace unisono::simulate {

/// An instruction of a rank. The instructions up to the next `wait` begin together, as the steps of a wave do.
struct Instruction {
  enum class Kind : std::uint8_t {
    work,       ///< uses the processor for `amount` ns
    send,       ///< `amount` bytes to `peer`
    receive,    ///< from `peer`
    host_call,  ///< a collective of the host's ranks in shared memory, on `amount` bytes
    wait,       ///< until all that has begun is done
    begin,      ///< marks the begin of a call, at which all ranks wait for each other where `amount` is not 0
  };
  Kind kind = Kind::wait;
  bool is_absolute = false;  ///< `peer` is a rank, and else a distance from this rank, from 1 - P to P - 1
  std::int32_t peer = 0;
  double amount = 0;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// All that a rank does in a call.
struct Program {
  std::vector<Instruction> instructions = {};
  std::string_view algorithm = {};
  double scratch_bytes = 0;
  int rounds = 0;            ///< waves with messages
  int connections = 0;       ///< ranks of other hosts with which it exchanges messages
  std::size_t messages = 0;  ///< that it sends

  /// Returns true for a program of the same instructions, whose amounts differ at most by so much.
  bool is_like(const Program& other, double tolerance) const;
};

/// A collective call of a job whose ranks are placed on hosts one after the other.
struct Call {
  Operation operation = Operation::all_reduce;
  std::size_t bytes = 8;  ///< of the vector, or of a rank's block
  int ranks = 2;
  int ranks_per_host = 1;
  int root = 0;                                ///< where the operation has one
  std::string_view algorithm = {};             ///< of the table; empty: the one that the selection takes
  bool has_agreement = true;                   ///< the ranks compare the call first, as they do in a group
  int calls = 1;                               ///< one after the other, of which the last one's time counts
  bool are_apart = false;                      ///< all ranks begin each call at the same time
  bool is_crowded = false;                     ///< ranks share processors, by which the agreement's pattern is chosen
  schedule::NetworkParameters selection = {};  ///< by which algorithms are chosen

  int hosts() const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
};

/// Writes the programs of a call's ranks, from the schedules that the library makes of it.
class ProgramWriter {
 public:
  /// Throws InvalidArgument where the operation has no such algorithm, or it cannot be used.
  ProgramWriter(const Call& call, const Parameters& parameters);

  Program program_of(int rank);
  /// Returns the name of the algorithm: "agreement" where the elements travel with the comparison of the calls.
  std::string_view algorithm() const { return algorithm_; }
  /// Returns the largest difference that the lengths of parts of even partitions cause.
  double tolerance() const { return tolerance_; }
  /// Return the messages that a rank sends, and the time of the call, by the algorithm's formula.
  double expected_messages();
  double expected_us();

 private:
  schedule::Problem problem_of(int rank) const;
  void place(int rank);
  schedule::Cost cost();
  schedule::Setting setting() const;
  void add_call(Program& program, int rank);
  bool is_by_shares() const;
  schedule::Problem gather_of_shares(int rank) const;
  void add_agreement(Program& program, int rank, bool carries);
  void add_schedule(Program& program, const schedule::Problem& problem);
  void add_step(Program& program, const schedule::Step& step) const;
  double crowding() const;
  void add_message(Program& program, Instruction::Kind kind, int rank, int peer, double bytes) const;

  std::optional<coordination::Carried::Pattern> carried_by_;  ///< how the elements travel with the comparison of the calls, if they do
  Call call_;
  Parameters parameters_;
  coordination::GroupTopology topology_;  // of the rank whose program is being written
  const schedule::Algorithm* named_ = nullptr;
  std::string_view algorithm_ = {};
  double tolerance_ = 0;
};

}  // namespace unisono::simulate
