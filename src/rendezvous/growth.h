#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/environment.h"
#include "rendezvous/rendezvous.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

// How processes come into a job that runs already. The launcher starts a process in the place of one that was lost, and gives it a name that no other
// process of the job has had: "2.1" is the first that replaced rank 2 of the start, whose own name was "2".
//
//   newcomer            writes a ticket, and waits to be called
//   lowest member       calls all that wait, once the members have agreed to grow: this makes a generation, whose number and members are in the store
//   all its members     form the world of that generation under keys of its own, with secrets of its own
//   the last to be done writes "formed"; one that cannot go on writes "abandoned". The first decision counts, and all go by it
//
// A newcomer of a generation that was abandoned waits for the next call. A process that is in no list has no way into a generation: the keys, and the
// secrets that lie under them, are those of its members.

/// The members of a world that is to be formed.
struct GenerationPlan {
  int number = 1;                       ///< 1: the world of the start, which is formed in another way
  int survivors = 0;                    ///< so many of the lowest ranks are members of the world before
  std::chrono::milliseconds timeout{};  ///< of forming it
  std::vector<std::string> names;       ///< by rank: the names that the launcher gave the processes
};

/// A process that waits to be taken in.
struct Newcomer {
  std::int64_t ticket = 0;
  std::string name;
};

/// The outcome of a generation.
struct Decision {
  bool formed = false;
  int culprit = -1;  ///< abandoned: the rank in it that could not go on
  std::string text = {};
  /// Reads what the store holds. Empty text stands for no decision.
  static std::optional<Decision> parse(std::string_view text);
};

/// Returns the number of the place in the job that a process with this name has: the rank at the start.
int place_of(std::string_view name);

/// The part of a job's store in which it grows. Every function makes few requests.
class GrowthKeys {
 public:
  explicit GrowthKeys(Store& store) : store_(store) {}

  // ---- the newcomer -------------------------------------------------------------------------------------------
  std::int64_t ask(std::string_view name);
  /// Waits for a call, the first one being number 0. Throws Timeout for a process that has come too late to an earlier call.
  GenerationPlan await_call(std::int64_t ticket, int call);

  // ---- the lowest member --------------------------------------------------------------------------------------
  /// Returns the processes that wait, in the order of their tickets. `done`: tickets below it are known to need nothing any more; it is raised.
  std::vector<Newcomer> waiting(std::int64_t& done);
  /// Makes a generation of the members and of those that wait, and calls the latter.
  GenerationPlan call(std::span<const std::string> members, std::span<const Newcomer> newcomers, std::chrono::milliseconds timeout);

  // ---- all members of a generation ----------------------------------------------------------------------------
  GenerationPlan read(int number);
  /// Returns the prefix of the generation's keys.
  static std::string prefix(int number);
  /// Throws PeerFailed where the generation was abandoned, or one of its processes has ended.
  void look(const GenerationPlan& generation, int rank);
  /// Says that this member has the world. The last one decides that all have it.
  void ready(const GenerationPlan& generation);
  Decision await_decision(const GenerationPlan& generation, std::chrono::milliseconds timeout);
  /// Says that a member cannot go on. Returns the decision that counts, which may be another one.
  Decision abandon(const GenerationPlan& generation, int culprit, std::string_view why);

  /// Tells the launcher that the members go on without this process.
  void note_lost(std::string_view name);
  bool is_lost(std::string_view name);

 private:
  /// Tells whether a process that was called to generation `last` may be called again. Where it was to blame, refuses it for good and has the
  /// launcher end it.
  bool may_be_called_again(const Newcomer& newcomer, int call, int last);

  Store& store_;
};

/// Returns, for a process that the launcher has started while the job ran, what is known of the job: an identity without rank, size and members.
/// Nothing for any other process, and for one that says itself where it meets the others.
std::optional<JobIdentity> facts_of_newcomer(const JobRequest& request, const base::Environment& environment);

/// Meets the other members of a generation, as that rank. `facts`: of this process, without members. `job`: the job's store. `look` throws where it
/// is known that a member will not come. Throws what `meet` throws.
JobIdentity meet_generation(const JobIdentity& facts, const std::shared_ptr<Store>& job, const GenerationPlan& generation, int rank,
                            const base::Deadline& deadline, const std::function<void()>& look, const base::Environment& environment);

/// Returns the facts of a process that has met the others, for the next generation.
JobIdentity facts_of(const JobIdentity& identity);

}  // namespace unisono::rendezvous
