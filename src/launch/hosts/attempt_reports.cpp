#include "launch/hosts/attempt_reports.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "base/log.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/hosts/node_exchange.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// Added to the order of deaths on hosts other than that of the first failure; larger than the number of ranks on a host.
constexpr int later = 1 << 16;

}  // namespace

void AttemptReports::begin(int attempt) {
  join();
  const JobTerms& terms = meeting_.terms();
  const std::lock_guard lock(mutex_);
  attempt_ = attempt;
  trouble_.reset();
  trouble_taken_ = complete_ = false;
  ends_.clear();
  to_tell_.clear();
  const AttemptKeys keys{attempt};
  constexpr const char* why = "the connection to it ended";
  const Trouble lost{.kind = Trouble::Kind::lost, .node = terms.node, .rank = terms.first_rank, .how = why};
  try {
    std::vector<std::pair<std::string, std::string>> will{{keys.ends(terms.node), ""}, {goodbye_key(terms.node), why}};
    if (!terms.is_open) will.emplace_back(keys.trouble(), lost.text());
    meeting_.store()->leave_will(will);
  } catch (const std::exception& error) {
    store_lost_ = error.what();
  }
  listening_ = base::Thread("the news of other hosts", [this, attempt] { listen(attempt); });
}

void AttemptReports::give_up_restart(int attempt, int signal) {
  const int node = meeting_.terms().node;
  {
    const std::lock_guard lock(mutex_);
    attempt_ = attempt;
  }
  const Trouble trouble{.kind = Trouble::Kind::interrupt, .node = node, .signal = signal};
  meeting_.store()->compare_set(AttemptKeys{attempt}.trouble(), "", trouble.text());
  meeting_.store()->set(AttemptKeys{attempt}.ends(node), "");
}

void AttemptReports::tell(Trouble trouble) {
  trouble.node = meeting_.terms().node;
  {
    const std::lock_guard lock(mutex_);
    to_tell_.push_back(std::move(trouble));
  }
  changed_.notify_all();
}

std::optional<Trouble> AttemptReports::take_trouble() {
  notifier_.clear();
  const std::lock_guard lock(mutex_);
  if (!trouble_ || trouble_taken_) return std::nullopt;
  trouble_taken_ = true;
  const bool is_of_all = trouble_->kind == Trouble::Kind::lost || trouble_->kind == Trouble::Kind::displaced;
  return trouble_->node == meeting_.terms().node && !is_of_all ? std::nullopt : trouble_;
}

void AttemptReports::end(const std::vector<RankEnd>& ends, std::function<std::vector<int>(const std::string&)> hosts) {
  gathering_ = base::Thread("the ends of other hosts", [this, text = encode_ends(ends), hosts = std::move(hosts)] { gather(text, hosts); });
}

void AttemptReports::write_told(const std::string& place, const std::vector<Trouble>& telling) {
  for (const Trouble& trouble : telling) meeting_.store()->compare_set(place, "", trouble.text());
}

bool AttemptReports::tell_within(std::chrono::milliseconds pause) {
  std::vector<Trouble> telling;
  std::string place;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [&] { return stop_ || (attempt_ && !to_tell_.empty()); });
    if (stop_) return false;
    if (attempt_) {
      telling.swap(to_tell_);
      place = AttemptKeys{*attempt_}.trouble();
    }
  }
  write_told(place, telling);
  return true;
}

void AttemptReports::note(Trouble trouble) {
  const std::lock_guard lock(mutex_);
  if (!trouble_) trouble_ = std::move(trouble);
}

void AttemptReports::lose_store(const std::exception& error) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    if (!store_lost_) store_lost_ = error.what();
    if (!trouble_) trouble_ = Trouble{.kind = Trouble::Kind::lost, .node = 0, .rank = 0, .how = *store_lost_};
    complete_ = true;
  }
  notify();
}

void AttemptReports::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void AttemptReports::join() {
  for (base::Thread* thread : {&listening_, &gathering_}) thread->join();
}

/// Waits until a launcher reports trouble in this attempt.
void AttemptReports::listen(int attempt) {
  const auto goes_on = [this, attempt] {
    const std::lock_guard lock(mutex_);
    return !stop_ && attempt_ == attempt && !complete_;
  };
  try {
    const auto text = await_value(*meeting_.store(), AttemptKeys{attempt}.trouble(), base::Deadline(base::longest_timeout), goes_on);
    if (!text) return;
    auto trouble = Trouble::parse(*text);
    if (!trouble) throw ProtocolError("a launcher sent malformed data about a failure");
    note(std::move(*trouble));
    notify();
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

/// Waits until all nodes have reported how their ranks ended.
void AttemptReports::gather(const std::string& own_ends, const std::function<std::vector<int>(const std::string&)>& hosts) {
  try {
    std::vector<Trouble> telling;
    std::unique_lock lock(mutex_);
    const std::string trouble_place = AttemptKeys{*attempt_}.trouble();
    TextsOfNodes texts{AttemptKeys{*attempt_}.of("ends"), {}};
    telling.swap(to_tell_);
    lock.unlock();
    write_told(trouble_place, telling);  // before any wait for the others: they may go on until they hear of it
    texts.nodes = hosts(own_ends);
    if (texts.nodes.empty()) return;
    store::Client& store = *meeting_.store();
    // Ranks run for as long as they like.
    const auto of_nodes =
        gather_texts(store, texts, meeting_.terms().node, own_ends, base::Deadline(base::longest_timeout), [this] { return !is_stopped(); });
    if (!of_nodes) return;
    std::vector<RankEnd> all;
    for (const std::string& ends_of_node : *of_nodes) std::ranges::move(decode_ends(ends_of_node), std::back_inserter(all));
    // All reports are written by now, although the listening thread may not have read the first trouble yet.
    const auto first = store.try_get(trouble_place);
    const std::string restarts = store.try_get(AttemptKeys::restarts).value_or("0");
    lock.lock();
    std::from_chars(restarts.data(), restarts.data() + restarts.size(), replacements_);
    if (first && !trouble_) trouble_ = Trouble::parse(*first);
    // The clocks of hosts differ, so the trouble written first counts as the first.
    for (RankEnd& end : all) {
      if (trouble_ && trouble_->kind == Trouble::Kind::failure && meeting_.roster().host_of(end.rank) != trouble_->node) end.order += later;
    }
    ends_ = std::move(all);
    complete_ = true;
    lock.unlock();
    notify();
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

}  // namespace unisono::launcher
