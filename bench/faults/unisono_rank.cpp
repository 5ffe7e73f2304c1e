// The ranks of unisono that scripts/bench/compare-faults starts: `unisono_rank MODE SECONDS`, with the deadline of its calls. It tells what happens
// in lines "EVENT RANK SECONDS TEXT".
#include <unisono/unisono.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

int rank = -1;

void tell(const std::string& event, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  char head[64];
  std::snprintf(head, sizeof head, "%s %d %.6f ", event.c_str(), rank, now);
  const std::string line = head + text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

[[noreturn]] void loop(std::size_t count) {
  std::vector<float> values(count);
  for (long i = 0;; ++i) {
    unisono::all_reduce(values, unisono::ReduceOp::max);
    if (i == 20 || i % 200 == 0) tell("runs", "");
  }
}

/// The calls of the two ranks differ as `mode` says.
void differ(const std::string& mode) {
  using unisono::ReduceOp;
  const auto own = static_cast<float>(rank + 2);
  std::vector<float> f(mode == "count" && rank == 1 ? 2000 : 1000, own);
  std::vector<double> d(1000, own);
  std::vector<int> n(1000, rank + 2);
  if (mode == "width" && rank == 1) unisono::all_reduce(d);
  else if (mode == "dtype" && rank == 1) unisono::all_reduce(n);
  else if (mode == "operation" && rank == 1) unisono::broadcast(f, 0);
  else unisono::all_reduce(f, mode == "op" && rank == 1 ? ReduceOp::product : ReduceOp::sum);
  tell("result", std::to_string(mode == "width" && rank == 1   ? d[0]
                                : mode == "dtype" && rank == 1 ? static_cast<double>(n[0])
                                                               : static_cast<double>(f[0])));
  unisono::barrier();
}

void act(const std::string& mode) {
  if (mode == "loop") loop(std::size_t{1} << 18);
  if (mode == "exit" || mode == "seven") {
    unisono::barrier();
    if (rank == 1) {
      tell("fault", "");
      std::exit(mode == "exit" ? 3 : 7);
    }
    unisono::barrier();
  } else if (mode == "large") {
    std::vector<float> values(std::size_t{1} << 20, 1.0F);
    for (int i = 0; i < 5; ++i) unisono::all_reduce(values);
    tell("result", std::to_string(values[0]));
  } else if (mode != "join") {
    differ(mode);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "loop";
  const std::chrono::seconds timeout(argc > 2 ? std::atoi(argv[2]) : 5);
  try {
    unisono::InitOptions options;
    options.timeout = timeout;
    unisono::Context context(options);
    rank = unisono::rank();
    tell("ready", std::to_string(::getpid()));
    act(mode);
    tell("done", "");
  } catch (const std::exception& error) {
    tell("knows", error.what());
    return 1;
  }
  return 0;
}
