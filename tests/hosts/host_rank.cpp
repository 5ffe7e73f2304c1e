// The program that the tests with several hosts start as ranks; the first argument says how it behaves.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include <fmt/format.h>

#include "base/environment.h"
#include "launch/api/outcome.h"
#include "rendezvous/rendezvous.h"
#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace {

using namespace unisono;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

/// Finds the others and does nothing with them: `rank 1 of 2 at 10.77.0.2, with host0 host1`.
rendezvous::JobIdentity meet(const std::vector<std::string>& words) {
  rendezvous::JobRequest request;
  if (words.size() > 1) request.init_method = words[1];
  auto identity = rendezvous::meet(request, base::Environment::process());
  std::string others;
  for (const auto& member : identity.members) others += " " + member.host.get();
  say(fmt::format("rank {} of {} at {}, with{}", identity.rank, identity.world_size, identity.address, others));
  return identity;
}

/// Everybody has what it needs of the store, or a quarter of a minute has passed.
void part(rendezvous::JobIdentity& identity) {
  identity.store->set(fmt::format("done/{}", identity.rank), "1");
  std::vector<std::string> keys;
  for (int rank = 0; rank < identity.world_size; ++rank) keys.push_back(fmt::format("done/{}", rank));
  identity.store->wait(keys, std::chrono::seconds(15));
  if (identity.serves_store) {
    if (identity.store->add("gone", 1) < identity.world_size) identity.store->get("all gone", std::chrono::seconds(15));
  } else if (identity.store->add("gone", 1) == identity.world_size) {
    identity.store->set("all gone", "1");
  }
  identity.leave(std::chrono::seconds(1));
}

/// Collectives and messages of several lengths, compared with what they should give.
void move_data(std::size_t most) {
  const Context context;
  const int own = rank(), size = world_size();
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, most}) {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int64_t>(i) * (own + 1);
    std::vector<std::int64_t> sums = values;
    all_reduce(sums);
    for (std::size_t i = 0; i < count; ++i) {
      if (sums[i] != static_cast<std::int64_t>(i) * size * (size + 1) / 2) throw std::logic_error(fmt::format("sum {} of {} is wrong", i, count));
    }
    std::vector<std::int64_t> received(count);
    send_recv(values, (own + 1) % size, received, (own + size - 1) % size);
    const std::int64_t from = (own + size - 1) % size;
    for (std::size_t i = 0; i < count; ++i) {
      if (received[i] != static_cast<std::int64_t>(i) * (from + 1)) throw std::logic_error(fmt::format("element {} of a message is wrong", i));
    }
    for (int root = 0; root < size; ++root) {
      std::vector<std::int64_t> copy = values;
      broadcast(copy, root);
      if (copy.back() != static_cast<std::int64_t>(count - 1) * (root + 1)) throw std::logic_error("a broadcast is wrong");
    }
  }
  say(fmt::format("rank {} of {} by {}, all is right", own, size, world().backend()));
}

