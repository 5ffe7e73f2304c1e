// The exchange between the launchers of several hosts during an attempt.
#include "launch/hosts/nodes.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "base/log.h"
#include "launch/hosts/gather_texts.h"
#include "launch/hosts/nodes_text.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/reach.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

constexpr auto longest_pause_of_beats = std::chrono::milliseconds(1000);
/// The pause between two checks whether a wait should go on.
constexpr auto trouble_check_period = std::chrono::milliseconds(1000);
/// Added to the order of deaths on hosts other than that of the first failure; larger than the number of ranks on a host.
constexpr int later = 1 << 16;

}  // namespace

std::string Nodes::key(std::string_view name, int node) const { return fmt::format("launchers/{}/{}", name, node); }
std::string Nodes::attempt_key(std::string_view name) const { return fmt::format("launchers/attempt/{}/{}", attempt_, name); }

std::string Nodes::name_of(int node) const {
  const auto host = hosts_.find(node);
  return host ? host->where : fmt::format("host {}", node);
}

int Nodes::node_of(int rank) const { return hosts_.host_of(rank); }

std::unique_ptr<ElasticHosts> Nodes::make_elastic(int attempt) const {
  return std::make_unique<ElasticHosts>(ElasticHosts::Parts{
      .store = store_, .keys = {attempt}, .host = node_, .max_restarts = max_restarts_ - attempt, .hosts = [this] { return hosts_.all(); }});
}

void Nodes::tell_ranks(store::StoreServer& launchers, int attempt) const {
  rendezvous::tell_of_silence(launchers, silence_);
  rendezvous::tell_of_store(launchers, store_address_, secret_, "", fmt::format("attempt/{}", attempt));
}

void Nodes::notify() const { ::eventfd_write(notifier_.get(), 1); }

// ---- an attempt -----------------------------------------------------------------------------------------------

void Nodes::begin(int attempt) {
  for (base::Thread* thread : {&listening_, &gathering_}) thread->join();
  const std::lock_guard lock(mutex_);
  attempt_ = attempt;
  trouble_.reset();
  trouble_taken_ = complete_ = false;
  ends_.clear();
  to_tell_.clear();
  constexpr const char* why = "the connection to it ended";
  const Trouble lost{.kind = Trouble::Kind::lost, .node = node_, .rank = first_rank_, .how = why};
  try {
    std::vector<std::pair<std::string, std::string>> will{{attempt_key(fmt::format("ends/{}", node_)), ""}, {key("bye", node_), why}};
    if (!is_open_) will.emplace_back(attempt_key("trouble"), lost.text());
    store_->leave_will(will);
  } catch (const std::exception& error) {
    store_lost_ = error.what();
  }
  listening_ = base::Thread("the news of other hosts", [this, attempt] { listen(attempt); });
}

void Nodes::give_up_restart(int attempt, int signal) noexcept {
  try {
    const Trouble trouble{.kind = Trouble::Kind::interrupt, .node = node_, .signal = signal};
    std::unique_lock lock(mutex_);
    attempt_ = attempt;
    const std::string trouble_place = attempt_key("trouble");
    const std::string ends_place = attempt_key(fmt::format("ends/{}", node_));
    lock.unlock();
    store_->compare_set(trouble_place, "", trouble.text());
    store_->set(ends_place, "");
    if (node_ == 0) end({});               // which writes the ends of all, for whom the others wait
  } catch (const std::exception& error) {  // then the others see that we are gone
    base::log(base::LogLevel::debug, error.what());
  }
}

void Nodes::tell(Trouble trouble) {
  trouble.node = node_;
  {
    const std::lock_guard lock(mutex_);
    to_tell_.push_back(std::move(trouble));
  }
  changed_.notify_all();
}

std::optional<Trouble> Nodes::take_trouble() {
  eventfd_t notified = 0;
  ::eventfd_read(notifier_.get(), &notified);
  const std::lock_guard lock(mutex_);
  if (!trouble_ || trouble_taken_) return std::nullopt;
  trouble_taken_ = true;
  const bool is_of_all = trouble_->kind == Trouble::Kind::lost || trouble_->kind == Trouble::Kind::displaced;
  return trouble_->node == node_ && !is_of_all ? std::nullopt : trouble_;
}

std::optional<Trouble> Nodes::first_trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void Nodes::end(const std::vector<RankEnd>& ends) {
  gathering_ = base::Thread("the ends of other hosts", [this, text = encode_ends(ends)] { gather(text); });
}

bool Nodes::all_ended() {
  const std::lock_guard lock(mutex_);
  return complete_;
}

int Nodes::replacements() {
  const std::lock_guard lock(mutex_);
  return replacements_;
}

std::vector<RankEnd> Nodes::ends() {
  const std::lock_guard lock(mutex_);
  return ends_;
}

// ---- the threads ----------------------------------------------------------------------------------------------

