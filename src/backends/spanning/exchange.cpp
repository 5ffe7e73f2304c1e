#include "backends/spanning/exchange.h"

#include <algorithm>
#include <cstring>

namespace unisono::backends {
namespace {

constexpr std::uint32_t collective_channel = 0;
// From this size on a broadcast goes in shares.
constexpr std::size_t large_broadcast = std::size_t{32} << 10;

struct Piece {
  int peer;
  std::byte* data;
  std::size_t bytes;
};

struct Moves {
  std::vector<Piece> sends, receives;  // with other ranks; of nothing too, so that nobody goes on before all have come
  const std::byte* own_from = nullptr;
  std::byte* own_to = nullptr;
  std::size_t own_bytes = 0;
};

/// Where the blocks of a call lie: of `in` what goes to each rank, of `out` what comes from each.
class Blocks {
 public:
  Blocks(const CollectiveCall& call, int rank, int size) : call_(call), rank_(rank), size_(size), element_(size_of(call.in.dtype())) {}

  Moves moves() const {
    Moves moves;
    for (int r = 0; r < size_; ++r) {
      const auto [to, sent] = outgoing(r);
      const auto [from, received] = incoming(r);
      if (r == rank_) {
        moves.own_from = to;
        moves.own_to = from;
        moves.own_bytes = std::min(sent, received);
        continue;
      }
      if (sends(r)) moves.sends.push_back({r, to, sent});
      if (receives(r)) moves.receives.push_back({r, from, received});
    }
    return moves;
  }

  bool sends(int to) const {
    switch (call_.operation) {
      case Operation::gather:
      case Operation::gather_v: return to == call_.root;
      case Operation::scatter:
      case Operation::scatter_v:
      case Operation::broadcast: return rank_ == call_.root;
      default: return true;
    }
  }
  bool receives(int from) const {
    switch (call_.operation) {
      case Operation::gather:
      case Operation::gather_v: return rank_ == call_.root;
      case Operation::scatter:
      case Operation::scatter_v:
      case Operation::broadcast: return from == call_.root;
      default: return true;
    }
  }
  /// Where what this rank sends to `to` begins, and how many bytes that are.
  std::pair<std::byte*, std::size_t> outgoing(int to) const {
    const auto r = static_cast<std::size_t>(to);
    auto* base = static_cast<std::byte*>(call_.in.data());
    if (!sends(to)) return {nullptr, 0};
    switch (call_.operation) {
      case Operation::all_to_all:
      case Operation::scatter: return {base + r * call_.count * element_, call_.count * element_};
      case Operation::all_to_all_v:
      case Operation::scatter_v: return {base + call_.counts.before(r) * element_, call_.counts[r] * element_};
      case Operation::barrier: return {nullptr, 0};
      default: return {base, call_.in.bytes()};
    }
  }
  std::pair<std::byte*, std::size_t> incoming(int from) const {
    const auto r = static_cast<std::size_t>(from);
    auto* base = static_cast<std::byte*>(call_.out.data());
    if (!receives(from)) return {nullptr, 0};
    switch (call_.operation) {
      case Operation::all_to_all:
      case Operation::all_gather:
      case Operation::gather: return {base + r * call_.count * element_, call_.count * element_};
      case Operation::all_to_all_v: return {base + call_.recv_counts.before(r) * element_, call_.recv_counts[r] * element_};
      case Operation::all_gather_v:
      case Operation::gather_v: return {base + call_.counts.before(r) * element_, call_.counts[r] * element_};
      case Operation::barrier: return {nullptr, 0};
      default: return {base, call_.out.bytes()};
    }
  }

 private:
  const CollectiveCall& call_;
  int rank_, size_;
  std::size_t element_;
};

/// All the pieces at once.
class Exchange final : public Task {
 public:
  Exchange(Engine& engine, Moves moves) : engine_(engine), moves_(std::move(moves)) {}

  bool advance() override {
    if (!begun_) {
      begun_ = true;
      for (const Piece& piece : moves_.receives) add(piece.peer, engine_.start_recv(piece.data, piece.bytes, piece.peer, collective_channel));
      for (const Piece& piece : moves_.sends) add(piece.peer, engine_.start_send(piece.data, piece.bytes, piece.peer, collective_channel));
      if (moves_.own_bytes > 0 && moves_.own_from != moves_.own_to) std::memmove(moves_.own_to, moves_.own_from, moves_.own_bytes);
    }
    std::erase_if(tasks_, [](const auto& entry) { return entry.second->advance(); });
    return tasks_.empty();
  }
  std::vector<int> waiting_for() const override {
    std::vector<int> ranks;
    for (const auto& [peer, task] : tasks_) {
      if (std::find(ranks.begin(), ranks.end(), peer) == ranks.end()) ranks.push_back(peer);
    }
    return ranks;
  }
  bool is_rung_for() const override {
    return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& entry) { return entry.second->is_rung_for(); });
  }

