#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/job.h"

namespace unisono::simulate {

/// The processors of the machines. Where their number is limited, ranks take turns in the order in which they ask.
class Processors {
 public:
  Processors(const Parameters& parameters, const Call& call);
  bool are_limited() const { return cores_ > 0; }
  /// Returns when a rank has worked for so long, if it can begin at that time.
  double work(int rank, double from, double us);

 private:
  struct Core {
    double free_at = 0;
    int last = -1;
  };
  int cores_, ranks_of_machine_;
  double switch_us_;
  std::vector<Core> all_;
};

/// One simulated call.
class Run {
 public:
  Run(const Call& call, const SimulationOptions& options, const Programs& programs, const Network& network, Flows& flows, int computed);

  /// `tell`: called now and then with the number of messages that have arrived.
  void carry_out(const std::function<void(double)>& tell = {});
  double first_end() const;
  double last_end() const;
  /// Returns the begin of the last call: when all ranks are there if they wait for each other, else the end of the last rank's call before.
  double last_begin() const { return begins_.empty() ? 0 : begins_.back(); }
  /// Returns the bytes of all messages of the computed ranks.
  double bytes() const { return bytes_; }
  std::vector<int> unfinished() const;

 private:
  struct Rank {
    const Program* program = nullptr;
    std::size_t next = 0;     ///< instruction
    int pending = 0;          ///< parts of the wave that are not done
    double clock = 0;         ///< the processor is free from then on
    double taken = 0;         ///< the processor would be free from then on if all messages had come already
    double next_message = 0;  ///< the earliest time of its next send
    double slowness = 1;
    bool waits = false, is_done = false, has_begun = true;
    std::size_t calls = 0;  ///< that it has begun
  };
  /// One message, or many on the same way that are sent together.
  struct Message {
    int sender = 0, receiver = 0;
    std::uint32_t distance = 0;  ///< from the receiver's peer to it, by which receives are matched
    double bytes = 0, weight = 1, most = 0, drained = 0, begun = 0;
    bool is_local = false, is_awaited = false;
    Path path = {};
    std::vector<std::pair<int, std::uint32_t>> others = {};  ///< receivers and distances of the further ones
  };
  static constexpr double ns_in_us = 1000;
  static constexpr std::size_t few_sends = 64;  ///< of a wave: each of them is a flow of its own
  struct Box {
    int posted = 0;
    std::vector<double> arrived = {};
  };
  struct Event {
    enum class Kind : std::uint8_t { resume, depart, drain, arrive };
    double time;
    std::uint64_t number;
    Kind kind;
    std::uint32_t subject;
    friend bool operator<(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.number > b.number; }
  };
  struct HostCall {
    int arrived = 0;
    double latest = 0, bytes = 0;
  };

  void push(double time, Event::Kind kind, std::uint32_t subject) { events_.push({time, count_++, kind, subject}); }
  void handle(const Event& event);
  void advance(int rank);
  bool take_step(int rank, const Instruction& instruction);
  void send(int rank, const Instruction& instruction);
  void send_many(int rank);
  Message message_to(int rank, const Instruction& instruction) const;
  void launch(Message message, double at);
  void receive(int rank, const Instruction& instruction);
  void complete(int rank, double at, double bytes_us);
  void call_on_host(int rank, double bytes);
  void begin_call(int rank, bool waits);
  void note_begin(Rank& rank, double at);
  void arrive(std::uint32_t message, double now);
  void deliver(int receiver, std::uint32_t distance, double at, const LogGP& level);
  void arrive_together(const Message& message, double last);
  void end_part(int rank);
  void flow_ended(std::uint32_t message, double now);
  const LogGP& level_of(const Message& message) const { return message.is_local ? parameters_.host : parameters_.network; }
  int place(int rank) const { return (rank % computed_ + computed_) % computed_; }
  std::size_t sends_of_wave(const Rank& rank) const;

  const Call call_;
  const Parameters parameters_;
  const Network& network_;
  Flows& flows_;
  const int computed_;
  Processors processors_;
  std::vector<Rank> ranks_;
  std::vector<HostCall> host_calls_;
  std::vector<double> begins_;
  int arrived_ = 0;  ///< ranks that have come to the begin of a call
  std::vector<Message> messages_;
  std::vector<std::uint32_t> free_messages_;
  std::unordered_map<std::uint64_t, Box> boxes_;
  std::priority_queue<Event> events_;
  std::uint64_t count_ = 0;
  double bytes_ = 0;
  double messages_arrived_ = 0;
};

}  // namespace unisono::simulate