/// Sums in groups of all ranks, twice; then in groups of ranks of hosts 0 and 1: two of them, and twice four, whose first is none of the two.
void sum_in_groups() {
  const Context context;
  std::vector<int> all(static_cast<std::size_t>(world_size()));
  std::iota(all.rbegin(), all.rend(), 0);
  for (const std::vector<int>& members : {all, all, {1, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}) {
    const auto group = new_group(members);
    if (!group) continue;
    std::vector<std::int64_t> sums(100'000, rank());
    all_reduce(sums, ReduceOp::sum, *group);
    const std::int64_t expected = std::accumulate(members.begin(), members.end(), std::int64_t{0});
    if (sums.front() != expected || sums.back() != expected) throw std::logic_error("a sum is wrong");
  }
  say("all is right");
}

std::string same(const std::string& text) { return text; }
UNISONO_REMOTE(same);

/// Every rank gives an object that tests look for on its way, by the call of that name.
void exchange_objects(const std::string& call) {
  const Context context;
  const std::string own = "the object as it was sent";
  const std::string rest(40'000, '.');  // of a message, which is more than a frame of its own then
  const auto got = [](const std::string& text) { say(fmt::format("rank {} has {}", rank(), text.substr(0, text.find('.')))); };
  if (call == "broadcast") {
    std::string text = rank() == 0 ? own : "";
    broadcast_object(text);
    got(text);
  } else if (call == "gather") {
    if (const auto all = gather_object(own)) got(all->back());
  } else if (call == "all_gather") {
    got(all_gather_object(own)[static_cast<std::size_t>(1 - rank())]);
  } else if (call == "scatter") {
    got(scatter_object(rank() == 0 ? std::vector<std::string>(2, own) : std::vector<std::string>()));
  } else if (call == "files") {
    if (const auto all = collect_results(std::vector<std::string>{own}, 2, {.via = CollectVia::shared_dir})) got(all->back());
  } else if (call == "call" || call == "call_in_parts") {
    const Controller workers;
    got(workers[0].call(same, own + (call == "call" ? std::string() : rest + rest)).get());
  } else if (call == "elastic") {
    std::string text = rank() == 0 ? own : "";
    ElasticState state;
    state.object("text", text);
    state.step = 1 - rank();
    synchronize(state);
    got(text);
  } else if (rank() == 0) {  // message, messages
    for (int i = 1; i <= (call == "message" ? 1 : 2); ++i) send_object((call == "message" ? own : fmt::format("message {}", i)) + rest, 1);
    barrier();
  } else {
    for (int i = 1; i <= (call == "message" ? 1 : 2); ++i) got(recv_object<std::string>(0));
    barrier();
  }
}

/// The whole way.
void sum(const std::vector<std::string>& words) {
  InitOptions options;
  if (words.size() > 1) options.init_method = words[1];
  const Context context(options);
  say(fmt::format("rank {} of {}, node {} of {}, sum {}", rank(), world_size(), node_rank(), nnodes(), all_reduce(rank())));
}

/// In a group that meets in a store of the program's own, and not in the launcher's.
void sum_as_member(const std::string& file) {
  const auto number = [](const char* name) { return base::Environment::process().get_int(name).value(); };
  const Membership member({.store = std::make_shared<FileStore>(file), .rank = number("RANK"), .size = number("WORLD_SIZE")});
  say(fmt::format("rank {}, sum {}", member.group().rank(), all_reduce(member.group().rank(), ReduceOp::sum, member.group())));
}

int run(const std::vector<std::string>& words) {
  const std::string& mode = words.at(0);
  if (const char* const limit = std::getenv("HOST_RANK_SILENCE_MS")) detail::set_silence_limit(std::chrono::milliseconds(std::atoi(limit)));
  if (mode == "meet") {
    auto identity = meet(words);
    part(identity);
  } else if (mode == "hold") {  // meets, and stays until the file is there that its last word names
    auto identity = meet({mode});
    say("holding");
    while (::access(words.at(1).c_str(), F_OK) != 0) ::poll(nullptr, 0, 20);
    part(identity);
  } else if (mode == "sum") {  // sum [INIT_METHOD]
    sum(words);
  } else if (mode == "member") {  // member FILE
    sum_as_member(words.at(1));
  } else if (mode == "move") {
    move_data(words.size() > 1 ? std::stoul(words[1]) : 300'000);
  } else if (mode == "objects") {
    exchange_objects(words.at(1));
  } else if (mode == "groups") {
    sum_in_groups();
  } else if (mode == "work") {  // sums until rank 0 sees the file that its last word names
    const Context context;
    say("working");
    const int others = world_size() * (world_size() - 1) / 2;
    for (int done = 0; done == 0; ::poll(nullptr, 0, 5)) {
      const std::vector<int> sums = all_gather(all_reduce(rank()));
      if (std::ranges::any_of(sums, [&](int sum) { return sum != others; })) throw std::logic_error("a sum is wrong");
      std::vector<std::int64_t> many(5000, rank());  // which takes many packets
      all_reduce(many);
      if (std::ranges::any_of(many, [&](std::int64_t sum) { return sum != others; })) throw std::logic_error("one of many sums is wrong");
      done = all_reduce(rank() == 0 && ::access(words.at(1).c_str(), F_OK) == 0 ? 1 : 0);
    }
  } else if (mode == "fall") {  // fall RANK: sums until that rank dies
    const Context context;
    std::vector<float> values(1000, 1.0f);
    for (int i = 0;; ++i) {
      if (i == 3 && rank() == std::stoi(words.at(1))) std::abort();
      all_reduce(values);
    }
  } else if (mode == "orphan") {  // orphan RANK: that rank forks a child, as a loader of data does, and is killed
    const Context context;
    static_cast<void>(all_reduce(1));
    if (rank() == std::stoi(words.at(1))) {
      if (const pid_t child = ::fork(); child == 0) {
        for (const int fd : {0, 1, 2}) ::close(fd);  // the test need not wait for it
        ::alarm(120);
        for (;;) ::pause();
      } else {
        say(fmt::format("child {}", child));
      }
      ::kill(::getpid(), SIGKILL);
    }
    static_cast<void>(all_reduce(1));
  } else {
    say("no such mode: " + mode);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    say(fmt::format("failed: {}: {}", base::readable(typeid(error)), error.what()));
    return 1;
  }
}
