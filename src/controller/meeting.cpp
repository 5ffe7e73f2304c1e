#include "controller/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/error_place.h"
#include "context/world.h"
#include "recorder/recorder.h"
#include "unisono/detail/bytes.h"
#include "unisono/detail/request.h"
#include "unisono/elastic.h"
#include "unisono/error.h"

namespace unisono::controller {
namespace {

using namespace std::chrono_literals;

/// "step has the signature (int32) -> nothing in the controller, and (int64) -> nothing on worker 2"
std::string difference(const Known& function, bool is_of_controller, const Member& other, const std::string& controller, const std::string& worker) {
  const auto same_name = std::ranges::find(other.functions, function.name, &Known::name);
  const std::string &here = is_of_controller ? controller : worker, &there = is_of_controller ? worker : controller;
  if (same_name == other.functions.end())
    return fmt::format("the function {}{} is registered {}, and not {}", function.name, function.signature, here, there);
  return fmt::format("the function {} is {} {}, and {} {}", function.name, function.signature, here, same_name->signature, there);
}

/// All members judge the same, so all throw the same.
void compare(const std::vector<Member>& members, int rank) {
  const Member& controller = members.front();
  for (std::size_t i = 1; i < members.size(); ++i) {
    const Member& worker = members[i];
    if (worker.functions == controller.functions) continue;
    const auto missing = [](const Member& from, const Member& in) {
      return std::ranges::find_if(from.functions, [&](const Known& function) { return !std::ranges::binary_search(in.functions, function); });
    };
    const std::string name = fmt::format("on worker {} ({})", worker.rank - 1, worker.host);
    const auto only_controller = missing(controller, worker);
    const bool is_controllers = only_controller != controller.functions.end();
    const Known& function = is_controllers ? *only_controller : *missing(worker, controller);
    throw Mismatch(difference(function, is_controllers, is_controllers ? worker : controller, "in the controller", name),
                   {.operation = "Controller",
                    .group = "world",
                    .rank = rank,
                    .culprit = worker.rank,
                    .host = worker.host,
                    .hint = "all processes of the job register the same functions, with the same types: run the same program everywhere"});
  }
}

Roster roster_of(const std::vector<Member>& members, int rank) {
  const Introduction& said = members.front().introduction;
  const bool is_first = said.workers == 0;
  const int workers = is_first ? static_cast<int>(members.size()) - 1 : said.workers;
  Roster roster{.epoch = said.epoch + 1, .own = -1, .rank_of = std::vector<int>(static_cast<std::size_t>(workers), -1), .hosts = {}};
  roster.hosts.resize(roster.rank_of.size());
  auto next_lost = said.lost.begin();
  for (std::size_t i = 1; i < members.size(); ++i) {
    const Member& member = members[i];
    int number = static_cast<int>(i) - 1;
    if (!is_first) {
      if (!member.introduction.worker && next_lost == said.lost.end()) throw ProtocolError("more processes have come than workers were lost");
      number = member.introduction.worker ? *member.introduction.worker : *next_lost++;
    }
    if (number < 0 || number >= workers) throw ProtocolError(fmt::format("rank {} says that it is worker {}", member.rank, number));
    roster.rank_of[static_cast<std::size_t>(number)] = member.rank;
    roster.hosts[static_cast<std::size_t>(number)] = member.host;
    if (member.rank == rank) roster.own = number;
  }
  return roster;
}

std::array<std::int64_t, 1> largest(std::int64_t own, const ProcessGroup& group) {
  std::array<std::int64_t, 1> number{own};
  const TensorView view(number.data(), DType::int64, number.size());
  detail::run({.operation = Operation::all_reduce, .in = view, .out = view, .op = ReduceOp::max, .label = recorder::controller_label}, group,
              {.timeout = base::longest_timeout, .where = {}});
  return number;
}

/// Returns the group of the members that live.
ProcessGroup without_the_lost() {
  ProcessGroup group(context::current().whole);
  try {
    largest(0, group);
    return group;  // nobody is lost
  } catch (const PeerFailed&) {
    if (auto shrunk = shrink_group(group)) return *std::move(shrunk);
    throw;
  }
}

}  // namespace

std::vector<int> Roster::living() const {
  std::vector<int> all;
  for (int i = 0; i < size(); ++i) {
    if (rank_of[static_cast<std::size_t>(i)] >= 0) all.push_back(i);
  }
  return all;
}

Roster meet(context::State& whole, const Introduction& own, std::source_location where) {
  const ProcessGroup group(whole.whole);
  const std::string mine = encode(own);
  const auto all = detail::all_gather_bytes(std::as_bytes(std::span(mine)), recorder::controller_label, group, {.where = where});
  const std::vector<int> ranks = group.global_ranks();
  std::vector<Member> members;
  for (std::size_t r = 0; r < all.size(); ++r)
    members.push_back(decode_member(ranks[r], {reinterpret_cast<const char*>(all[r].data()), all[r].size()}));
  compare(members, whole.rank);
  return roster_of(members, whole.rank);
}

std::vector<std::unique_ptr<FrameLink>> link_to_workers(const Roster& roster) {
  std::vector<std::unique_ptr<FrameLink>> links;
  for (const int rank : roster.rank_of) links.push_back(rank < 0 ? nullptr : std::make_unique<FrameLink>(*new_group({0, rank}, {.where = {}})));
  return links;
}

std::unique_ptr<FrameLink> link_to_controller(context::State& whole) {
  return std::make_unique<FrameLink>(*new_group({0, whole.rank}, {.where = {}}));
}

std::unique_ptr<context::State> form_workers(context::State& whole, const Roster& roster, const ControllerOptions& options) {
  const std::vector<int> living = roster.living();
  const auto own = std::ranges::find(living, roster.own) - living.begin();
  return context::form_part(whole, fmt::format("controller/{}", roster.epoch), static_cast<int>(own), static_cast<int>(living.size()),
                            {.backend = options.backend, .timeout = options.timeout});
}

bool take_newcomers_in(std::chrono::milliseconds at_most) {
  constexpr auto pause = 50ms;  // between two looks of the controller into the job's store, which wakes nobody
  const ProcessGroup group = without_the_lost();
  const base::Deadline deadline(at_most);
  const bool decides = group.rank() == 0;
  for (;;) {
    if (newcomers_waiting(group)) {
      grow_group(group);
      return true;
    }
    if (largest(decides && deadline.passed() ? 1 : 0, group)[0] != 0) return false;
    if (decides) std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(pause, deadline.left()));
  }
}

}  // namespace unisono::controller
