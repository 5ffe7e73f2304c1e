#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "case.h"
#include "symbols.h"

namespace unisono::schedule::testing {

/// Carries out the schedules of all ranks on symbols. Every send waits for its receive, as with buffers of no bytes at all. What ends like this ends
/// with any buffers, and with messages in any order of delivery: steps only wait for messages, a message goes from one place in the order of its
/// sender to one in the order of its receiver, and no step of a wave touches what another one of the wave writes. So which steps can be done never
/// depends on which were done first.
class Machine {
 public:
  /// The work that the ranks have done, of each kind that of the rank with most of it.
  struct Work {
    double rounds = 0, messages = 0, path = 0, sent = 0, reduced = 0, copied = 0, scratch = 0;
    double all_messages = 0, all_sent = 0;  ///< of all ranks together
  };

  Machine(const Case& of, const std::vector<Schedule>& schedules);
  /// Carries out everything. Returns what is wrong, or "".
  std::string run();
  /// Returns what is wrong with the outputs, for an algorithm that combines in that order, or "".
  std::string judge(Order order) const;
  /// Returns the work between hosts.
  Work work() const;

 private:
  struct Message {
    int rank;
    Slice slice;
  };
  struct Channel {
    std::vector<Message> sends, receives;
    std::size_t first_send = 0, first_receive = 0;
  };
  struct Rank {
    Problem problem;
    std::vector<Symbol> memory;
    std::size_t base[3];  // by Slice::Memory
    std::size_t length[3];
    std::size_t next = 0, end = 0;  // the wave under way
    std::size_t waits = 0;          // for so many of its messages
    bool has_messages = false, is_in_collective = false;
    double round = 0, path = 0;                // when the wave began
    double latest_round = 0, latest_path = 0;  // when the last of the ranks that it receives from began theirs
    std::size_t wave_sent = 0, wave_received = 0;
    Work work;
    std::size_t sends = 0, receives = 0;
  };

  void begin_wave(int r);
  void end_wave(int r);
  void carry_out(int r, const Step& step);
  void post(int r, const Step& step);
  void match(Channel& channel);
  void collective(int r, const Step& step);
  std::vector<int> members_of(int r, const Step& step) const;
  void finish_collective(const std::vector<int>& members);
  std::vector<Symbol> result_of(const std::vector<int>& members, const std::vector<const Step*>& steps, std::size_t local);
  std::vector<Symbol> part_of_output(int r, const Slice& out) const;
  void check_wave(int r);
  int peer_of(int r, const Step& step) const;
  Symbol combine(int r, Symbol left, Symbol right);
  Symbol divide(int r, Symbol sum, std::size_t divisor);
  std::size_t address(const Rank& rank, const Slice& slice) const { return rank.base[static_cast<int>(slice.memory)] + slice.begin; }
  void complain(int r, const std::string& what);
  std::string judge(int r, std::size_t i, Symbol symbol, const Case::Expected& expected, Order order) const;

  const Case& case_;
  const std::vector<Schedule>& schedules_;
  std::vector<coordination::GroupTopology> topologies_;
  Symbols symbols_;
  std::vector<Rank> ranks_;
  std::vector<Channel> channels_;  // by level, sender, receiver
  std::vector<int> ready_;         // ranks that can begin a wave
  std::string complaint_;
  bool has_partials_ = false;  // something was combined twice
};

/// Builds the schedules of all ranks by an algorithm, carries them out and judges them, and compares the work with the algorithm's formula. Returns
/// what is wrong, or "".
std::string check(const Case& one, const Algorithm& algorithm, const NetworkParameters& network = {});
/// Carries out schedules and judges them, for an algorithm that combines in that order. Returns what is wrong, or "".
std::string check(const Case& one, const std::vector<Schedule>& schedules, Order order);
/// Returns the schedules that an algorithm builds for the ranks.
std::vector<Schedule> schedules_of(const Case& one, const Algorithm& algorithm, const NetworkParameters& network = {});
/// Returns the setting of a rank: connections between all ranks, or an all_to_all_v of them, without any other collective of an engine's.
Setting setting_of(const Case& one, const coordination::GroupTopology* topology, const NetworkParameters& network);

}  // namespace unisono::schedule::testing
