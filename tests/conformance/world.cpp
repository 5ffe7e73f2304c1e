#include "world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>

#include "unisono/detail/switches.h"

namespace conformance {
namespace {

bool is_launched = false;
std::string before_initialize;

std::vector<int> sizes_of(const Worlds& worlds) {
  std::vector<int> sizes = sanitized ? std::vector<int>{1, 2, 3, 5} : std::vector<int>{1, 2, 3, 4, 5, 7, 8};
  if (worlds.poisons && !sanitized) sizes = {2, 3, 5};  // they wait for deadlines
  std::erase_if(sizes, [&](int n) { return n < worlds.at_least || n > worlds.at_most; });
  return sizes;
}

void run_body(const Worlds& worlds, const std::function<void()>& body) {
  SCOPED_TRACE("rank " + std::to_string(unisono::rank()) + " of " + std::to_string(unisono::world_size()));
  body();
  if (!worlds.poisons) unisono::barrier();
}

// A rank that cannot go on ends its world: the others learn of it instead of waiting for a rank that is at another test.
[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "rank %d gives up: %s\n", unisono::rank(), why.c_str());
  unisono::world().abort(why);
  std::fflush(nullptr);
  ::_exit(1);
}

// CONFORMANCE_HOSTS=a,a,b: ranks of one host present themselves as processes of several.
std::string hosts_of_ranks() {
  const char* hosts = std::getenv("CONFORMANCE_HOSTS");
  return hosts == nullptr ? std::string() : hosts;
}

/// While this lives; not of the ranks that are threads of a test.
struct Presented {
  Presented() {
    std::vector<std::string> names;
    std::istringstream list(hosts_of_ranks());
    for (std::string name; std::getline(list, name, ',');) names.push_back(name);
    unisono::detail::set_presented_hosts(names);
  }
  ~Presented() { unisono::detail::set_presented_hosts({}); }
};

void run_launched(const Worlds& worlds, const std::function<void()>& body) {
  try {
    run_body(worlds, body);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  if (testing::Test::HasFailure()) give_up("its test failed");
  if (worlds.poisons) {
    unisono::finalize();
    const Presented presented;
    unisono::initialize();
  }
}

}  // namespace

void on_every_world(const Worlds& worlds, const std::function<void()>& body) {
  if (launched()) {
    if (worlds.threads_only) GTEST_SKIP() << "the ranks of this test are threads";
    if (unisono::world_size() < worlds.at_least) GTEST_SKIP() << "takes at least " << worlds.at_least << " ranks";
    return run_launched(worlds, body);
  }
  if (worlds.at_least == 1 && !worlds.poisons && !worlds.threads_only) {
    SCOPED_TRACE("not launched");
    run_body(worlds, body);
  }
  for (const int n : sizes_of(worlds)) {
    if (testing::Test::HasFailure()) return;
    SCOPED_TRACE("threads");
    try {
      unisono::run_threads(n, [&] { run_body(worlds, body); });
    } catch (const std::exception& error) {
      ADD_FAILURE() << n << " ranks as threads: " << error.what();
    }
  }
}

bool launched() { return is_launched; }
bool on_an_engine() { return launched() && std::getenv("UNISONO_BACKEND") != nullptr; }
bool presents_hosts() { return !hosts_of_ranks().empty() || (launched() && unisono::is_initialized() && unisono::nnodes() > 1); }
const std::string& rank_before_initialize() { return before_initialize; }

std::vector<std::size_t> interesting_counts(std::size_t element_bytes) {
  const auto n = static_cast<std::size_t>(unisono::world_size());
  const std::size_t slot = slot_bytes / element_bytes;
  std::vector<std::size_t> counts{0, 1, n - 1, n, n + 1, 1009, 8 * 1024 / element_bytes, 8 * 1024 / element_bytes + 1, slot - 1, slot, slot + 1};
  if (!sanitized) counts.insert(counts.end(), {65537, 100003, 3 * slot + 7});
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

void expect_usable(const unisono::ProcessGroup& group) {
  std::vector<double> x = values<double>(9, group.rank());
  unisono::all_reduce(x, unisono::ReduceOp::sum, group);
  EXPECT_EQ(difference(x, sums<double>(9, group.size())), "");
}

void expect_culprit(const unisono::Mismatch& error, int odd) {
  const bool blamed = unisono::world_size() > 2;
  EXPECT_EQ(error.culprit().value_or(-1), blamed ? odd : -1) << error.what();
  EXPECT_EQ(error.host().empty(), !blamed) << error.what();
  const bool says_so = std::string(error.what()).find("this rank another than most") != std::string::npos;
  EXPECT_EQ(says_so, blamed && unisono::rank() == odd) << error.what();
}

}  // namespace conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    conformance::before_initialize = std::to_string(unisono::rank());
  } catch (const unisono::NotInitialized&) {
    conformance::before_initialize = "NotInitialized";
  }
  conformance::is_launched = unisono::infer_launcher() != unisono::Launcher::none;
  std::optional<unisono::Context> context;
  if (conformance::launched()) {
    const conformance::Presented presented;
    context.emplace();
  }
  // Every rank says what went wrong on it, and only the first what went well.
  if (conformance::launched() && unisono::rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    struct Failures : testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (!result.failed()) return;
        std::fprintf(stderr, "%s:%d: %s\n", result.file_name() != nullptr ? result.file_name() : "?", result.line_number(), result.message());
      }
    };
    listeners.Append(new Failures);
  }
  return RUN_ALL_TESTS();
}
