#include "launch/hosts/nodes.h"

#include <chrono>
#include <exception>

#include <fmt/format.h>

#include "base/log.h"

namespace unisono::launcher {
namespace {

/// The time for which node 0 keeps its store for launchers that have not said that they are done.
constexpr auto farewell_time = std::chrono::seconds(5);

std::unique_ptr<HostChanges> changes_of(HostMeeting& meeting, AttemptReports& reports) {
  if (meeting.terms().is_open) return std::make_unique<OpenHosts>(meeting, reports);
  return std::make_unique<FixedHosts>(meeting, reports);
}

}  // namespace

Nodes::Nodes(const JobOptions& options)
    : meeting_(options), reports_(meeting_), changes_(changes_of(meeting_, reports_)), heartbeat_(meeting_, reports_, *changes_) {}

Nodes::~Nodes() {
  say_goodbye();
  reports_.stop();
  meeting_.store()->hang_up();
  heartbeat_.join();
  reports_.join();
}

void Nodes::say_goodbye() {
  if (reports_.is_store_lost()) return;
  store::Client& store = *meeting_.store();
  try {
    store.leave_will({});
    store.compare_set(launcher_key("bye", terms().node), "", leaving_mark);
    std::vector<std::string> goodbyes;
    for (const JobHost& host : all()) {
      if (meeting_.is_node_zero() && !host.is_gone) goodbyes.push_back(launcher_key("bye", host.number));
    }
    store.wait(goodbyes, farewell_time);
  } catch (const std::exception& error) {  // the job is done, so nobody needs to know
    base::log(base::LogLevel::debug, error.what());
  }
}

std::string Nodes::name_of(int node) const {
  const auto host = meeting_.roster().find(node);
  return host ? host->where : fmt::format("host {}", node);
}

std::unique_ptr<ElasticPeers> Nodes::make_elastic(int attempt, int /*restarts_left*/) const {
  return std::make_unique<ElasticHosts>(ElasticHosts::Parts{
      .store = meeting_.store(), .keys = {attempt}, .host = terms().node, .max_restarts = terms().max_restarts - attempt, .hosts = [this] {
        return all();
      }});
}

std::unique_ptr<NodeExchange> Nodes::make_exchange(std::string_view name, int attempt) const {
  return std::make_unique<NodeExchange>(meeting_.store(), attempt_key(attempt, name), terms().node);
}

void Nodes::answer_for_states(std::function<JobSeen()> look) {
  states_ = std::make_unique<NodeStates>(meeting_.store(), terms().node, meeting_.roster(), std::move(look));
}

void Nodes::wait_for(PollSet& set, std::function<void()> ready) {
  set.add(fd(), POLLIN, [ready = std::move(ready)](short) { ready(); });
}

void Nodes::give_up_restart(int attempt, int signal) noexcept {
  try {
    reports_.give_up_restart(attempt, signal);
    if (decides()) end({});                // which writes the ends of all, for whom the others wait
  } catch (const std::exception& error) {  // then the others see that we are gone
    base::log(base::LogLevel::debug, error.what());
  }
}

void Nodes::end(const std::vector<RankEnd>& ends) {
  reports_.end(ends, [this](const std::string& own_ends) { return changes_->at_the_end(own_ends); });
}

}  // namespace unisono::launcher
