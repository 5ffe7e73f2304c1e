#include <cstdint>

#include "engine_rank.h"

namespace engine_rank {
namespace {

using T = std::int32_t;

/// 1000000 (r + 1) and following.
std::vector<T> block(std::size_t r, std::size_t length) {
  std::vector<T> values(length);
  std::iota(values.begin(), values.end(), static_cast<T>(1000000 * (r + 1)));
  return values;
}

/// A block of each rank: of n elements, or each of another length.
struct Blocks {
  Engine& engine;
  std::size_t own;
  int root;
  Form form;
  std::size_t n;
  bool uneven;
  Counts counts;
  std::vector<T> everything = {};

  Blocks(Engine& an_engine, int rank, int size, std::size_t length, bool is_uneven, Form a_form)
      : engine(an_engine), own(static_cast<std::size_t>(rank)), root(size / 2), form(a_form), n(length), uneven(is_uneven) {
    std::vector<std::size_t> lengths(static_cast<std::size_t>(size), n);
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      if (uneven) lengths[r] = (r * n + 1) % (n + 3);
      const auto values = block(r, lengths[r]);
      everything.insert(everything.end(), values.begin(), values.end());
    }
    own_length = lengths[own];
    counts = Counts(lengths);
  }
  bool is_root() const { return static_cast<int>(own) == root; }
  std::vector<T> mine() const { return block(own, own_length); }
  TensorView mine_in(std::vector<T>& all) const { return {all.data() + counts.before(own), DType::int32, own_length}; }
  CollectiveCall call(Operation even, Operation of_blocks) const {
    CollectiveCall call;
    call.operation = uneven ? of_blocks : even;
    call.count = uneven ? counts.total() : n;
    if (uneven) call.counts = counts;
    return call;
  }

  std::size_t own_length = 0;
};

const TensorView none(nullptr, DType::int32, std::size_t{0});

void check_all_gather(const Blocks& its, bool in_place) {
  std::vector<T> mine = its.mine(), all(its.everything.size());
  if (in_place) std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(its.counts.before(its.own)));
  CollectiveCall call = its.call(Operation::all_gather, Operation::all_gather_v);
  call.in = in_place ? its.mine_in(all) : view(mine);
  call.out = view(all);
  carry_out(its.engine, call, its.form);
  expect(all, its.everything, "all_gather");
}

void check_gather(const Blocks& its, bool in_place) {
  std::vector<T> mine = its.mine(), all(its.everything.size());
  if (in_place) std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(its.counts.before(its.own)));
  CollectiveCall call = its.call(Operation::gather, Operation::gather_v);
  call.root = its.root;
  call.in = in_place ? its.mine_in(all) : view(mine);
  call.out = its.is_root() ? view(all) : none;
  carry_out(its.engine, call, its.form);
  if (its.is_root()) expect(all, its.everything, "gather");
}

void check_scatter(const Blocks& its, bool in_place) {
  std::vector<T> source = its.everything, mine(its.own_length);
  CollectiveCall call = its.call(Operation::scatter, Operation::scatter_v);
  call.root = its.root;
  call.in = its.is_root() ? view(source) : none;
  call.out = its.is_root() && in_place ? its.mine_in(source) : view(mine);
  carry_out(its.engine, call, its.form);
  if (!its.is_root() || !in_place) expect(mine, its.mine(), "scatter");
  expect(source, its.everything, "scatter's source");
}

/// Every pair of ranks exchanges numbers of its own.
void check_all_to_all(Engine& engine, int rank, int size, std::size_t n, Form form) {
  const auto own = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
  std::vector<T> sent, received(n * ranks), expected;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto to = block(own * 10 + r, n), from = block(r * 10 + own, n);
    sent.insert(sent.end(), to.begin(), to.end());
    expected.insert(expected.end(), from.begin(), from.end());
  }
  CollectiveCall call;
  call.count = n;
  call.operation = Operation::all_to_all;
  call.in = view(sent);
  call.out = view(received);
  carry_out(engine, call, form);
  expect(received, expected, "all_to_all");
}

/// Every pair exchanges blocks of a length of its own; rank 1 sends nothing.
void check_all_to_all_v(Engine& engine, int rank, int size, std::size_t n, Form form) {
  const auto own = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
  const auto length = [&](std::size_t from, std::size_t to) { return from == 1 ? 0 : (from * n + 2 * to) % (n + 2); };
  std::vector<std::size_t> giving(ranks), taking(ranks);
  std::vector<T> sent, expected;
  for (std::size_t r = 0; r < ranks; ++r) {
    giving[r] = length(own, r);
    taking[r] = length(r, own);
    const auto to = block(own * 10 + r, giving[r]), from = block(r * 10 + own, taking[r]);
    sent.insert(sent.end(), to.begin(), to.end());
    expected.insert(expected.end(), from.begin(), from.end());
  }
  std::vector<T> received(expected.size());
  CollectiveCall call;
  call.operation = Operation::all_to_all_v;
  call.counts = Counts(giving);
  call.recv_counts = Counts(taking);
  call.in = view(sent);
  call.out = view(received);
  carry_out(engine, call, form);
  expect(received, expected, "all_to_all_v");
}

}  // namespace

void check_moves(Engine& engine, int rank, int size, std::size_t n, Form form) {
  for (const bool uneven : {false, true}) {
    const Blocks blocks(engine, rank, size, n, uneven, form);
    for (const bool in_place : {false, true}) {
      check_all_gather(blocks, in_place);
      check_gather(blocks, in_place);
      check_scatter(blocks, in_place);
    }
  }
  check_all_to_all(engine, rank, size, n, form);
  check_all_to_all_v(engine, rank, size, n, form);

  CollectiveCall call;
  call.operation = Operation::barrier;
  carry_out(engine, call, form);
  std::vector<T> x = block(static_cast<std::size_t>(rank), n);
  call.operation = Operation::broadcast;
  call.count = n;
  call.root = size - 1;
  call.in = call.out = view(x);
  carry_out(engine, call, form);
  expect(x, block(static_cast<std::size_t>(size - 1), n), "broadcast");
}

void check_messages(Engine& engine, int rank, int size) {
  std::vector<std::unique_ptr<Task>> tasks;
  const std::size_t lengths[] = {0, 1, 100000};
  std::vector<std::vector<unsigned char>> out, in;
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    for (std::uint32_t channel = 0; channel < 3; ++channel) {
      for (const std::size_t n : lengths) {  // in their order, on every channel
        out.emplace_back(n, static_cast<unsigned char>(10 * rank + r + 100 * static_cast<int>(channel)));
        in.emplace_back(n, 0);
        tasks.push_back(engine.start_send(out.back().data(), n, r, channel));
        tasks.push_back(engine.start_recv(in.back().data(), n, r, channel));
        if (tasks.back()->waiting_for() != std::vector<int>{r}) fail("a message waits for somebody else");
      }
    }
  }
  for (auto it = tasks.rbegin(); it != tasks.rend(); ++it) wait(**it);  // whatever order they are asked in
  std::size_t i = 0;
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    for (std::uint32_t channel = 0; channel < 3; ++channel) {
      for (const std::size_t n : lengths) {
        expect(in[i++], std::vector<unsigned char>(n, static_cast<unsigned char>(10 * r + rank + 100 * static_cast<int>(channel))), "a message");
      }
    }
  }
}

}  // namespace engine_rank
