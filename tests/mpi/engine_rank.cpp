// A rank of the tests of the mpi plug-in's engine: it loads the plug-in as a user of the seam would, with no context and no backend above it. Linked
// to the inside of the library, so that there are two copies of it in the process.
//
//   engine_rank PLUGIN FILE MODE    FILE: of the store; what goes wrong is said and the exit code 1
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "base/deadline.h"
#include "unisono/engine.h"

namespace {

using namespace unisono;

int number(std::initializer_list<const char*> names, int otherwise) {
  for (const char* const name : names) {
    if (const char* const text = std::getenv(name)) return std::atoi(text);
  }
  return otherwise;
}

struct Rank {
  int rank = number({"TEST_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"}, 0);
  int size = number({"TEST_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}, 1);
  std::shared_ptr<Store> store;
  const Plugin* plugin = nullptr;

  EngineOptions options(const std::string& key, std::vector<int> members) const {
    EngineOptions options;
    options.group_name = key;
    options.key = key;
    options.global_ranks = members;
    options.rank = static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
    options.hosts.assign(members.size(), 0);
    options.local_rank = rank;
    options.address = "127.0.0.1";
    options.store = std::make_shared<PrefixStore>(key, store);
    options.timeout = std::chrono::seconds(30);
    return options;
  }
  std::vector<int> all() const {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
};

[[noreturn]] void fail(const std::string& text) { throw std::logic_error(text); }

void wait(Task& task) {
  const base::Deadline deadline(std::chrono::seconds(30));
  while (!task.advance()) {
    if (deadline.passed()) fail("a task does not end");
    std::this_thread::yield();
  }
}

enum class Form { run, start };
void carry_out(Engine& engine, const CollectiveCall& call, Form form) {
  if (!engine.offers(call)) fail(fmt::format("{} is not offered", to_string(call.operation)));
  if (form == Form::run && engine.blocks()) return engine.run(call);
  wait(*engine.start(call));
}

template <class T>
TensorView view(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, unsigned char>) return {values.data(), DType::uint8, values.size()};
  else return {values.data(), dtype_of<T>::value, values.size()};
}

template <class T>
void expect(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  if (got.size() == expected.size() && std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0) return;
  for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0)
      fail(fmt::format("{}: element {} is {}, and should be {}", what, i, static_cast<double>(got[i]), static_cast<double>(expected[i])));
  }
  fail(what + ": the length");
}

/// Small whole numbers, another for every rank and element: their sums and products are exact in every type.
template <class T>
std::vector<T> given(int rank, std::size_t n, std::size_t from = 0) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(static_cast<float>((3 * static_cast<std::size_t>(rank) + 7 * (from + i)) % 5 + 1));
  return values;
}

template <class T>
std::vector<T> folded(ReduceOp op, int first, int last, std::size_t n) {
  std::vector<T> result = given<T>(first, n);
  for (int r = first + 1; r < last; ++r) {
    const std::vector<T> next = given<T>(r, n);
    combine(dtype_of<T>::value, op == ReduceOp::avg ? ReduceOp::sum : op, result.data(), next.data(), n);
  }
  if (op == ReduceOp::avg) {
    for (T& value : result) value = static_cast<T>(static_cast<double>(value) / (last - first));
  }
  return result;
}

