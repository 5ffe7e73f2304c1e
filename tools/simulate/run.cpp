#include "simulate/run.h"

#include <algorithm>
#include <tuple>

namespace unisono::simulate {
namespace {

constexpr double same_time = 1e-9;          // microseconds
constexpr double longest_eager = 64 << 10;  // bytes of a message whose send does not wait until they are on their way

}  // namespace

Processors::Processors(const Parameters& parameters, const Call& call)
    : cores_(parameters.cores), ranks_of_machine_(parameters.hosts_per_machine * call.ranks_per_host), switch_us_(parameters.switch_us) {
  const int machines = (call.ranks + ranks_of_machine_ - 1) / ranks_of_machine_;
  if (are_limited()) all_.resize(static_cast<std::size_t>(machines) * static_cast<std::size_t>(cores_));
}

double Processors::work(int rank, double from, double us) {
  if (!are_limited()) return from + us;
  const auto first = all_.begin() + static_cast<std::ptrdiff_t>(rank / ranks_of_machine_) * cores_;
  Core& core = *std::min_element(first, first + cores_, [&](const Core& a, const Core& b) {
    return std::tuple(std::max(a.free_at, from), a.last != rank) < std::tuple(std::max(b.free_at, from), b.last != rank);
  });
  const double begin = std::max(core.free_at, from) + (core.last == rank || core.last < 0 ? 0 : switch_us_);
  core.last = rank;
  core.free_at = begin + us;
  return core.free_at;
}

Run::Run(const Call& call, const SimulationOptions& options, const Programs& programs, const Network& network, Flows& flows, int computed)
    : call_(call),
      parameters_(options.parameters),
      network_(network),
      flows_(flows),
      computed_(computed),
      processors_(options.parameters, call),
      ranks_(static_cast<std::size_t>(computed)),
      host_calls_(static_cast<std::size_t>((computed + call.ranks_per_host - 1) / call.ranks_per_host)) {
  for (int r = 0; r < computed; ++r) ranks_[static_cast<std::size_t>(r)].program = &programs.of(r);
  for (const Straggler& straggler : options.stragglers) {
    Rank& rank = ranks_[static_cast<std::size_t>(straggler.rank)];
    rank.clock += straggler.late_us;
    rank.slowness *= straggler.slowness;
  }
}

void Run::carry_out(const std::function<void(double)>& tell) {
  constexpr double messages_between = 1 << 12;
  double told = 0;
  for (int r = 0; r < computed_; ++r) push(ranks_[static_cast<std::size_t>(r)].clock, Event::Kind::resume, static_cast<std::uint32_t>(r));
  for (;;) {
    const double of_events = events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time;
    const double now = std::min(of_events, flows_.next());
    if (now == std::numeric_limits<double>::infinity()) return;
    while (flows_.next() <= now + same_time) {
      std::uint64_t message = 0;
      if (flows_.end_next(now, message)) flow_ended(static_cast<std::uint32_t>(message), now);
    }
    while (!events_.empty() && events_.top().time <= now + same_time) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    if (tell && messages_arrived_ >= told + messages_between) tell(told = messages_arrived_);
    flows_.settle(now);
  }
}

void Run::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::resume: {
      Rank& rank = ranks_[event.subject];
      rank.clock = std::max(rank.clock, event.time);
      return advance(static_cast<int>(event.subject));
    }
    case Event::Kind::depart: {
      const Message& message = messages_[event.subject];
      const double work_us = message.bytes / message.weight * level_of(message).work_ns_per_byte / ns_in_us;
      if (processors_.are_limited() && work_us > 0) push(event.time + level_of(message).latency_us, Event::Kind::drain, event.subject);
      return flows_.start(event.time, message.path, message.bytes, message.weight, message.most, event.subject);
    }
    case Event::Kind::drain: {
      Message& message = messages_[event.subject];
      const double work_us = message.bytes * level_of(message).work_ns_per_byte / ns_in_us;
      message.drained = processors_.work(message.receiver, event.time, work_us);
      return;
    }
    case Event::Kind::arrive: return arrive(event.subject, event.time);
  }
}

void Run::advance(int r) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const auto& instructions = rank.program->instructions;
  while (rank.next < instructions.size()) {
    const Instruction& instruction = instructions[rank.next];
    if (instruction.kind == Instruction::Kind::wait) {
      rank.waits = rank.pending > 0;
      rank.taken = rank.clock;
      if (rank.waits) return;
      ++rank.next;
      continue;
    }
    const std::size_t before = rank.next++;
    if (instruction.kind == Instruction::Kind::send && !processors_.are_limited() && sends_of_wave(rank) + 1 > few_sends) {
      rank.next = before;
      send_many(r);
      continue;
    }
    if (!take_step(r, instruction)) return;
  }
  rank.is_done = true;
}

