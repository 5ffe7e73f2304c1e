#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordination/coordination.h"
#include "schedule/algorithm.h"
#include "schedule/level_engines.h"
#include "schedule/schedule.h"
#include "unisono/call.h"

namespace unisono::schedule {

/// What the groups of a job have measured of the networks between their hosts, as this rank knows it. A later group on the same hosts and by the same
/// engine takes these figures instead of measuring again, as far as its rank 0 has them: that one's figures go to all ranks in either case.
class MeasuredNetworks {
 public:
  /// `hosts`: their numbers in the world, each once, in ascending order.
  std::optional<NetworkParameters> find(std::string_view engine, const std::vector<int>& hosts) const {
    const std::lock_guard lock(mutex_);
    const auto found = measured_.find({std::string(engine), hosts});
    return found == measured_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(std::string_view engine, const std::vector<int>& hosts, const NetworkParameters& network) {
    const std::lock_guard lock(mutex_);
    measured_.insert_or_assign({std::string(engine), hosts}, network);
  }

 private:
  mutable std::mutex mutex_;  // groups are used by several threads
  std::map<std::pair<std::string, std::vector<int>>, NetworkParameters> measured_;
};

/// A group's part in it.
struct SharedNetworks {
  std::shared_ptr<MeasuredNetworks> measured = nullptr;  ///< null: the group shares its figures with no other
  std::vector<int> hosts = {};                           ///< of the group, as above
  bool may_be_known = false;                             ///< the same on all ranks: the group looks for figures of earlier groups
};

/// Chooses how a group's calls are carried out: by the abilities of its engines, its topology, and the network between its hosts once that is known.
/// All ranks that have agreed on a call choose alike.
class ScheduleChoice {
 public:
  ScheduleChoice(const LevelEngines& engines, SharedNetworks networks);

  Schedule schedule_of(const CollectiveCall& call) const;
  /// Returns how the elements of a call travel with the comparison of the calls; nothing where they do not.
  std::optional<coordination::Carried::Pattern> pattern_of(const CollectiveCall& call) const;

  /// Returns true where the network is to be measured before a schedule is chosen. All ranks that have agreed on a call get the same answer.
  bool needs_calibration() const { return !network_ && !coordination_.is_one_host(); }
  /// Tells whether an earlier group may have measured; all ranks get the same answer.
  bool may_know_network() const { return networks_.measured && networks_.may_be_known; }
  std::optional<NetworkParameters> network_of_earlier_group() const;
  /// Takes over what was measured; `was_known`: by an earlier group.
  void set_network(const NetworkParameters& network, bool was_known);

  /// Returns in a line the parameters by which schedules are chosen now, and where they come from.
  std::string describe_network() const;
  /// Returns for each operation, as text, which algorithm carries it out from which size on (describe_table).
  std::vector<std::pair<std::string, std::string>> describe_choices() const;

 private:
  /// Returns true where the collectives are schedules over the engine's channels.
  bool is_composed() const;
  Problem problem_of(const CollectiveCall& call) const;
  Setting setting() const;

  const LevelEngines& engines_;
  coordination::Coordination& coordination_;
  SharedNetworks networks_;
  std::optional<NetworkParameters> network_;  // the parameters by which schedules are compared, once they are known
  std::string_view origin_of_network_;        // in words
};

}  // namespace unisono::schedule
