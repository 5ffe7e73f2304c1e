#include "launch/hosts/elastic_hosts.h"

#include <algorithm>
#include <charconv>
#include <exception>

#include "base/log.h"
#include "store/requests.h"
#include "launch/process/program.h"
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

ElasticHosts::ElasticHosts(Parts parts) : ElasticPeers(parts.max_restarts), parts_(std::move(parts)) {
  for (const JobHost& host : parts_.hosts()) {
    if (host.number != parts_.host && !host.is_late) news_.others[host.number] = {.members = host.ranks};
  }
  thread_ = base::Thread("the ranks of other hosts", [this] { exchange(); });
}

template <class Change>
void ElasticHosts::add(Change change) {
  {
    const std::lock_guard lock(mutex_);
    change();
  }
  changed_.notify_all();
}

void ElasticHosts::finish() {
  add([this] {
    stop_ = true;
    for (const auto& granted : news_.granted) outgoing_.given_back += granted.second > 0 ? 1 : 0;  // which nobody will use
    news_.granted.clear();
    outgoing_.asked.clear();
  });
  thread_.join();
}

void ElasticHosts::tell(const HostTally& tally) {
  add([&] {
    if (own_ != tally) outgoing_.tally = own_ = tally;
  });
}

void ElasticHosts::tell_end(const std::string& name, const std::string& how) {
  add([&] { outgoing_.ends.emplace_back(name, how); });
}

void ElasticHosts::ask_restart(int rank) {
  add([&] { outgoing_.asked.push_back(rank); });
}

void ElasticHosts::give_back_restart() {
  add([&] { ++outgoing_.given_back; });
}

ElasticHosts::News ElasticHosts::take() {
  notifier_.clear();
  const std::lock_guard lock(mutex_);
  News taken{.restarts = news_.restarts, .others = news_.others};
  std::swap(taken.lost, news_.lost);
  std::swap(taken.first_end, news_.first_end);
  std::swap(taken.granted, news_.granted);
  std::swap(taken.ended, news_.ended);
  return taken;
}

void ElasticHosts::wait_for(PollSet& set) {
  set.add(notifier_.fd(), POLLIN, [](short) {});  // which `take` reads
}

void ElasticHosts::exchange() {
  try {
    for (bool goes_on = true; goes_on;) {
      Outgoing outgoing;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, time_between_looks, [this] { return stop_ || !outgoing_.is_empty(); });
        std::swap(outgoing, outgoing_);
        goes_on = !stop_;
      }
      write(outgoing);
      if (goes_on) read_others();
    }
  } catch (const std::exception& error) {
    base::log(base::LogLevel::debug, error.what());
  }
}

void ElasticHosts::write(const Outgoing& outgoing) {
  Store& store = *parts_.store;
  for (const auto& [name, how] : outgoing.ends) {
    store.set(parts_.keys.end(name), how);
    if (is_of_the_start(name)) store.compare_set(parts_.keys.first_end(), "", name + " " + how);
    const auto number = static_cast<int>(store.add(parts_.keys.ended(), 1)) - 1;
    const std::lock_guard lock(mutex_);
    news_.ended.emplace_back(name, number);
  }
  if (outgoing.tally) store.set(parts_.keys.tally(parts_.host), encode_tally(*outgoing.tally));
  if (outgoing.given_back > 0) store.add(AttemptKeys::restarts, -outgoing.given_back);
  for (const int rank : outgoing.asked) grant(rank);
}

void ElasticHosts::grant(int rank) {
  auto number = parts_.store->add(AttemptKeys::restarts, 1);
  if (number > most_restarts()) {
    parts_.store->add(AttemptKeys::restarts, -1);
    number = 0;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) news_.granted.emplace_back(rank, static_cast<int>(number));
    if (!stop_ || number == 0) return;
  }
  parts_.store->add(AttemptKeys::restarts, -1);  // nobody takes it any more
}

void ElasticHosts::read_others() {
  std::vector<JobHost> others = parts_.hosts();
  std::erase_if(others, [this](const JobHost& host) { return host.number == parts_.host; });
  std::vector<std::string> keys{AttemptKeys::restarts, parts_.keys.first_end()}, names;
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
    if (values[1] && !std::exchange(knows_first_end_, true)) news_.first_end = values[1];
    for (std::size_t i = 0; i < others.size(); ++i) {
      const auto& said = values[2 + i];
      HostTally tally{.members = others[i].is_late ? 0 : others[i].ranks};
      if (said) tally = decode_tally(*said);
      if (others[i].is_gone) tally.members = 0;  // a launcher that was taken for lost may have said more since
      is_new = is_new || !news_.others.contains(others[i].number) || news_.others[others[i].number] != tally;
      news_.others[others[i].number] = std::move(tally);
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!values[2 + others.size() + i] || std::ranges::find(known_lost_, names[i]) != known_lost_.end()) continue;
      known_lost_.push_back(names[i]);
      news_.lost.push_back(names[i]);
    }
    is_new = is_new || news_.first_end || !news_.lost.empty() || !news_.granted.empty();
  }
  if (is_new) notifier_.notify();
}

}  // namespace unisono::launcher