template <class T>
void check_reductions(Engine& engine, int rank, int size, ReduceOp op, std::size_t n, Form form) {
  const DType dtype = dtype_of<T>::value;
  const std::string what = fmt::format("{} of {} x {}", to_string(op), n, to_string(dtype));
  std::vector<T> x = given<T>(rank, n), out(n);
  CollectiveCall call;
  call.op = op;
  call.count = n;
  call.operation = Operation::all_reduce;
  call.in = view(x);
  call.out = view(out);
  if (!engine.offers(call)) {
    const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
    const bool may_refuse = (is_half && (size > 2 || op == ReduceOp::avg)) || (op == ReduceOp::avg && dtype < DType::float16);
    if (!may_refuse) fail("all_reduce, " + what + ": not offered");
    return;
  }
  carry_out(engine, call, form);
  expect(out, folded<T>(op, 0, size, n), "all_reduce, " + what);
  call.out = call.in;
  carry_out(engine, call, form);
  expect(x, folded<T>(op, 0, size, n), "all_reduce in place, " + what);

  const int root = size - 1;
  x = given<T>(rank, n);
  call.in = call.out = view(x);
  call.operation = Operation::reduce;
  call.root = root;
  if (rank != root) call.out = TensorView(nullptr, dtype, std::size_t{0});
  carry_out(engine, call, form);
  if (rank == root) expect(x, folded<T>(op, 0, size, n), "reduce, " + what);
  call.root = -1;

  call.operation = Operation::scan;
  if (engine.offers(call)) {
    x = given<T>(rank, n);
    call.in = call.out = view(x);
    carry_out(engine, call, form);
    expect(x, folded<T>(op, 0, rank + 1, n), "scan, " + what);
    x = given<T>(rank, n);
    call.in = call.out = view(x);
    call.operation = Operation::exscan;
    carry_out(engine, call, form);
    expect(x, rank == 0 ? given<T>(0, n) : folded<T>(op, 0, rank, n), "exscan, " + what);
  }

  // The ranks' shares of a longer line, equal and not; into memory of its own, and into its own block.
  const std::size_t whole = n * static_cast<std::size_t>(size);
  const std::vector<T> sums = folded<T>(op, 0, size, whole);
  for (const bool own : {false, true}) {
    std::vector<T> line = given<T>(rank, whole), share(n);
    const std::size_t begin = n * static_cast<std::size_t>(rank);
    call.operation = Operation::reduce_scatter;
    call.in = view(line);
    call.out = own ? TensorView(line.data() + begin, dtype, n) : view(share);
    carry_out(engine, call, form);
    const T* const result = own ? line.data() + begin : share.data();
    expect(std::vector<T>(result, result + n),
           std::vector<T>(sums.begin() + static_cast<std::ptrdiff_t>(begin), sums.begin() + static_cast<std::ptrdiff_t>(begin + n)),
           "reduce_scatter, " + what);
  }
  std::vector<std::size_t> lengths(static_cast<std::size_t>(size));
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = r;
  call.counts = Counts(lengths);
  call.count = call.counts.total();
  std::vector<T> line = given<T>(rank, call.count), share(static_cast<std::size_t>(rank));
  const std::vector<T> expected = folded<T>(op, 0, size, call.count);
  const auto begin = static_cast<std::ptrdiff_t>(call.counts.before(static_cast<std::size_t>(rank)));
  call.operation = Operation::reduce_scatter_v;
  call.in = view(line);
  call.out = view(share);
  carry_out(engine, call, form);
  expect(share, std::vector<T>(expected.begin() + begin, expected.begin() + begin + rank), "reduce_scatter_v, " + what);
}

template <class T>
void check_reductions(Engine& engine, int rank, int size, Form form) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::avg, ReduceOp::land, ReduceOp::lor})
    for (const std::size_t n : {1, 5, 3000}) check_reductions<T>(engine, rank, size, op, n, form);
  if constexpr (std::is_integral_v<T>) {
    for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) check_reductions<T>(engine, rank, size, op, 5, form);
  }
}

/// A NaN of any sign and payload on any rank is the same NaN on all of them.
void check_nan(Engine& engine, int rank, int size, Form form) {
  std::vector<float> x(static_cast<std::size_t>(size), 1.0F);
  const std::uint32_t bits = 0xffc00000U + static_cast<std::uint32_t>(rank + 1);
  std::memcpy(&x[static_cast<std::size_t>(rank)], &bits, sizeof bits);
  CollectiveCall call;
  call.operation = Operation::all_reduce;
  call.count = x.size();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    std::vector<float> y = x;
    call.in = call.out = view(y);
    call.op = op;
    carry_out(engine, call, form);
    if (size > 1) expect(y, std::vector<float>(x.size(), std::numeric_limits<float>::quiet_NaN()), "NaN");
  }
}

