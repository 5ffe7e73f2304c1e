#include "launch/hosts/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "launch/view/job_view.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

constexpr const char* asked_key = "launchers/states/asked";
/// The others get so long to answer.
constexpr std::chrono::milliseconds time_of_answers{2000};
/// From the number of a question to the question itself.
constexpr std::chrono::milliseconds time_from_number{200};
/// How long a launcher waits for the next question before it looks whether it has missed some.
constexpr std::chrono::milliseconds time_between_counts{2000};

/// The time for which node 0 keeps its store for launchers that have not said that they are done.
constexpr auto farewell_time = std::chrono::seconds(5);

constexpr auto longest_pause_of_beats = std::chrono::milliseconds(1000);

std::string beat_key(int host) { return fmt::format("launchers/beat/{}", host); }

}  // namespace

NodeStates::NodeStates(std::shared_ptr<Store> store, int node, const HostRoster& hosts, std::function<JobSeen()> look)
    : store_(std::move(store)), node_(node), hosts_(hosts), look_(std::move(look)) {
  answering_ = base::Thread("the states of ranks for other hosts", [this] { answer(); });
}

std::string NodeStates::key(std::int64_t number, const std::string& what) const { return fmt::format("launchers/states/{}/{}", number, what); }

// A question is a key with the next number. It is erased when the one who asks has all answers, or waits no longer; so are the answers.
std::vector<JobSeen> NodeStates::of_others() {
  const std::int64_t number = store_->add(asked_key, 1);
  store_->set(key(number, "question"), "");
  const base::Deadline deadline(time_of_answers);
  std::vector<JobSeen> others;
  // The own answer is waited for as well: so no launcher that lives misses a question.
  const std::vector<JobHost> hosts = hosts_.all();
  for (const JobHost& host : hosts) {
    if (host.is_gone) continue;
    try {
      auto seen = decode_job(store_->get(key(number, std::to_string(host.number)), deadline.left()));
      if (seen && host.number != node_) others.push_back(std::move(*seen));
    } catch (const Timeout&) {  // NOLINT(bugprone-empty-catch): that launcher is gone, or hangs
    }
  }
  store_->erase(key(number, "question"));
  for (const JobHost& host : hosts) store_->erase(key(number, std::to_string(host.number)));
  return others;
}

void NodeStates::answer_once(std::int64_t number) {
  const std::string state = encode(look_());
  store_->set(key(number, std::to_string(node_)), state);
  // The one who asks may have given up meanwhile.
  if (!store_->try_get(key(number, "question"))) store_->erase(key(number, std::to_string(node_)));
}

/// Returns the number of the question to answer next: one that is open, or the one to come.
std::int64_t NodeStates::newest() {
  const auto asked = [this] {
    const std::string text = store_->try_get(asked_key).value_or("0");
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  };
  for (std::int64_t number = asked();; number = asked()) {
    if (number == 0) return 1;
    try {
      store_->get(key(number, "question"), time_from_number);  // it is written after it was counted
      return number;
    } catch (const Timeout&) {  // it is over
      if (asked() == number) return number + 1;
    }
  }
}

void NodeStates::answer() {
  try {
    std::int64_t answered = 0;
    for (std::int64_t next = newest();;) {
      try {
        store_->get(key(next, "question"), time_between_counts);
        answer_once(next);
        answered = next++;
      } catch (const Timeout&) {  // nobody has asked, or has given up before this launcher came to it
        next = std::max(newest(), answered + 1);
      }
    }
  } catch (const std::exception& error) {  // the store is lost, or the job is over, which the launchers' heartbeat sees as well
    base::log(base::LogLevel::debug, error.what());
  }
}

Nodes::Nodes(const JobOptions& options)
    : meeting_(options),
      reports_(meeting_),
      changes_(terms().is_open ? std::make_unique<OpenHosts>(meeting_, reports_) : std::make_unique<HostChanges>(meeting_, reports_)),
      heartbeat_("the heartbeat to other hosts", [this] { beat(); }) {}

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
    store.compare_set(goodbye_key(terms().node), "", leaving_mark);
    std::vector<std::string> goodbyes;
    for (const JobHost& host : all()) {
      if (meeting_.is_node_zero() && !host.is_gone) goodbyes.push_back(goodbye_key(host.number));
    }
    store.wait(goodbyes, farewell_time);
  } catch (const std::exception& error) {  // the job is done, so nobody needs to know
    base::log(base::LogLevel::debug, error.what());
  }
}

void Nodes::beat() {
  const auto pause = std::min<std::chrono::milliseconds>(meeting_.silence() / 4, longest_pause_of_beats);
  SilenceWatch others(meeting_.silence(), 2 * pause);
  try {
    for (std::int64_t number = 1; reports_.tell_within(pause); ++number) {
      meeting_.store()->set(beat_key(terms().node), std::to_string(number));
      if (decides()) look_for_the_silent(others);
      changes_->look();
    }
  } catch (const std::exception& error) {
    reports_.lose_store(error);
  }
}

/// Node 0 takes a launcher that has been silent for too long for lost. It hears of that if it goes on later.
void Nodes::look_for_the_silent(SilenceWatch& others) {
  others.look();
  store::Client& store = *meeting_.store();
  for (const JobHost& host : all()) {
    const auto said = [&] { return store.own_server()->peek(beat_key(host.number)).value_or(""); };
    if (host.number == 0 || host.is_gone || !others.is_silent(host.number, said())) continue;
    store.compare_set(goodbye_key(host.number), "", fmt::format("nothing came from it for {} ms", meeting_.silence().count()));
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
  return std::make_unique<NodeExchange>(meeting_.store(), AttemptKeys{attempt}.of(name), terms().node);
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
