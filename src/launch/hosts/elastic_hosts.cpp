#include "launch/hosts/elastic_hosts.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>

#include <fmt/format.h>

#include "base/log.h"
#include "launch/process/program.h"
#include "store/requests.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// The pause between two looks at what the others have said. Nobody waits for it but processes that were left out, and restarts.
constexpr std::chrono::milliseconds time_between_looks{100};

int number_in(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string ElasticKeys::tally(int host) const { return fmt::format("launchers/attempt/{}/tally/{}", attempt, host); }
std::string ElasticKeys::end(const std::string& name) const { return fmt::format("attempt/{}/unisono/exit/{}", attempt, name); }
std::string ElasticKeys::first_end() const { return fmt::format("launchers/attempt/{}/first-end", attempt); }
std::string ElasticKeys::ended() const { return fmt::format("launchers/attempt/{}/ended", attempt); }
std::string ElasticKeys::lost(const std::string& name) const { return fmt::format("attempt/{}/unisono/lost/{}", attempt, name); }

ElasticHosts::ElasticHosts(Parts parts) : parts_(std::move(parts)), notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!notifier_) throw StartFailed("cannot make an event descriptor: " + error_text(errno), 1);
  for (const JobHost& host : parts_.hosts()) {
    if (host.number != parts_.host && !host.is_late) news_.others[host.number] = {.members = host.ranks};
  }
  thread_ = base::Thread("the ranks of other hosts", [this] { speak_and_listen(); });
}

ElasticHosts::~ElasticHosts() { stop(); }

void ElasticHosts::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& granted : news_.granted) sayings_.given_back += granted.second > 0 ? 1 : 0;  // which nobody will use
    news_.granted.clear();
    sayings_.asked.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void ElasticHosts::tell(const HostTally& tally) {
  {
    const std::lock_guard lock(mutex_);
    if (own_ == tally) return;
    own_ = tally;
    sayings_.tally = tally;
  }
  changed_.notify_all();
}

void ElasticHosts::tell_end(const std::string& name, const std::string& how) {
  {
    const std::lock_guard lock(mutex_);
    sayings_.ends.emplace_back(name, how);
  }
  changed_.notify_all();
}

void ElasticHosts::ask_restart(int rank) {
  {
    const std::lock_guard lock(mutex_);
    sayings_.asked.push_back(rank);
  }
  changed_.notify_all();
}

void ElasticHosts::give_back_restart() {
  {
    const std::lock_guard lock(mutex_);
    ++sayings_.given_back;
  }
  changed_.notify_all();
}

ElasticHosts::News ElasticHosts::take() {
  eventfd_t notified = 0;
  ::eventfd_read(notifier_.get(), &notified);
  const std::lock_guard lock(mutex_);
  News taken{.restarts = news_.restarts, .others = news_.others};
  std::swap(taken.lost, news_.lost);
  std::swap(taken.first_end, news_.first_end);
  std::swap(taken.granted, news_.granted);
  std::swap(taken.ended, news_.ended);
  return taken;
}

void ElasticHosts::wait_for(PollSet& set) {
  set.add(notifier_.get(), POLLIN, [](short) {});  // which `take` reads
}

void ElasticHosts::speak_and_listen() {
  try {
    for (bool goes_on = true; goes_on;) {
      Sayings sayings;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, time_between_looks, [this] { return stop_ || !sayings_.is_empty(); });
        std::swap(sayings, sayings_);
        goes_on = !stop_;
      }
      say(sayings);
      if (goes_on) hear();
    }
  } catch (const std::exception& error) {
    base::log(base::LogLevel::debug, error.what());
  }
}

void ElasticHosts::say(const Sayings& sayings) {
  Store& store = *parts_.store;
  for (const auto& [name, how] : sayings.ends) {
    store.set(parts_.keys.end(name), how);
    if (is_of_the_start(name)) store.compare_set(parts_.keys.first_end(), "", name + " " + how);
    const auto number = static_cast<int>(store.add(parts_.keys.ended(), 1)) - 1;
    const std::lock_guard lock(mutex_);
    news_.ended.emplace_back(name, number);
  }
  if (sayings.tally) store.set(parts_.keys.tally(parts_.host), encode_tally(*sayings.tally));
  if (sayings.given_back > 0) store.add(ElasticKeys::restarts, -sayings.given_back);
  for (const int rank : sayings.asked) grant(rank);
}

void ElasticHosts::grant(int rank) {
  auto number = parts_.store->add(ElasticKeys::restarts, 1);
  if (number > parts_.max_restarts) {
    parts_.store->add(ElasticKeys::restarts, -1);
    number = 0;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) news_.granted.emplace_back(rank, static_cast<int>(number));
    if (!stop_ || number == 0) return;
  }
  parts_.store->add(ElasticKeys::restarts, -1);  // nobody takes it any more
}

void ElasticHosts::hear() {
  std::vector<JobHost> others = parts_.hosts();
  std::erase_if(others, [this](const JobHost& host) { return host.number == parts_.host; });
  std::vector<std::string> keys{ElasticKeys::restarts, parts_.keys.first_end()}, names;
  for (const JobHost& host : others) keys.push_back(parts_.keys.tally(host.number));
  {
    const std::lock_guard lock(mutex_);
    names = own_.names;
  }
  for (const std::string& name : names) keys.push_back(parts_.keys.lost(name));
  const auto values = store::try_get_all(*parts_.store, keys);
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    news_.restarts = number_in(values[0].value_or("0"));
    if (values[1] && !std::exchange(has_heard_end_, true)) news_.first_end = values[1];
    for (std::size_t i = 0; i < others.size(); ++i) {
      const auto& said = values[2 + i];
      HostTally tally{.members = others[i].is_late ? 0 : others[i].ranks};
      if (said) tally = decode_tally(*said);
      if (others[i].is_gone) tally.members = 0;  // a launcher that was taken for lost may have said more since
      is_new = is_new || !news_.others.contains(others[i].number) || news_.others[others[i].number] != tally;
      news_.others[others[i].number] = std::move(tally);
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!values[2 + others.size() + i] || std::ranges::find(heard_lost_, names[i]) != heard_lost_.end()) continue;
      heard_lost_.push_back(names[i]);
      news_.lost.push_back(names[i]);
    }
    is_new = is_new || news_.first_end || !news_.lost.empty() || !news_.granted.empty();
  }
  if (is_new) ::eventfd_write(notifier_.get(), 1);
}

}  // namespace unisono::launcher
