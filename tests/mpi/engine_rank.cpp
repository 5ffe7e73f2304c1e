// A rank of the tests of the mpi plug-in's engine: it loads the plug-in as a user of the seam would, with no context and no backend above it. Linked
// to the inside of the library, so that there are two copies of it in the process.
//
//   engine_rank PLUGIN FILE MODE    FILE: of the store; what goes wrong is said and the exit code 1

#include <dlfcn.h>

#include <iostream>
#include <thread>

#include <fmt/format.h>

#include "engine_rank.h"

namespace engine_rank {
namespace {

void check_all(Engine& engine, int rank, int size) {
  for (const Form form : {Form::run, Form::start}) {
    check_reductions(engine, rank, size, form);
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

void expect_failure(Engine& engine, const std::string& text) {
  CollectiveCall call;
  try {
    if (engine.blocks()) engine.run(call);
    else engine.start(call);
  } catch (const std::runtime_error& error) {
    if (std::string(error.what()).find(text) == std::string::npos) fail(std::string("another text: ") + error.what());
    return;
  }
  fail("an engine that was aborted goes on");
}

Failure rank_1_did_not_come() {
  Failure failure;
  failure.kind = Failure::Kind::timeout;
  failure.message = "rank 1 did not come";
  return failure;
}

/// A group that has failed throws, and another goes on; after a death nothing does.
void abort_mode(const Rank& self) {
  const auto world = self.plugin->make(self.options("world", self.all()));
  const auto other = self.plugin->make(self.options("other", self.all()));
  Failure failure = rank_1_did_not_come();
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

/// What a failed group leaves under way in MPI writes into no memory that is the program's again.
class GivenUp {
 public:
  static constexpr std::size_t long_one = 20000;

  explicit GivenUp(const Rank& self) : self_(self), world_(make("world")) {}

  void receive() {
    const auto engine = make("messages");
    std::vector<unsigned char> memory(1000, 7), message(1000, 9);
    if (self_.rank == 0) give_up(*engine, engine->start_recv(memory.data(), memory.size(), 1, 0));
    meet("the receive is given up");
    if (self_.rank == 1) wait(*engine->start_send(message.data(), message.size(), 0, 0));
    expect_untouched(memory, "a receive");
  }

  /// Rank 1 begins it when rank 0 has given it up, and MPI goes on.
  void collective_on_a_copy(const std::string& name, std::size_t each, bool follows_others) {
    const auto engine = make(name);
    CollectiveCall call = gather(each);
    call.follows_others = follows_others;
    if (self_.rank == 0) give_up(*engine, engine->start(call));
    meet(name + " is given up");
    std::unique_ptr<Task> never_done;
    if (self_.rank == 1) never_done = engine->start(call);
    expect_untouched(all_, name);
  }

  void long_collective_that_ends() {
    const auto engine = make("begun by all");
    std::unique_ptr<Task> task;
    if (self_.rank == 1) task = engine->start(gather(long_one));
    meet("rank 1 has begun");
    if (self_.rank == 0) give_up(*engine, engine->start(gather(long_one)));
    else wait(*task);
    all_.assign(all_.size(), 7);
    expect_untouched(all_, "a collective");
  }

  /// Nothing may be begun in MPI then.
  void long_collective_that_does_not_end() {
    const auto engine = make("begun by one");
    if (self_.rank == 0) {
      give_up(*engine, engine->start(gather(long_one)));
      expect_failure(*world_, "a call of group begun by one was given up, and MPI may still write into its memory");
    }
    meet("the long one is given up");
    Failure death = rank_1_did_not_come();
    death.kind = Failure::Kind::peer_failed;
    death.cause = PeerFailed::Cause::killed;
    world_->abort(death);  // so that rank 1 does not wait for rank 0 in MPI_Finalize
  }

 private:
  std::unique_ptr<Engine> make(const std::string& name) const { return self_.plugin->make(self_.options(name, self_.all())); }
  void meet(const std::string& where) const {
    self_.store->set(where + std::to_string(self_.rank), "1");
    self_.store->get(where + std::to_string(1 - self_.rank), std::chrono::seconds(30));
  }
  static void give_up(Engine& engine, std::unique_ptr<Task> task) {
    task->advance();
    engine.abort(rank_1_did_not_come());
    task.reset();
  }
  CollectiveCall gather(std::size_t each) {
    mine_.assign(each, static_cast<unsigned char>(self_.rank));
    all_.assign(2 * each, 7);
    CollectiveCall call;
    call.operation = Operation::all_gather;
    call.count = each;
    call.in = view(mine_);
    call.out = view(all_);
    return call;
  }
  /// After calls in which MPI would bring the data.
  void expect_untouched(const std::vector<unsigned char>& memory, const std::string& what) {
    check_moves(*world_, self_.rank, self_.size, 17, Form::start);
    if (self_.rank == 0 && std::ranges::any_of(memory, [](unsigned char x) { return x != 7; })) fail(what + " that was given up writes");
  }

  const Rank& self_;
  std::unique_ptr<Engine> world_;
  std::vector<unsigned char> mine_, all_;
};

void given_up_mode(const Rank& self) {
  GivenUp calls(self);
  calls.receive();
  calls.collective_on_a_copy("a short collective", 500, false);
  calls.collective_on_a_copy("a later step", GivenUp::long_one, true);
  calls.long_collective_that_ends();
  calls.long_collective_that_does_not_end();
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

/// A call that MPI refuses is an exception, and the process lives.
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

void bootstrap_mode(const Rank& self) {
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
}  // namespace engine_rank

int main(int argc, char** argv) {
  using namespace engine_rank;
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
    if (mode == "given_up") given_up_mode(self);
    if (mode == "stuck") stuck_mode(self);
    if (mode == "truncated") truncated_mode(self);
    if (mode == "bootstrap") bootstrap_mode(self);
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