void check_moves(Engine& engine, int rank, int size, std::size_t n, Form form) {
  using T = std::int32_t;
  const auto own = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
  const auto block = [&](std::size_t r, std::size_t length) {
    std::vector<T> values(length);
    std::iota(values.begin(), values.end(), static_cast<T>(1000000 * (r + 1)));
    return values;
  };
  const auto part = [](const std::vector<T>& values, std::size_t begin, std::size_t length) {
    return std::vector<T>(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(begin + length));
  };
  const TensorView none(nullptr, DType::int32, std::size_t{0});
  for (const bool uneven : {false, true}) {
    std::vector<std::size_t> lengths(ranks, n);
    if (uneven) {
      for (std::size_t r = 0; r < ranks; ++r) lengths[r] = (r * n + 1) % (n + 3);
    }
    const Counts counts(lengths);
    std::vector<T> everything;
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto values = block(r, lengths[r]);
      everything.insert(everything.end(), values.begin(), values.end());
    }
    CollectiveCall call;
    call.count = uneven ? counts.total() : n;
    if (uneven) call.counts = counts;
    for (const bool in_place : {false, true}) {
      std::vector<T> mine = block(own, lengths[own]), all(counts.total());
      const TensorView mine_in_all(all.data() + counts.before(own), DType::int32, lengths[own]);
      if (in_place) std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(counts.before(own)));
      call.root = -1;
      call.operation = uneven ? Operation::all_gather_v : Operation::all_gather;
      call.in = in_place ? mine_in_all : view(mine);
      call.out = view(all);
      carry_out(engine, call, form);
      expect(all, everything, "all_gather");

      std::fill(all.begin(), all.end(), 0);
      if (in_place) std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(counts.before(own)));
      call.root = size / 2;
      const bool is_root = rank == call.root;
      call.operation = uneven ? Operation::gather_v : Operation::gather;
      call.out = is_root ? view(all) : none;
      carry_out(engine, call, form);
      if (is_root) expect(all, everything, "gather");

      std::vector<T> source = everything;
      std::fill(mine.begin(), mine.end(), 0);
      call.operation = uneven ? Operation::scatter_v : Operation::scatter;
      call.in = is_root ? view(source) : none;
      call.out = is_root && in_place ? TensorView(source.data() + counts.before(own), DType::int32, lengths[own]) : view(mine);
      carry_out(engine, call, form);
      if (!is_root || !in_place) expect(mine, block(own, lengths[own]), "scatter");
      expect(source, everything, "scatter's source");
    }
  }
  // Who sends what to whom is another number for every pair.
  CollectiveCall call;
  call.count = n;
  std::vector<T> sent, received(n * ranks), expected;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto to = block(own * 10 + r, n), from = block(r * 10 + own, n);
    sent.insert(sent.end(), to.begin(), to.end());
    expected.insert(expected.end(), from.begin(), from.end());
  }
  call.operation = Operation::all_to_all;
  call.in = view(sent);
  call.out = view(received);
  carry_out(engine, call, form);
  expect(received, expected, "all_to_all");
  std::vector<std::size_t> giving(ranks), taking(ranks);
  const auto length = [&](std::size_t from, std::size_t to) { return from == 1 ? 0 : (from * n + 2 * to) % (n + 2); };
  sent.clear();
  expected.clear();
  for (std::size_t r = 0; r < ranks; ++r) {
    giving[r] = length(own, r);
    taking[r] = length(r, own);
    const auto to = part(block(own * 10 + r, n + 2), 0, giving[r]), from = part(block(r * 10 + own, n + 2), 0, taking[r]);
    sent.insert(sent.end(), to.begin(), to.end());
    expected.insert(expected.end(), from.begin(), from.end());
  }
  received.assign(expected.size(), 0);
  call.operation = Operation::all_to_all_v;
  call.count = 0;
  call.counts = Counts(giving);
  call.recv_counts = Counts(taking);
  call.in = view(sent);
  call.out = view(received);
  carry_out(engine, call, form);
  expect(received, expected, "all_to_all_v");

  CollectiveCall simple;
  simple.operation = Operation::barrier;
  carry_out(engine, simple, form);
  std::vector<T> x = block(own, n);
  simple.operation = Operation::broadcast;
  simple.count = n;
  simple.root = size - 1;
  simple.in = simple.out = view(x);
  carry_out(engine, simple, form);
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

