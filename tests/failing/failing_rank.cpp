// The program that the sweep starts as ranks, and by itself: it calls much of what the library offers, once. It ends with 0 where all of it worked,
// with 3 where an error of ours came out and nothing was written behind its back; with anything else where the sweep has found something.
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <memory_resource>
#include <string>
#include <typeinfo>
#include <vector>

#include "unisono/detail/switches.h"
#include "unisono/unisono.h"

namespace {

using namespace unisono;

enum Result { worked = 0, refused = 3, raw_exception = 4, wrong_values = 5, overwritten = 6 };

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

struct Wrong {};
void expect(bool right) {
  if (!right) throw Wrong();
}

/// `body` gets a buffer for what is under way when something fails: whatever is called afterwards, it stays as it is.
Result outcome_of(const std::function<void(std::vector<double>&)>& body) {
  std::vector<double> buffer;
  try {
    body(buffer);
    say("worked");
    return worked;
  } catch (const Wrong&) {
    say("wrong values");
    return wrong_values;
  } catch (const Error& error) {
    say(fmt::format("refused by {}: {}", typeid(error).name(), error.what()));
  } catch (const std::exception& error) {
    say(fmt::format("a raw {}: {}", typeid(error).name(), error.what()));
    return raw_exception;
  }
  const std::vector<double> then = buffer;
  try {
    if (is_initialized()) barrier();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the group is over
  }
  return buffer == then ? refused : overwritten;
}

void use_world(std::vector<double>& buffer) {
  const int n = world_size();
  const auto sum = [n](double own) { return n * own + n * (n - 1) / 2.0; };  // of own + rank
  std::vector<double> first{1.0 + rank(), 2.0 + rank()};
  all_reduce(first);
  expect(first == std::vector<double>{sum(1), sum(2)});
  buffer = {3.0 + rank(), 4.0 + rank()};
  Work work = all_reduce_async(buffer);
  work.wait();
  expect(buffer == std::vector<double>{sum(3), sum(4)});
  const int right = (rank() + 1) % n, left = (rank() + n - 1) % n;
  std::vector<int> sent(100'000, rank()), received(100'000, -1);  // more than leaves its sender's hands at once
  Work going = isend(sent, right);
  recv(received, left);
  going.wait();
  expect(received.front() == left && received.back() == left);
  expect(all_gather(std::string("rank ") + std::to_string(rank())).at(static_cast<std::size_t>(left)) == "rank " + std::to_string(left));
  std::pmr::vector<double> shared(200'000, 1.0 + rank(), shared_resource());
  all_reduce(shared);
  expect(shared.front() == sum(1) && shared.back() == sum(1));
  std::vector<int> all;
  for (int r = 0; r < n; ++r) all.push_back(r);
  const auto group = new_group(all);
  expect(group && all_reduce(1, ReduceOp::sum, *group) == n);
  barrier();
}

InitOptions options_of(const std::vector<std::string>& words) {
  InitOptions options;
  if (words.size() > 1) options.init_method = words.at(1);
  if (words.size() > 2) options.world_size = std::stoi(words.at(2));
  if (words.size() > 3) options.rank = std::stoi(words.at(3));
  return options;
}

Result run(const std::vector<std::string>& words) {
  const std::string& mode = words.at(0);
  if (mode == "hosts") {  // under a launcher, as if it were one of two hosts
    detail::set_presented_hosts({"a", "a", "b"});
    return outcome_of([](std::vector<double>& buffer) {
      const Context context;
      use_world(buffer);
    });
  }
  if (mode == "job") {  // job [METHOD [RANKS [RANK]]]
    return outcome_of([&](std::vector<double>& buffer) {
      const Context context(options_of(words));
      use_world(buffer);
    });
  }
  if (mode == "threads") {
    return outcome_of([](std::vector<double>&) {
      run_threads(3, [] {
        std::vector<double> own;
        use_world(own);
      });
    });
  }
  if (mode == "spawn") {
    return outcome_of([](std::vector<double>&) {
      SpawnOptions options;
      options.nproc_per_node = 2;
      const std::vector<int> sums = spawn(options, [] {
        std::vector<double> own;
        use_world(own);
        return all_reduce(1);
      });
      expect(sums == std::vector<int>{2, 2});
    });
  }
  if (mode == "store") {
    return outcome_of([](std::vector<double>&) {
      TcpStore server("127.0.0.1", 0, {.is_server = true, .timeout = std::chrono::seconds(5)});
      TcpStore client("127.0.0.1", server.port(), {.timeout = std::chrono::seconds(5)});
      client.set("key", std::string(100'000, 'v'));
      expect(server.get("key").size() == 100'000 && client.add("number", 2) == 2);
    });
  }
  return wrong_values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 90;
  return run({argv + 1, argv + argc});
}
