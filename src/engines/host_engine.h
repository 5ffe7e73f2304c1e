#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/notifier.h"
#include "base/processors.h"
#include "engines/message.h"
#include "unisono/engine.h"
#include "unisono/store.h"

namespace unisono::engines {

/// `left` and above: the rank has left, in one of several ways (coordination/endings.h).
enum class Presence : std::uint32_t { absent = 0, present = 1, left = 2 };

/// A rank of a host as the others see it, in memory that all of them reach. All-zero is the initial state.
struct HostMember {
  base::Notifier notifier;
  std::atomic<std::uint32_t> presence{0};
  std::atomic<std::int32_t> pid{0};  // 0: a thread of this process
  base::Processors processors;       // written before `presence`
  std::uint64_t program = 0;         // see base::program_of(); written before `presence`
  std::array<char, 32> secret{};     // of rank 0, drawn at random: only processes of this user that map this memory know it
};

/// The failure that ended the group, as the notice that tells it to other hosts (coordination/failure_state.h). `state`: 0 none, 1 being written, 2
/// complete.
struct FailureRecord {
  std::atomic<std::uint32_t> state{0};
  std::uint32_t size = 0;
  char notice[2032]{};
};

/// The memory that the ranks of a host share, as far as it tells who they are and whether their group is over.
class HostMemory {
 public:
  int ranks() const { return static_cast<int>(processes_.size()); }
  HostMember& process(int rank) const { return *processes_[static_cast<std::size_t>(rank)]; }
  base::Notifier& notifier(int rank) const { return *notifiers_[static_cast<std::size_t>(rank)]; }
  FailureRecord& failure() const { return *failure_; }
  /// Sets the names of the ranks in errors, where the ranks of this host are only some of a group's.
  void name_ranks(std::vector<int> names) { names_ = std::move(names); }
  int name_of(int rank) const { return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)]; }

 protected:
  /// `notifiers`: those that the members have already, so that a rank of several groups sleeps in one place; empty: those of `members`.
  HostMemory(FailureRecord& failure, std::vector<HostMember*> members, std::vector<base::Notifier*> notifiers)
      : failure_(&failure), processes_(std::move(members)), notifiers_(std::move(notifiers)) {
    for (std::size_t r = notifiers_.size(); r < processes_.size(); ++r) notifiers_.push_back(&processes_[r]->notifier);
  }
  ~HostMemory() = default;

 private:
  FailureRecord* failure_;
  std::vector<HostMember*> processes_;
  std::vector<base::Notifier*> notifiers_;
  std::vector<int> names_;
};

/// The engine of the ranks of a host: they compare their calls by it, whichever engine carries these out, and send messages.
class HostEngine : public Engine {
 public:
  /// Compares the next call of all ranks; nothing is moved. Returns true where all ranks have come with the flag set; those that come by
  /// `start_agreement` have it unset.
  virtual bool agree(const CollectiveCall& call, Waiter& waiter, bool flag) = 0;
  virtual std::unique_ptr<Task> start_agreement(const CollectiveCall& call) = 0;
  virtual MessageCarrier& messages() = 0;
  /// Returns true while the ranks are known to differ in a call, and it is not decided yet who is to blame. Any thread may ask.
  virtual bool is_disputed() const = 0;

  const std::shared_ptr<HostMemory>& memory() const { return memory_; }
  /// Returns true where there are more ranks than processors.
  bool is_crowded() const { return is_crowded_; }
  /// Returns the ranks of this host as they wait for each other. Any thread may use it.
  base::Neighbours& neighbours() { return neighbours_; }

 protected:
  HostEngine(std::shared_ptr<HostMemory> memory, int rank, bool is_crowded)
      : memory_(std::move(memory)), neighbours_(memory_->notifier(rank), notifiers_but(rank, *memory_)), is_crowded_(is_crowded) {}

 private:
  static std::vector<const base::Notifier*> notifiers_but(int rank, const HostMemory& memory) {
    std::vector<const base::Notifier*> others;
    for (int r = 0; r < memory.ranks(); ++r)
      if (r != rank) others.push_back(&memory.notifier(r));
    return others;
  }

  std::shared_ptr<HostMemory> memory_;
  base::Neighbours neighbours_;
  bool is_crowded_;
};

/// The ranks of a host that such an engine serves at most.
inline constexpr int most_ranks_of_host = 1024;

/// Shares memory among the processes of a host, which meet in the store. Collective. `names`: of the ranks in errors, where these differ.
std::shared_ptr<HostMemory> share_host_memory(Store& store, int rank, int ranks, const std::vector<int>& names, const base::Deadline& deadline,
                                              std::vector<base::Notifier*> notifiers, std::shared_ptr<void> keep_alive);
/// Makes memory of ranks that are threads of this process.
std::shared_ptr<HostMemory> host_memory_of_threads(int ranks, std::vector<base::Notifier*> notifiers = {}, std::shared_ptr<void> keep_alive = {});
/// Makes the engine of a rank on memory that one of these has made. `group_name`: for the log; empty: nothing is logged.
std::shared_ptr<HostEngine> make_host_engine(const std::shared_ptr<HostMemory>& memory, int rank, bool is_crowded, std::string_view group_name = {});

}  // namespace unisono::engines
