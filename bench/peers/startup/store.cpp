// Asks the store of a job of several hosts so often, for scripts/bench/startup --costs: store REQUESTS BYTES PIPE. Each of 8 threads of all ranks but
// rank 0 sets a key REQUESTS times, so that 8 ranks ask as often as 64 do at a start; then all ranks read one value of BYTES. Rank 0 says
// "startup-mark NAME" before and after each, and waits for PIPE.
#include <unisono/detail/launcher_store.h>
#include <unisono/unisono.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

class Marks {
 public:
  Marks(int rank, const char* pipe) : rank_(rank), pipe_(pipe) {}
  /// Nothing is under way on any rank when it returns.
  void mark(const char* name) const {
    unisono::barrier();
    if (rank_ == 0) {
      std::printf("startup-mark %s\n", name);
      std::fflush(stdout);
      const std::ifstream opened(pipe_);
    }
    unisono::barrier();
  }

 private:
  int rank_;
  const char* pipe_;
};

constexpr int threads = 8;

void set_by_threads(unisono::Store& store, int requests) {
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&store, requests, key = std::to_string(unisono::rank()) + " " + std::to_string(thread)] {
      for (int i = 0; i < requests; ++i) store.set(key, std::to_string(i));
    });
  }
  for (std::thread& thread : all) thread.join();
}

void ask(int requests, std::size_t bytes, const char* pipe) {
  const unisono::Context context;
  const auto store = unisono::detail::launcher_store(unisono::rank(), unisono::world_size(), "startup", 60s);
  if (!store) throw std::runtime_error("no unisono run has started this");
  const Marks marks(unisono::rank(), pipe);
  marks.mark("begin");
  if (unisono::rank() > 0) set_by_threads(*store, requests);
  marks.mark("requests");
  if (unisono::rank() == 0) store->set("value", std::string(bytes, 'v'));
  if (unisono::rank() > 0 && store->get("value", 60s).size() != bytes) throw std::runtime_error("the value is another one");
  marks.mark("value");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("usage: store REQUESTS BYTES PIPE");
    ask(std::atoi(argv[1]), static_cast<std::size_t>(std::atol(argv[2])), argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