/// Returns false where the rank goes on in an event.
bool Run::take_step(int r, const Instruction& instruction) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  switch (instruction.kind) {
    case Instruction::Kind::work: rank.clock = processors_.work(r, rank.clock, instruction.amount * rank.slowness / ns_in_us); break;
    case Instruction::Kind::send: send(r, instruction); return true;  // a rank keeps its processor until it waits
    case Instruction::Kind::receive: receive(r, instruction); return true;
    case Instruction::Kind::host_call: call_on_host(r, instruction.amount); return true;
    case Instruction::Kind::begin: begin_call(r, instruction.amount > 0); return instruction.amount <= 0;
    case Instruction::Kind::wait: return true;
  }
  if (!processors_.are_limited()) return true;
  push(rank.clock, Event::Kind::resume, static_cast<std::uint32_t>(r));
  return false;
}

Run::Message Run::message_to(int r, const Instruction& instruction) const {
  const int distance = instruction.is_absolute ? (instruction.peer - r + call_.ranks) % call_.ranks : instruction.peer;
  const int signed_distance = distance > call_.ranks / 2 ? distance - call_.ranks : distance;
  const int peer = computed_ == call_.ranks ? (r + distance) % call_.ranks : r + signed_distance;
  const int per_host = call_.ranks_per_host, nics = network_.nics();
  const auto host_of = [&](int rank) { return rank >= 0 ? rank / per_host : -((-rank + per_host - 1) / per_host); };
  const auto nic_of = [&](int rank) { return (rank - host_of(rank) * per_host) % nics; };
  Message message{.sender = r, .receiver = place(peer), .distance = static_cast<std::uint32_t>(distance), .bytes = instruction.amount};
  message.is_local = host_of(peer) == host_of(r);
  if (!message.is_local) message.path = network_.path(host_of(r), nic_of(r), host_of(peer), nic_of(peer));
  message.most = ns_in_us / std::max(level_of(message).ns_per_byte, 1e-6);
  message.is_awaited = instruction.amount > longest_eager;
  return message;
}

void Run::send(int r, const Instruction& instruction) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  Message message = message_to(r, instruction);
  const LogGP& level = level_of(message);
  const double overhead = level.overhead_us * rank.slowness, work = message.bytes * level.work_ns_per_byte / ns_in_us * rank.slowness;
  rank.clock = processors_.work(r, rank.clock, overhead + work);
  note_begin(rank, rank.clock - overhead - work);
  const double at = std::max(rank.clock - work, rank.next_message);
  rank.next_message = at + level.gap_us;
  if (message.is_awaited) ++rank.pending;
  bytes_ += message.bytes;
  launch(std::move(message), at);
}

void Run::launch(Message message, double at) {
  if (message.path.is_cut) return;  // its receiver waits for ever
  auto place = static_cast<std::uint32_t>(messages_.size());
  const bool is_empty = message.bytes <= 0;
  const double arrives = at + level_of(message).latency_us + parameters_.hop_us * (message.path.switches - 1);
  if (free_messages_.empty()) {
    messages_.push_back(std::move(message));
  } else {
    place = free_messages_.back();
    free_messages_.pop_back();
    messages_[place] = std::move(message);
  }
  push(is_empty ? arrives : at, is_empty ? Event::Kind::arrive : Event::Kind::depart, place);
}

void Run::flow_ended(std::uint32_t number, double now) {
  const Message& message = messages_[number];
  push(now + level_of(message).latency_us + parameters_.hop_us * (message.path.switches - 1), Event::Kind::arrive, number);
  if (!message.is_awaited) return;
  // The sender may go on and send, which moves the messages in memory.
  const int sender = message.sender;
  const std::size_t parts = 1 + message.others.size();
  for (std::size_t i = 0; i < parts; ++i) {
    Rank& rank = ranks_[static_cast<std::size_t>(sender)];
    rank.clock = std::max(rank.clock, now);
    end_part(sender);
  }
}