void check_all(Engine& engine, int rank, int size) {
  for (const Form form : {Form::run, Form::start}) {
    check_reductions<std::int8_t>(engine, rank, size, form);
    check_reductions<std::int32_t>(engine, rank, size, form);
    check_reductions<std::uint64_t>(engine, rank, size, form);
    check_reductions<float>(engine, rank, size, form);
    check_reductions<double>(engine, rank, size, form);
    check_reductions<float16>(engine, rank, size, form);
    check_reductions<bfloat16>(engine, rank, size, form);
    check_nan(engine, rank, size, form);
    for (const std::size_t n : {1, 17, 20000}) check_moves(engine, rank, size, n, form);
  }
  check_messages(engine, rank, size);
}

// ---- modes ----------------------------------------------------------------------------------------------------

void engine_mode(const Rank& self, bool crowded) {
  auto options = self.options("world", self.all());
  options.crowded = crowded;
  const auto engine = self.plugin->make(options);
  if (engine->name() != "mpi" || !engine->has_channels() || engine->blocks() == crowded) fail("the engine's traits");
  check_all(*engine, self.rank, self.size);
  engine->leave();
}

/// Every other rank; and all of them the other way round.
void groups_mode(const Rank& self) {
  const auto world = self.plugin->make(self.options("world", self.all()));
  std::vector<int> members;
  for (int r = self.rank % 2; r < self.size; r += 2) members.push_back(r);
  const auto half = self.plugin->make(self.options(fmt::format("half {}", self.rank % 2), members));
  std::vector<int> backwards = self.all();
  std::reverse(backwards.begin(), backwards.end());
  const auto reversed = self.plugin->make(self.options("reversed", backwards));
  check_moves(*half, self.rank / 2, static_cast<int>(members.size()), 17, Form::start);
  check_moves(*reversed, self.size - 1 - self.rank, self.size, 17, Form::start);
  check_messages(*world, self.rank, self.size);
  half->leave();
  reversed->leave();
  world->leave();
}

/// A group that has failed throws, and another goes on; after a death nothing does.
void abort_mode(const Rank& self) {
  const auto expect_failure = [](Engine& engine, const std::string& text) {
    CollectiveCall call;
    try {
      if (engine.blocks()) engine.run(call);
      else engine.start(call);
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()).find(text) == std::string::npos) fail(std::string("another text: ") + error.what());
      return;
    }
    fail("an engine that was aborted goes on");
  };
  const auto world = self.plugin->make(self.options("world", self.all()));
  const auto other = self.plugin->make(self.options("other", self.all()));
  Failure failure;
  failure.kind = Failure::Kind::timeout;
  failure.message = "rank 1 did not come";
  other->abort(failure);
  expect_failure(*other, "rank 1 did not come");
  check_moves(*world, self.rank, self.size, 17, Form::run);
  failure.kind = Failure::Kind::peer_failed;
  failure.cause = PeerFailed::Cause::killed;
  failure.message = "rank 7 was killed";
  world->abort(failure);
  expect_failure(*world, "rank 7 was killed");
  try {
    self.plugin->make(self.options("later", self.all()));
    fail("an engine is made after a death");
  } catch (const BackendUnavailable& error) {
    if (std::string(error.what()).find("rank 7 was killed") == std::string::npos) fail(std::string("another text: ") + error.what());
  }
}

/// Rank 0 waits within MPI for the others, who do not come: its process ends.
void stuck_mode(const Rank& self) {
  const auto engine = self.plugin->make(self.options("world", self.all()));
  if (self.rank != 0) return void(self.store->get("never", std::chrono::seconds(20)));
  std::thread watcher([&] {
    self.store->set("watching", "1");
    std::this_thread::sleep_for(std::chrono::seconds(2));  // in which rank 0 gets into MPI
    Failure failure;
    failure.message = "rank 1 does not come";
    engine->abort(failure);
  });
  engine->run(CollectiveCall{});
  watcher.join();
}

