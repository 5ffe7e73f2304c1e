#include "launch/hosts/node_states.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/log.h"
#include "launch/view/job_state.h"
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

}  // namespace unisono::launcher