void Run::receive(int r, const Instruction& instruction) {
  // The sender's distance to this rank is the opposite of this rank's to the sender.
  const int peer = instruction.is_absolute ? instruction.peer : r + instruction.peer;
  const auto distance = static_cast<std::uint32_t>(((r - peer) % call_.ranks + call_.ranks) % call_.ranks);
  Box& box = boxes_[static_cast<std::uint64_t>(r) << 32U | distance];
  ++ranks_[static_cast<std::size_t>(r)].pending;
  if (box.arrived.empty()) {
    ++box.posted;
    return;
  }
  const double at = box.arrived.front();
  box.arrived.erase(box.arrived.begin());
  const bool is_local = peer / call_.ranks_per_host == r / call_.ranks_per_host;
  complete(r, at, (is_local ? parameters_.host : parameters_.network).overhead_us);
}

void Run::arrive(std::uint32_t number, double now) {
  const Message message = std::move(messages_[number]);
  free_messages_.push_back(number);
  messages_arrived_ += 1 + static_cast<double>(message.others.size());
  if (!message.others.empty()) return arrive_together(message, now);
  const LogGP& level = level_of(message);
  double at = std::max(now, message.drained);
  if (!processors_.are_limited()) {
    // The receiver takes the bytes over while they come; it may not have had the time.
    const double work = message.bytes / message.weight * level.work_ns_per_byte / ns_in_us;
    at = std::max(at, std::min(ranks_[static_cast<std::size_t>(message.receiver)].clock + work, now + work));
  }
  deliver(message.receiver, message.distance, at, level);
}

void Run::deliver(int receiver, std::uint32_t distance, double at, const LogGP& level) {
  Box& box = boxes_[static_cast<std::uint64_t>(receiver) << 32U | distance];
  if (box.posted == 0) {
    box.arrived.push_back(at);
    return;
  }
  --box.posted;
  complete(receiver, at, level.overhead_us);
}

/// Takes a message that has arrived.
void Run::complete(int r, double at, double us) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  rank.clock = processors_.work(r, std::max(rank.clock, at), us * rank.slowness);
  rank.taken += us * rank.slowness;
  end_part(r);
}

void Run::end_part(int r) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  --rank.pending;
  if (!rank.waits || rank.pending > 0) return;
  rank.waits = false;
  if (processors_.are_limited()) push(rank.clock, Event::Kind::resume, static_cast<std::uint32_t>(r));
  else advance(r);
}

void Run::call_on_host(int r, double bytes) {
  const int host = r / call_.ranks_per_host, first = host * call_.ranks_per_host, end = std::min(first + call_.ranks_per_host, computed_);
  HostCall& call = host_calls_[static_cast<std::size_t>(host)];
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  ++rank.pending;
  call.latest = std::max(call.latest, rank.clock);
  call.bytes = std::max(call.bytes, bytes);
  if (++call.arrived < end - first) return;
  const double done = call.latest + parameters_.host_call_us + call.bytes * parameters_.host_call_ns_per_byte / ns_in_us;
  call = {};
  for (int other = first; other < end; ++other) {
    ranks_[static_cast<std::size_t>(other)].clock = done;
    end_part(other);
  }
}

void Run::begin_call(int r, bool waits) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  if (begins_.size() <= rank.calls) begins_.push_back(0);
  double& begin = begins_[rank.calls++];
  begin = std::max(begin, rank.clock);
  if (!waits) return;
  rank.waits = true;  // no part of a wave ends it
  ++rank.pending;
  if (++arrived_ < computed_) return;
  arrived_ = 0;
  for (int other = 0; other < computed_; ++other) {
    Rank& next = ranks_[static_cast<std::size_t>(other)];
    next.clock = begin;
    next.waits = false;
    next.has_begun = false;
    --next.pending;
    push(begin, Event::Kind::resume, static_cast<std::uint32_t>(other));
  }
}

/// Ranks that share processors begin one after the other, and a call lasts from the last one's begin.
void Run::note_begin(Rank& rank, double at) {
  if (rank.has_begun || !processors_.are_limited()) return;
  rank.has_begun = true;
  begins_[rank.calls - 1] = std::max(begins_[rank.calls - 1], at);
}

double Run::last_end() const {
  double last = 0;
  for (const Rank& rank : ranks_) last = std::max(last, rank.clock);
  return last;
}

double Run::first_end() const {
  double first = last_end();
  for (const Rank& rank : ranks_) first = std::min(first, rank.clock);
  return first;
}

std::vector<int> Run::unfinished() const {
  std::vector<int> all;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r].is_done) all.push_back(static_cast<int>(r));
  }
  return all;
}

}  // namespace unisono::simulate