 private:
  void add(int peer, std::unique_ptr<Task> task) { tasks_.emplace_back(peer, std::move(task)); }

  Engine& engine_;
  Moves moves_;
  bool begun_ = false;
  std::vector<std::pair<int, std::unique_ptr<Task>>> tasks_;
};

/// One after the other.
class Sequence final : public Task {
 public:
  Sequence(std::unique_ptr<Task> first, std::unique_ptr<Task> second) : tasks_{std::move(first), std::move(second)} {}
  bool advance() override {
    while (at_ < 2 && tasks_[at_]->advance()) ++at_;
    return at_ == 2;
  }
  std::vector<int> waiting_for() const override { return at_ < 2 ? tasks_[at_]->waiting_for() : std::vector<int>(); }
  bool is_rung_for() const override { return at_ == 2 || tasks_[at_]->is_rung_for(); }

 private:
  std::unique_ptr<Task> tasks_[2];
  std::size_t at_ = 0;
};

}  // namespace

bool only_moves(Operation operation) { return !reduces(operation) && operation != Operation::send && operation != Operation::recv; }

std::unique_ptr<Task> start_exchange(Engine& engine, const CollectiveCall& call, int rank, int size) {
  if (call.operation == Operation::broadcast && size > 2 && call.in.bytes() >= large_broadcast) {
    std::vector<std::size_t> shares(static_cast<std::size_t>(size));
    for (std::size_t r = 0; r < shares.size(); ++r) shares[r] = call.count / shares.size() + (r < call.count % shares.size() ? 1 : 0);
    CollectiveCall first = call;
    first.operation = Operation::scatter_v;
    first.counts = Counts(shares);
    const std::size_t begin = first.counts.before(static_cast<std::size_t>(rank));
    const Tensor slice(static_cast<std::byte*>(call.out.data()) + begin * size_of(call.out.dtype()), call.out.dtype(),
                       shares[static_cast<std::size_t>(rank)]);
    first.out = slice;
    CollectiveCall second = first;
    second.operation = Operation::all_gather_v;
    second.root = -1;
    second.in = slice;
    second.out = call.out;
    return std::make_unique<Sequence>(std::make_unique<Exchange>(engine, Blocks(first, rank, size).moves()),
                                      std::make_unique<Exchange>(engine, Blocks(second, rank, size).moves()));
  }
  return std::make_unique<Exchange>(engine, Blocks(call, rank, size).moves());
}

CollectiveCall as_all_to_all_v(const CollectiveCall& call, int rank, int size, Scratch& scratch) {
  const Blocks blocks(call, rank, size);
  const std::size_t element = size_of(call.in.dtype());
  std::vector<std::size_t> send, receive;
  std::size_t sent = 0;
  bool in_place = true;  // the blocks lie one behind the other already
  for (int r = 0; r < size; ++r) {
    const auto [from, bytes] = blocks.outgoing(r);
    if (bytes > 0 && from != static_cast<std::byte*>(call.in.data()) + sent) in_place = false;
    send.push_back(bytes / element);
    sent += bytes;
    receive.push_back(blocks.incoming(r).second / element);
  }
  CollectiveCall moved = call;
  moved.operation = Operation::all_to_all_v;
  moved.root = -1;
  moved.count = 0;
  moved.counts = Counts(send);
  moved.recv_counts = Counts(receive);
  std::size_t received = 0;
  for (const std::size_t n : receive) received += n;
  if (!in_place || call.in.data() == call.out.data()) {
    std::byte* copy = scratch.take(sent);
    std::size_t at = 0;
    for (int r = 0; r < size; ++r) {
      const auto [from, bytes] = blocks.outgoing(r);
      if (bytes > 0) std::memcpy(copy + at, from, bytes);
      at += bytes;
    }
    moved.in = Tensor(copy, call.in.dtype(), sent / element);
  } else {
    moved.in = Tensor(call.in.data(), call.in.dtype(), sent / element);
  }
  moved.out = Tensor(call.out.data(), call.out.dtype(), received);
  return moved;
}

}  // namespace unisono::backends