/// What MPI refuses is an exception, and the process lives.
void truncated_mode(const Rank& self) {
  const auto engine = self.plugin->make(self.options("world", self.all()));
  char bytes[100] = {};
  if (self.rank == 0) wait(*engine->start_send(bytes, sizeof bytes, 1, 0));
  if (self.rank == 1) {
    try {
      wait(*engine->start_recv(bytes, 10, 0, 0));
      fail("a message of 100 bytes fits into 10");
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()).find("trunc") == std::string::npos) fail(std::string("another text: ") + error.what());
    }
  }
  engine->leave();
}

void carrier_mode(const Rank& self) {
  if (self.plugin->bootstrap(false)) fail("a job that nobody has joined");
  const auto bootstrap = self.plugin->bootstrap(true);
  if (!bootstrap) fail("there is no job to join");
  if (bootstrap->rank != self.rank || bootstrap->size != self.size) fail("another place");
  const std::string text(5000, 'x');
  if (bootstrap->broadcast(self.rank == 0 ? text : "") != text) fail("another text");
  if (self.plugin->bootstrap(false)) fail("what the plug-in has joined is taken for a job of the program's");
}

void large_mode(const Rank& self) {
  const auto engine = self.plugin->make(self.options("world", self.all()));
  const std::size_t n = (std::size_t{1} << 31) + 5;
  std::vector<unsigned char> x(n, static_cast<unsigned char>(self.rank + 1));
  CollectiveCall call;
  call.operation = Operation::all_reduce;
  call.count = n;
  call.in = call.out = view(x);
  carry_out(*engine, call, Form::run);
  for (const std::size_t i : {std::size_t{0}, n / 2, n - 1}) {
    if (x[i] != self.size * (self.size + 1) / 2) fail("large all_reduce");
  }
  const std::size_t half = n / 2;
  std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(half) * self.rank, half, static_cast<unsigned char>(50 + self.rank));
  call.operation = Operation::all_gather;
  call.count = half;
  call.in = TensorView(x.data() + half * static_cast<std::size_t>(self.rank), DType::uint8, half);
  call.out = TensorView(x.data(), DType::uint8, half * 2);
  carry_out(*engine, call, Form::start);
  if (x[0] != 50 || x[half - 1] != 50 || x[half] != 51 || x[2 * half - 1] != 51)
    fail(fmt::format("large all_gather: {} {} {} {}", x[0], x[half - 1], x[half], x[2 * half - 1]));
  auto task = self.rank == 0 ? engine->start_send(x.data(), n, 1, 3) : engine->start_recv(x.data(), n, 0, 3);
  wait(*task);
  if (x[n - 1] != self.size * (self.size + 1) / 2 || x[0] != 50) fail("large message");
  engine->leave();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  Rank self;
  void* const handle = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::cerr << ::dlerror() << "\n";
    return 1;
  }
  self.plugin = reinterpret_cast<const Plugin* (*)()>(::dlsym(handle, "unisono_plugin"))();
  self.store = std::make_shared<FileStore>(argv[2]);
  const std::string mode = argv[3];
  try {
    if (const std::string why_not = self.plugin->traits().why_not(); !why_not.empty()) throw BackendUnavailable(why_not);
    if (mode == "engine") engine_mode(self, false);
    if (mode == "crowded") engine_mode(self, true);
    if (mode == "groups") groups_mode(self);
    if (mode == "abort") abort_mode(self);
    if (mode == "stuck") stuck_mode(self);
    if (mode == "truncated") truncated_mode(self);
    if (mode == "bootstrap") carrier_mode(self);
    if (mode == "large") large_mode(self);
  } catch (const Error& error) {
    std::cerr << fmt::format("rank {}: {}\n", self.rank, error.what());
    return 3;
  } catch (const std::exception& error) {
    std::cerr << fmt::format("rank {}: {}\n", self.rank, error.what());
    return 1;
  }
  std::cout << fmt::format("rank {} of {}: fine\n", self.rank, self.size);
  return 0;
}
