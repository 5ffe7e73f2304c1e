// The agreement of shrink_group: who has survived.
#include "context/shrinking.h"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.h"
#include "rendezvous/growth.h"
#include "store/requests.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_shrink = std::chrono::milliseconds(30s);
constexpr auto time_between_rounds = 20ms;

/// Each survivor writes that it is there. The lowest one that lives waits for the others and writes the list of those that came; the first list
/// written counts. A death meanwhile is noticed as in any wait.
class Shrinking {
 public:
  Shrinking(State& state, group::Group& old)
      : old_(old),
        number_(state.groups.count("shrink " + old.name())),
        store_(fmt::format("shrink/{}/{}#{}/", fmt::join(old.facts().global_ranks(), "."), old.name(), number_), state.groups.store()),
        deadline_(std::min(old.facts().timeout(), longest_shrink)) {}

  std::vector<int> agree() {
    const store::RequestLimit limit(2 * deadline_.timeout());
    store_.set("here/" + std::to_string(old_.rank()), "1");
    for (;;) {
      if (const auto decided = store_.try_get("members")) return parse(*decided);
      const std::vector<int> gone = old_.coordination().detector().gone();
      std::vector<int> present;
      bool complete = true;
      for (int r = 0; r < old_.size(); ++r) {
        if (std::binary_search(gone.begin(), gone.end(), r)) continue;
        if (store_.try_get("here/" + std::to_string(r))) present.push_back(r);
        else complete = false;
      }
      // Two ranks may both write a list, if one takes the other for dead. The store keeps the first list.
      if (!present.empty() && present.front() == old_.rank() && (complete || deadline_.passed())) {
        return parse(store_.compare_set("members", "", fmt::format("{}", fmt::join(present, " "))));
      }
      if (deadline_.passed() && deadline_.elapsed() > 2 * deadline_.timeout()) {
        throw Timeout("the survivors did not agree on who they are", {.operation = "shrink_group", .group = old_.name(), .rank = old_.rank()});
      }
      ::poll(nullptr, 0, static_cast<int>(time_between_rounds.count()));  // no event tells of a death, so the loop looks again after a pause
    }
  }

  std::string key() const { return "shrunk." + old_.name() + "." + std::to_string(number_ + 1); }

 private:
  static std::vector<int> parse(const std::string& text) {
    std::vector<int> ranks;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(' ', begin), text.size());
      ranks.push_back(std::stoi(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return ranks;
  }

  group::Group& old_;
  const int number_;  // of the agreements of groups of this name, from 0
  PrefixStore store_;
  base::Deadline deadline_;
};

/// Tells whether the members that are left of the job have gone on without this process.
bool is_lost(const State& state) {
  return state.job.can_grow() && rendezvous::GrowthKeys(*state.job.facts.growth.store).is_lost(state.job.name_of(state.rank));
}

}  // namespace

std::optional<Survivors> agree_on_survivors(State& state, group::Group& old) {
  if (old.size() == 1) return Survivors{{old.rank()}, "alone"};
  // A process that was stopped may come after the others have erased the list without it (growth.cpp), also in the midst of this: it would then find
  // itself alone.
  if (is_lost(state)) return std::nullopt;
  Shrinking shrinking(state, old);
  std::vector<int> ranks = shrinking.agree();
  if (std::ranges::find(ranks, old.rank()) == ranks.end() || is_lost(state)) return std::nullopt;
  return Survivors{std::move(ranks), shrinking.key()};
}

void tell_of_the_lost(const State& state, const group::Group& before, const std::vector<int>& members) {
  if (!state.job.can_grow()) return;
  rendezvous::GrowthKeys keys(*state.job.facts.growth.store);
  for (const int r : before.facts().global_ranks()) {
    if (std::ranges::find(members, r) == members.end()) keys.note_lost(state.job.name_of(r));
  }
}

}  // namespace unisono::context
