#include "launch/hosts/attempt_reports.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "base/log.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/hosts/gather_texts.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// The pause between two checks whether a wait should go on.
constexpr auto trouble_check_period = std::chrono::milliseconds(1000);
/// Added to the order of deaths on hosts other than that of the first failure; larger than the number of ranks on a host.
constexpr int later = 1 << 16;

}  // namespace

std::string launcher_key(std::string_view name, int node) { return fmt::format("launchers/{}/{}", name, node); }
std::string attempt_key(int attempt, std::string_view name) { return fmt::format("launchers/attempt/{}/{}", attempt, name); }
std::string ends_key(int attempt, int node) { return attempt_key(attempt, fmt::format("ends/{}", node)); }

AttemptReports::AttemptReports(const HostMeeting& meeting) : meeting_(meeting), notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!notifier_) throw StartFailed("cannot make an event descriptor: " + error_text(errno), 1);
}

void AttemptReports::notify() const { ::eventfd_write(notifier_.get(), 1); }

void AttemptReports::begin(int attempt) {
  join();
  const JobTerms& terms = meeting_.terms();
  const std::lock_guard lock(mutex_);
  attempt_ = attempt;
  trouble_.reset();
  trouble_taken_ = complete_ = false;
  ends_.clear();
  to_tell_.clear();
  constexpr const char* why = "the connection to it ended";
  const Trouble lost{.kind = Trouble::Kind::lost, .node = terms.node, .rank = terms.first_rank, .how = why};
  try {
    std::vector<std::pair<std::string, std::string>> will{{ends_key(attempt, terms.node), ""}, {launcher_key("bye", terms.node), why}};
    if (!terms.is_open) will.emplace_back(attempt_key(attempt, "trouble"), lost.text());
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
  meeting_.store()->compare_set(attempt_key(attempt, "trouble"), "", trouble.text());
  meeting_.store()->set(ends_key(attempt, node), "");
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
  eventfd_t notified = 0;
  ::eventfd_read(notifier_.get(), &notified);
  const std::lock_guard lock(mutex_);
  if (!trouble_ || trouble_taken_) return std::nullopt;
  trouble_taken_ = true;
  const bool is_of_all = trouble_->kind == Trouble::Kind::lost || trouble_->kind == Trouble::Kind::displaced;
  return trouble_->node == meeting_.terms().node && !is_of_all ? std::nullopt : trouble_;
}

std::optional<Trouble> AttemptReports::first_trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void AttemptReports::end(const std::vector<RankEnd>& ends, std::function<std::vector<int>(const std::string&)> hosts) {
  gathering_ = base::Thread("the ends of other hosts", [this, text = encode_ends(ends), hosts = std::move(hosts)] { gather(text, hosts); });
}

bool AttemptReports::all_ended() {
  const std::lock_guard lock(mutex_);
  return complete_;
}

int AttemptReports::replacements() {
  const std::lock_guard lock(mutex_);
  return replacements_;
}

std::vector<RankEnd> AttemptReports::ends() {
  const std::lock_guard lock(mutex_);
  return ends_;
}

std::optional<int> AttemptReports::attempt() {
  const std::lock_guard lock(mutex_);
  return attempt_ < 0 ? std::nullopt : std::optional(attempt_);
}

void AttemptReports::write_told(const std::string& place, const std::vector<Trouble>& telling) {
  for (const Trouble& trouble : telling) meeting_.store()->compare_set(place, "", trouble.text());
}

bool AttemptReports::tell_within(std::chrono::milliseconds pause) {
  std::vector<Trouble> telling;
  std::string place;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [&] { return stop_ || (attempt_ >= 0 && !to_tell_.empty()); });
    if (stop_) return false;
    if (attempt_ >= 0) {
      telling.swap(to_tell_);
      place = attempt_key(attempt_, "trouble");
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

bool AttemptReports::is_store_lost() {
  const std::lock_guard lock(mutex_);
  return store_lost_.has_value();
}

bool AttemptReports::is_stopped() {
  const std::lock_guard lock(mutex_);
  return stop_;
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
  try {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_ || attempt_ != attempt || complete_) return;
      }
      try {
        const auto trouble = Trouble::parse(meeting_.store()->get(attempt_key(attempt, "trouble"), trouble_check_period));
        if (!trouble) throw ProtocolError("a launcher told of trouble in no way of ours");
        note(*trouble);
        return notify();
      } catch (const Timeout&) {  // NOLINT(bugprone-empty-catch): no trouble so far
      }
    }
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

/// Waits until all nodes have reported how their ranks ended.
void AttemptReports::gather(const std::string& own_ends, const std::function<std::vector<int>(const std::string&)>& hosts) {
  try {
    std::vector<Trouble> telling;
    std::unique_lock lock(mutex_);
    const std::string trouble_place = attempt_key(attempt_, "trouble");
    TextsOfNodes texts{attempt_key(attempt_, "ends"), {}};
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
    const std::string restarts = store.try_get(ElasticKeys::restarts).value_or("0");
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