void Nodes::lose_store(const std::exception& error) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    if (!store_lost_) store_lost_ = error.what();
    if (!trouble_) trouble_ = Trouble{.kind = Trouble::Kind::lost, .node = 0, .rank = 0, .how = *store_lost_};
    complete_ = true;
  }
  notify();
}

/// Writes again and again that this launcher lives, with its news.
void Nodes::beat() {
  const auto pause = std::min<std::chrono::milliseconds>(silence_ / 4, longest_pause_of_beats);
  SilenceWatch others(silence_, 2 * pause);
  try {
    for (std::int64_t number = 1;; ++number) {
      std::vector<Trouble> telling;
      std::string place;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, pause, [&] { return stop_ || (attempt_ >= 0 && !to_tell_.empty()); });
        if (stop_) return;
        if (attempt_ >= 0) {
          telling.swap(to_tell_);
          place = attempt_key("trouble");
        }
      }
      for (const Trouble& trouble : telling) store_->compare_set(place, "", trouble.text());
      store_->set(key("beat", node_), std::to_string(number));
      if (node_ == 0) {
        look_for_the_silent(others);
        look_for_the_gone();
      }
      if (is_open_) hear_of_hosts();
    }
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

/// Runs on node 0 only: takes a launcher that has been silent for too long for lost. It hears of that where it goes on later.
void Nodes::look_for_the_silent(SilenceWatch& others) {
  others.look();
  const store::StoreServer& server = *store_->own_server();
  for (const JobHost& host : hosts_.all()) {
    if (host.number == 0 || host.is_gone || !others.is_silent(host.number, server.peek(key("beat", host.number)).value_or(""))) continue;
    store_->compare_set(key("bye", host.number), "", fmt::format("nothing came from it for {} ms", silence_.count()));
  }
}

/// Runs on node 0 only: records that launchers which have left, in whatever way, take no part in this attempt.
void Nodes::look_for_the_gone() {
  std::unique_lock lock(mutex_);
  if (attempt_ < 0 || is_open_) return;
  const std::string trouble_place = attempt_key("trouble");
  const std::string ends_place = attempt_key("ends/");
  lock.unlock();
  const store::StoreServer& server = *store_->own_server();
  for (int node = 1; node < nodes_; ++node) {
    const auto why = server.peek(key("bye", node));
    if (!why || server.peek(ends_place + std::to_string(node))) continue;
    const int first = hosts_.find(node)->first_rank;
    store_->compare_set(trouble_place, "", Trouble{.kind = Trouble::Kind::lost, .node = node, .rank = first, .how = *why}.text());
    store_->set(ends_place + std::to_string(node), "");
  }
}

/// Waits until a launcher reports trouble in this attempt.
void Nodes::listen(int attempt) {
  try {
    for (;;) {
      std::string place;
      {
        const std::lock_guard lock(mutex_);
        if (stop_ || attempt_ != attempt || complete_) return;
        place = attempt_key("trouble");
      }
      try {
        const auto trouble = Trouble::parse(store_->get(place, trouble_check_period));
        if (!trouble) throw ProtocolError("a launcher told of trouble in no way of ours");
        {
          const std::lock_guard lock(mutex_);
          if (!trouble_) trouble_ = trouble;
        }
        return notify();
      } catch (const Timeout&) {  // NOLINT(bugprone-empty-catch): no trouble so far
      }
    }
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

/// Waits until all nodes have reported how their ranks ended.
void Nodes::gather(const std::string& own_ends) {
  try {
    std::vector<Trouble> telling;
    std::unique_lock lock(mutex_);
    const std::string trouble_place = attempt_key("trouble");
    TextsOfNodes texts{attempt_key("ends"), {}};
    telling.swap(to_tell_);
    lock.unlock();
    // Before any wait for the others: they may go on until they hear of it.
    for (const Trouble& trouble : telling) store_->compare_set(trouble_place, "", trouble.text());
    texts.nodes = hosts_at_the_end(own_ends);
    if (texts.nodes.empty()) return;
    const auto goes_on = [this] {
      const std::lock_guard held(mutex_);
      return !stop_;
    };
    // Ranks run for as long as they like.
    const auto of_nodes = gather_texts(*store_, texts, node_, own_ends, base::Deadline(base::longest_timeout), goes_on);
    if (!of_nodes) return;
    std::vector<RankEnd> all;
    for (const std::string& ends_of_node : *of_nodes) std::ranges::move(decode_ends(ends_of_node), std::back_inserter(all));
    // All reports are written by now, although the listening thread may not have read the first trouble yet.
    const auto first = store_->try_get(trouble_place);
    const std::string restarts = store_->try_get(ElasticKeys::restarts).value_or("0");
    lock.lock();
    std::from_chars(restarts.data(), restarts.data() + restarts.size(), replacements_);
    if (first && !trouble_) trouble_ = Trouble::parse(*first);
    // The clocks of hosts differ, so the trouble written first counts as the first.
    for (RankEnd& end : all) {
      if (trouble_ && trouble_->kind == Trouble::Kind::failure && node_of(end.rank) != trouble_->node) end.order += later;
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
