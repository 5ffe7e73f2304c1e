#include "launch/hosts/host_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "launch/hosts/node_exchange.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// The key of the hosts whose launchers say at the end how their ranks have ended.
constexpr const char* last_hosts_key = "launchers/last-hosts";

}  // namespace

void SilenceWatch::look(base::Clock::time_point now) {
  gap_ = looked_ == base::Clock::time_point() ? std::chrono::nanoseconds(0) : std::min<std::chrono::nanoseconds>(now - looked_, longest_gap_);
  looked_ = now;
}

bool SilenceWatch::is_silent(int host, std::string_view said) {
  const auto [entry, is_new] = heard_.try_emplace(host, Heard{.said = std::string(said)});
  Heard& heard = entry->second;
  if (is_new || heard.said != said) {
    heard = {.said = std::string(said)};
    return false;
  }
  heard.silent += gap_;
  return heard.silent > silence_;
}

void HostChanges::report_lost(const JobHost& host, const std::string& why, int attempt) {
  const Trouble lost{.kind = Trouble::Kind::lost, .node = host.number, .rank = host.first_rank, .how = why};
  meeting_.store()->compare_set(AttemptKeys{attempt}.trouble(), "", lost.text());
}

/// Node 0 records that launchers which have left, in whatever way, take no part in this attempt.
void HostChanges::look() {
  const auto attempt = reports_.attempt();
  if (!meeting_.is_node_zero() || !attempt) return;
  const store::StoreServer& server = *meeting_.store()->own_server();
  for (const JobHost& host : meeting_.roster().all()) {
    const auto why = server.peek(goodbye_key(host.number));
    const std::string ends_place = AttemptKeys{*attempt}.ends(host.number);
    if (host.number == 0 || !why || server.peek(ends_place)) continue;
    report_lost(host, *why, *attempt);
    meeting_.store()->set(ends_place, "");
  }
}

std::vector<int> HostChanges::at_the_end(const std::string& /*own_ends*/) { return meeting_.numbers(); }

void OpenHosts::close() {
  if (Admission* const admission = meeting_.admission()) admission->close();
}

std::vector<std::string> OpenHosts::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void OpenHosts::add_news(std::vector<std::string> sentences) {
  if (sentences.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    news_.insert(news_.end(), std::make_move_iterator(sentences.begin()), std::make_move_iterator(sentences.end()));
  }
  reports_.notify();
}

void OpenHosts::look() {
  if (!meeting_.is_node_zero()) {
    meeting_.roster().set(decode_roster(meeting_.store()->get(hosts_key)));
    return look_for_own_loss();
  }
  const auto attempt = reports_.attempt();
  if (attempt && !reports_.all_ended()) look_for_the_gone(*attempt);
  add_news(meeting_.admission()->admit());
}

/// Throws where the others have taken this host for lost, as one that was silent for too long and goes on later. It has no part in the job any more.
void OpenHosts::look_for_own_loss() {
  const JobTerms& terms = meeting_.terms();
  const auto own = meeting_.roster().find(terms.node);
  if (!own || !own->is_gone) return;
  const std::string why = meeting_.store()->try_get(goodbye_key(terms.node)).value_or("");
  reports_.note({.kind = Trouble::Kind::lost, .node = terms.node, .rank = terms.first_rank, .how = why});
  throw PeerFailed("the job goes on without this host: " + why, {.operation = "unisono run"}, PeerFailed::Cause::silent);
}

/// Tells the others that the ranks of a host will not come any more. Its launcher says no more of them.
void OpenHosts::lose_ranks_of(const JobHost& host, int attempt) {
  const AttemptKeys keys{attempt};
  store::Client& store = *meeting_.store();
  const HostTally tally = decode_tally(store.own_server()->peek(keys.tally(host.number)).value_or("0 0 -1 "));
  // The ranks that form a group anew look there for those that will not come, and the ranks that meet for the first time at the first end.
  for (const std::string& name : tally.names) store.compare_set(keys.end(name), "", "lost 0");
  if (!host.is_late) store.compare_set(keys.first_end(), "", fmt::format("{} lost 0", host.first_rank));
  store.set(keys.tally(host.number), encode_tally({.well = tally.well, .last_lost = host.first_rank}));
  store.set(keys.ends(host.number), "");
}

/// A launcher that is gone has ended its ranks, or will do so. Where fewer than MIN hosts are left that is trouble, unless its ranks had ended
/// before: then the job has gone on without them, or comes to its end.
void OpenHosts::look_for_the_gone(int attempt) {
  const store::StoreServer& server = *meeting_.store()->own_server();
  for (const JobHost& host : meeting_.roster().all()) {
    const auto why = server.peek(goodbye_key(host.number));
    if (host.number == 0 || host.is_gone || !why) continue;
    const bool had_ranks = server.peek(AttemptKeys{attempt}.ends(host.number)).value_or("").empty();
    meeting_.roster().note_gone(host.number);
    if (had_ranks) lose_ranks_of(host, attempt);
    meeting_.admission()->publish();
    const int left = meeting_.roster().present();
    if (had_ranks && left < meeting_.least_hosts()) {
      report_lost(host, *why, attempt);
      close();
      continue;
    }
    const std::string how = *why == leaving_mark ? "has left" : fmt::format("is lost ({})", *why);
    add_news({fmt::format("the launcher at {} {}; the job goes on with {} host{}", host.where, how, left, left == 1 ? "" : "s")});
  }
}

/// Node 0 says whose reports are waited for.
std::vector<int> OpenHosts::at_the_end(const std::string& own_ends) {
  store::Client& store = *meeting_.store();
  std::vector<JobHost> hosts;
  if (meeting_.is_node_zero()) {
    close();
    hosts = meeting_.roster().all();
    store.set(last_hosts_key, encode_roster(hosts));
  } else {
    store.set(AttemptKeys{*reports_.attempt()}.ends(meeting_.terms().node), own_ends);
    // Ranks run for as long as they like.
    const auto told = await_value(store, last_hosts_key, base::Deadline(base::longest_timeout), [this] { return !reports_.is_stopped(); });
    if (!told) return {};
    hosts = decode_roster(*told);
  }
  std::vector<int> nodes;
  for (const JobHost& host : hosts) nodes.push_back(host.number);
  return nodes;
}

}  // namespace unisono::launcher
