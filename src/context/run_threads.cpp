#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "group/group_core.h"
#include "coordination/host_ranks.h"
#include "context/world.h"
#include "context/state.h"
#include "engines/host_engine.h"
#include "base/error_text.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/thread.h"
#include "unisono/detail/ending.h"
#include "unisono/launch.h"

namespace unisono {
namespace {

constexpr auto timeout = std::chrono::milliseconds(std::chrono::minutes(30));

/// The memory that ranks of one process share.
struct SharedByThreads {
  /// All ranks count as sharing processors, or none does, also if a thread is bound later: the ranks of a group cut calls alike.
  const int processors = base::allowed_processors();
  std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
  std::mutex mutex;
  struct Meeting {
    int missing = 0;
    std::shared_ptr<engines::HostMemory> memory = {};
    std::exception_ptr error = {};                                                 // why there is no memory; all members learn it
    std::shared_ptr<SharedByThreads> inner = std::make_shared<SharedByThreads>();  // of the groups in a world that they form
  };
  std::map<std::string, Meeting> meetings;  // groups that are being formed, by members and name

  /// Returns the memory of a group. Its first member to come makes it, and the last one to come drops it from the list.
  Meeting meet(const std::string& key, int ranks, std::vector<base::Notifier*> notifiers, std::shared_ptr<void> keep) {
    const std::lock_guard lock(mutex);
    auto found = meetings.find(key);
    if (found == meetings.end()) {
      found = meetings.emplace(key, Meeting{.missing = ranks}).first;
      try {
        found->second.memory = engines::host_memory_of_threads(ranks, std::move(notifiers), std::move(keep));
      } catch (...) {
        found->second.error = std::current_exception();
      }
    }
    const Meeting meeting = found->second;
    if (--found->second.missing == 0) meetings.erase(found);
    if (meeting.error) std::rethrow_exception(meeting.error);
    return meeting;
  }
};

std::unique_ptr<context::State> thread_state(const std::string& name, int rank, int ranks, const std::shared_ptr<engines::HostMemory>& memory,
                                             const std::shared_ptr<SharedByThreads>& shared) {
  auto state = std::make_unique<context::State>(rank, ranks, recorder::Recorder::make_private());
  state->topology = context::topology_of_threads(rank, ranks);
  const auto make_core = [shared](const group::CoreOptions& options, const std::string& backend) {
    if (!backend.empty() && backend != "auto" && backend != "native") {
      throw Unsupported(fmt::format("ranks that are threads have the native engine, not {}", backend), {.hint = "start processes"});
    }
    return std::make_unique<group::GroupCore>(
        group::parts_of_threads(shared
                                    ->meet(options.key, static_cast<int>(options.global_ranks.size()),
                                           coordination::notifiers_of(*options.world, options.global_ranks), options.world)
                                    .memory,
                                options.rank, shared->processors, options.global_ranks));
  };
  state->groups = context::FormedGroups(shared->store, make_core);
  state->form_part = [shared](const std::string& key, int own_rank, int size) {
    const auto meeting = shared->meet(key, size, {}, nullptr);
    return thread_state(context::name_of_part, own_rank, size, meeting.memory, meeting.inner);
  };
  group::GroupParts parts;
  parts.name = name;
  parts.core = std::make_unique<group::GroupCore>(group::parts_of_threads(memory, rank, shared->processors));
  parts.timeout = timeout;
  state->open_world(std::move(parts));
  return state;
}

/// The end of one rank's function.
struct Ending {
  std::exception_ptr error;
  bool consequence = false;  // true if it follows from another rank's failure
};

/// Marks this process while it runs ranks: a child forked meanwhile has no part in them.
struct Guarded {
  Guarded() { group::guard_against_fork(true); }
  ~Guarded() { group::guard_against_fork(false); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
};

void run_rank(int rank, context::State& state, const std::function<void(int rank)>& body, Ending& ending) {
  context::of_thread() = &state;
  base::set_log_rank("rank " + std::to_string(rank));
  try {
    body(rank);
    context::leave(state, coordination::Leaving::in_order);
  } catch (const detail::EndOfRank&) {  // a worker of a controller, whose function does not go on
    context::leave(state, coordination::Leaving::in_order);
  } catch (...) {
    ending.error = std::current_exception();
    ending.consequence = base::is_a<PeerFailed>(ending.error);
    context::give_up(state, "gave up: " + base::what_of(ending.error));
    context::abandon(state, coordination::Leaving::by_exception);
  }
  context::of_thread() = nullptr;
}

/// Calls `run` for each rank in a thread of its own and waits for all. No call begins before all threads exist, so that no rank waits for one whose
/// thread could not be started.
void run_all(int ranks, const std::function<void(int rank)>& run) {
  enum Word { wait, begin, go_home };
  std::atomic<Word> word{wait};
  const auto say = [&](Word what) {
    word.store(what);
    word.notify_all();
  };
  std::vector<base::Thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  try {
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back(
          fmt::format("rank {} of {}", r, ranks),
          [&, r] {
            word.wait(wait);
            if (word.load() == begin) run(r);
          },
          base::Thread::Signals::as_starter);
    }
  } catch (const Error& error) {
    say(go_home);
    ErrorInfo info = error.info();
    info.operation = "run_threads";
    throw Error(error.message(), std::move(info));
  } catch (...) {
    say(go_home);
    throw;
  }
  say(begin);
  for (base::Thread& thread : threads) thread.join();
}

}  // namespace

void detail::run_threads(int ranks, const std::function<void(int rank)>& body) {
  if (ranks < 1 || ranks > engines::most_ranks_of_host) {
    throw InvalidArgument("run_threads takes 1 to " + std::to_string(engines::most_ranks_of_host) + " ranks, not " + std::to_string(ranks),
                          {.operation = "run_threads"});
  }
  if (group::in_forked_child()) throw NotInitialized("this process was forked from one that is initialized", {.operation = "run_threads"});
  const auto memory = engines::host_memory_of_threads(ranks);
  // The states of all ranks exist before the first rank runs.
  const auto shared = std::make_shared<SharedByThreads>();
  std::vector<std::unique_ptr<context::State>> states;
  for (int r = 0; r < ranks; ++r) states.push_back(thread_state("world", r, ranks, memory, shared));
  std::vector<Ending> endings(static_cast<std::size_t>(ranks));
  {
    const Guarded guarded;
    run_all(ranks, [&](int r) { run_rank(r, *states[static_cast<std::size_t>(r)], body, endings[static_cast<std::size_t>(r)]); });
  }
  const Ending* first = nullptr;
  for (const Ending& ending : endings) {
    if (ending.error && (first == nullptr || (first->consequence && !ending.consequence))) first = &ending;
  }
  if (first != nullptr) std::rethrow_exception(first->error);
}

}  // namespace unisono
