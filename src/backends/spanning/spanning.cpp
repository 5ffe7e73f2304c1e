#include "backends/spanning/spanning.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/spanning/exchange.h"
#include "ground/log.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

constexpr std::size_t longest_message = 1024;  // of what other hosts are told
constexpr auto longest_goodbye = std::chrono::milliseconds(5000);

// The number of a group on the Link, the same on all members.
std::uint64_t id_of(std::string_view key) {
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// A failure as a notice: "f", kind, cause, culprit, missing ranks, message.
std::string encode(const Failure& failure) {
  return fmt::format("f{} {} {} {} {} {}", static_cast<int>(failure.kind), static_cast<int>(failure.cause), failure.culprit, failure.missing.size(),
                     fmt::join(failure.missing, " "), std::string_view(failure.message).substr(0, longest_message));
}
Failure decode_failure(std::string_view text) {
  text.remove_prefix(1);
  const auto next = [&] {
    const auto end = std::min(text.find(' '), text.size());
    const int value = std::atoi(std::string(text.substr(0, end)).c_str());
    text.remove_prefix(std::min(end + 1, text.size()));
    return value;
  };
  Failure failure;
  failure.kind = next() == 0 ? Failure::Kind::timeout : Failure::Kind::peer_failed;
  failure.cause = static_cast<PeerFailed::Cause>(next());
  failure.culprit = next();
  const int missing = next();
  if (missing == 0) text.remove_prefix(std::min<std::size_t>(1, text.size()));  // the space behind nothing
  for (int i = 0; i < missing && !text.empty(); ++i) failure.missing.push_back(next());
  failure.message = text;
  return failure;
}

}  // namespace

Spanning::Spanning(SpanningParts parts)
    : parts_(std::move(parts)), place_(parts_.place), engine_(std::move(parts_.engine)), rail_(std::move(parts_.rail)) {
  for (std::size_t r = 0; r < parts_.options.global_ranks.size(); ++r) rank_of_global_[parts_.options.global_ranks[r]] = static_cast<int>(r);
  group_id_ = id_of(parts_.options.key);
  if (engine_->blocks()) {
    warden_ = std::make_unique<Warden>([this] { return look_for_failures({}, false); }, [this](const Failure& failure) { poison(failure); });
  }
  if (one_host()) return;
  Messages::Parts channels;
  channels.rank = place_.rank;
  channels.size = place_.size();
  channels.is_remote = [this](int r) { return !place_.here(r); };
  channels.tell = [this](int r, std::string text) { tell(r, std::move(text)); };
  const auto global = [this](int r) { return parts_.options.global_ranks[static_cast<std::size_t>(r)]; };
  if (engine_->has_channels()) {
    channels.send = [this](const void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return engine_->start_send(data, bytes, peer, channel);
    };
    channels.recv = [this](void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return engine_->start_recv(data, bytes, peer, channel);
    };
  } else {
    // Apart from the channels that a tcp engine of the same group would use.
    channels.send = [this, global](const void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return parts_.link->send(data, bytes, global(peer), {~group_id_, channel});
    };
    channels.recv = [this, global](void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return parts_.link->recv(data, bytes, global(peer), {~group_id_, channel});
    };
  }
  channels.poll = [this] { poll(); };
  messages_ = std::make_unique<Messages>(std::move(channels));
  parts_.link->listen(group_id_, [this](int peer, std::string_view text) { take_notice(peer, text); });
}

Spanning::~Spanning() {
  if (!one_host()) {
    parts_.link->listen(group_id_, {});
    parts_.link->end(group_id_);
    parts_.link->end(~group_id_);
  }
  worker_.reset();
  warden_.reset();
}

engine::Bell* Spanning::bell() {
  if (parts_.host) return parts_.host->bell();
  return parts_.options.world ? parts_.options.world->bell() : parts_.bell.get();
}
engine::Bell* Spanning::bell_of(int rank) {
  if (rank == place_.rank) return bell();
  return parts_.host && place_.here(rank) ? parts_.host->bell_of(place_.local_of(rank)) : nullptr;
}

// ---- collectives ----------------------------------------------------------------------------------------------

std::unique_ptr<Task> Spanning::agreement(const CollectiveCall& call) {
  if (one_host()) return parts_.host->start_agreement(call);
  const AgreementParts parts{.place = &place_,
                             .host = parts_.host.get(),
                             .statements = &statements_,
                             .tell = [this](int r, std::string text) { tell(r, std::move(text)); },
                             .poll = [this] { poll(); },
                             .all_but_told = [this] { agreed_.store(true, std::memory_order_release); }};
  return backends::start_agreement(parts, ++agreements_, call);
}

std::vector<Stage> Spanning::plan(const CollectiveCall& call) {
  scratch_.reset();
  if (call.operation == Operation::barrier) return {};  // the agreement was one
  std::vector<Stage> stages;
  if (rail_ || place_.has_levels()) stages = level_plan(call, Abilities(rail_.get(), place_.host_count()), place_, scratch_);
  if (stages.empty()) stages = flat_plan(call, Abilities(engine_.get(), place_.size()), place_.rank, Stage::On::group, scratch_);
  return has_counts(call.operation) ? with_counts_compared(call, std::move(stages)) : stages;
}

std::vector<Stage> Spanning::with_counts_compared(const CollectiveCall& call, std::vector<Stage> stages) {
  CountsComparison comparison = compare_counts(call, place_.rank, place_.size(), scratch_);
  Stage gather{one_host() ? Stage::On::host : Stage::On::group, comparison.gather, {}};
  stages.insert(stages.begin(), {gather, Stage{Stage::On::here, {}, std::move(comparison.judge)}});
  return stages;
}

void Spanning::run(const CollectiveCall& call, Waiter& waiter) {
  const Agreed agreed(agreed_);
  // An engine that has both kinds of call may need all ranks to use the same one.
  bool may_block = engine_->blocks() && !engine_->starts();
  if (one_host()) [[likely]] {
    // A callable of the user's may throw in the middle of a call, and the others must not be stuck in it then.
    may_block = parts_.host->agree(call, waiter, engine_->blocks() && !call.custom) || may_block;
    agreed_.store(true, std::memory_order_release);
    // The shortest way for what an engine does by itself.
    if (may_block && reduces(call.operation) && !has_counts(call.operation) && Abilities(engine_.get(), place_.size()).reduces(call)) {
      return run_on(*engine_, call, waiter);
    }
  } else {
    const auto task = agreement(call);
    if (!task->advance()) waiter.wait(*task);
  }
  for (const Stage& stage : plan(call)) run_stage(stage, waiter, may_block);
}

void Spanning::run_stage(const Stage& stage, Waiter& waiter, bool may_block) {
  if (stage.on == Stage::On::here) return stage.work();
  if (may_block && stage.on != Stage::On::host) {
    const bool on_rail = stage.on == Stage::On::rail;
    Engine& engine = on_rail ? *rail_ : *engine_;
    if (engine.offers(stage.call)) return run_on(engine, stage.call, waiter);
    if (!engine.has_channels()) {
      const int size = on_rail ? place_.host_count() : place_.size();
      return run_on(engine, as_all_to_all_v(stage.call, on_rail ? place_.host() : place_.rank, size, scratch_), waiter);
    }
  }
  const auto task = start_stage(stage);
  if (!task->advance()) waiter.wait(*task);
}

void Spanning::run_on(Engine& engine, const CollectiveCall& call, Waiter& waiter) {
  std::unique_ptr<Task> blamed;
  try {
    const Warden::Guard guard(*warden_, call, waiter.timeout());
    return engine.run(call);
  } catch (const std::exception&) {
    blamed = blame(std::current_exception());
  }
  if (!blamed->advance()) waiter.wait(*blamed);
}

std::unique_ptr<Task> Spanning::start_on(const std::shared_ptr<Engine>& engine, const CollectiveCall& call, int rank, int size) {
  if (engine->offers(call)) {
    if (engine->starts()) return engine->start(call);
    if (!worker_) {
      worker_ = std::make_unique<Worker>(bell(), [this] {
        poison({.kind = Failure::Kind::peer_failed,
                .cause = PeerFailed::Cause::aborted,
                .culprit = place_.rank,
                .missing = {},
                .message = fmt::format("rank {} has given up a call that was under way", place_.rank)});
      });
    }
    return worker_->run(engine, call);
  }
  if (engine->has_channels()) return start_exchange(*engine, call, rank, size);
  return start_on(engine, as_all_to_all_v(call, rank, size, scratch_), rank, size);
}

std::unique_ptr<Task> Spanning::start_stage(const Stage& stage) {
  switch (stage.on) {
    case Stage::On::here: return std::make_unique<LocalWork>(stage.work);
    case Stage::On::host:
      // Alone on the host there is still memory to move from one place to another.
      if (!parts_.host) return std::make_unique<LocalWork>([call = stage.call] { copy_own(call); });
      return std::make_unique<Renamed>(parts_.host->start(stage.call), place_.members);
    case Stage::On::rail:
      return std::make_unique<Renamed>(
          std::make_unique<Watched>([this, call = stage.call] { return start_on(rail_, call, place_.host(), place_.host_count()); },
                                    [this](const std::exception_ptr& error) { return blame(error); }, [this] { poll(); }),
          place_.rail);
    case Stage::On::group:
      return std::make_unique<Watched>([this, call = stage.call] { return start_on(engine_, call, place_.rank, place_.size()); },
                                       [this](const std::exception_ptr& error) { return blame(error); }, [this] { poll(); });
  }
  return nullptr;
}

/// A whole call: the agreement, then one stage after the other.
class Spanning::CallTask final : public Task {
 public:
  CallTask(Spanning& group, const CollectiveCall& call) : group_(group), call_(call) {}
  bool advance() override {
    if (!begun_) {  // not before its turn among the group's calls
      begun_ = true;
      agreed_.emplace(group_.agreed_);
      current_ = group_.agreement(call_);
    }
    for (;;) {
      if (current_ && !current_->advance()) return false;
      current_.reset();
      if (!planned_) {
        planned_ = true;
        group_.agreed_.store(true, std::memory_order_release);
        stages_ = group_.plan(call_);
      }
      if (next_ == stages_.size()) return agreed_.reset(), true;
      current_ = group_.start_stage(stages_[next_++]);
    }
  }
  std::vector<int> waiting_for() const override { return current_ ? current_->waiting_for() : std::vector<int>(); }
  bool is_rung_for() const override { return !current_ || current_->is_rung_for(); }

 private:
  Spanning& group_;
  CollectiveCall call_;
  bool begun_ = false, planned_ = false;
  std::optional<Agreed> agreed_;
  std::vector<Stage> stages_;
  std::size_t next_ = 0;
  std::unique_ptr<Task> current_;
};

std::unique_ptr<Task> Spanning::start(const CollectiveCall& call) { return std::make_unique<CallTask>(*this, call); }

// ---- messages -------------------------------------------------------------------------------------------------

std::unique_ptr<Task> Spanning::start_send(const MessageCall& call) {
  if (!place_.here(call.peer)) return explained(messages_->send(call));
  MessageCall local = call;
  local.peer = place_.local_of(call.peer);
  return std::make_unique<Renamed>(parts_.host->start_send(local), place_.members);
}

std::unique_ptr<Task> Spanning::start_recv(const MessageCall& call) {
  if (call.peer >= 0 && !place_.here(call.peer)) return explained(messages_->recv(call));
  if (call.peer >= 0) {
    MessageCall local = call;
    local.peer = place_.local_of(call.peer);
    return std::make_unique<Renamed>(parts_.host->start_recv(local), place_.members);
  }
  if (one_host()) return std::make_unique<Renamed>(parts_.host->start_recv(call), place_.members);
  if (!parts_.host) return explained(messages_->recv(call));
  return std::make_unique<EitherSource>([this, call] { return std::make_unique<Renamed>(parts_.host->start_recv(call), place_.members); },
                                        [this, call] { return explained(messages_->recv(call)); });
}

std::unique_ptr<Task> Spanning::explained(std::unique_ptr<Task> task) {
  return std::make_unique<Explained>(std::move(task), [this](const std::exception_ptr& error) { return blame(error); });
}

// ---- failures -------------------------------------------------------------------------------------------------

void Spanning::poison(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  if (parts_.host) parts_.host->poison(failure);
  if (aborted_.exchange(true)) return;
  const Failure first = this->failure().value_or(failure);
  engine_->abort(first);
  if (rail_) rail_->abort(first);
  if (!one_host()) {
    tell_all(encode(first));
    parts_.link->end(~group_id_);
  }
  bell()->ring();
}

std::optional<Failure> Spanning::failure() {
  if (parts_.host) {
    if (auto known = parts_.host->failure()) return known;
  }
  if (failed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  return is_announced_.load(std::memory_order_acquire) ? announced() : std::nullopt;
}

// What other ranks did before one of them gave up still counts, and comes by other connections than the news.
std::optional<Failure> Spanning::announced() {
  constexpr auto time_to_arrive = std::chrono::milliseconds(20);
  const std::lock_guard lock(mutex_);
  if (ground::Clock::now() - announced_at_ < time_to_arrive) return std::nullopt;
  return announced_;
}

std::optional<Failure> Spanning::look_for_failures(std::span<const int> waiting_for, bool any_will_do) {
  if (auto known = failure()) return known;
  auto found = look_for_peers(waiting_for, any_will_do);
  if (!found || !is_announced_.load(std::memory_order_acquire)) return found;
  // That a rank has gone follows from what another has told already.
  const std::lock_guard lock(mutex_);
  return announced_;
}

std::optional<Failure> Spanning::look_for_peers(std::span<const int> waiting_for, bool any_will_do) {
  // Once all have agreed on a call, who is done with it may leave.
  const bool may_leave = agreed_.load(std::memory_order_acquire);
  std::set<int> gone_here;
  if (parts_.host) {
    std::vector<int> locals;
    bool all_here = true;
    for (const int r : waiting_for) {
      if (place_.here(r)) locals.push_back(place_.local_of(r));
      else all_here = false;
    }
    // Where anybody would do, those who have left here matter only if nobody elsewhere is left.
    if (any_will_do && !all_here) {
      locals.clear();
      for (const int r : parts_.host->gone()) gone_here.insert(place_.members[static_cast<std::size_t>(r)]);
    }
    if (auto failure = may_leave ? parts_.host->look_at_all() : parts_.host->look_for_failures(locals, any_will_do)) return failure;
  }
  if (one_host()) return std::nullopt;
  poll();
  if (auto failure = lost_peers()) return failure;
  if (may_leave) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto left = [&](int r) {
    return gone_here.contains(r) || left_.contains(r) ||
           (!place_.here(r) && parts_.link->has_left(parts_.options.global_ranks[static_cast<std::size_t>(r)]));
  };
  const bool hopeless = any_will_do ? !waiting_for.empty() && std::all_of(waiting_for.begin(), waiting_for.end(), left)
                                    : std::any_of(waiting_for.begin(), waiting_for.end(), left);
  if (!hopeless) return std::nullopt;
  const int r = *std::find_if(waiting_for.begin(), waiting_for.end(), left);
  return Failure{.kind = Failure::Kind::peer_failed,
                 .cause = PeerFailed::Cause::disconnected,
                 .culprit = r,
                 .missing = {},
                 .message = fmt::format("rank {} has left the group (finalize) and will not come", r)};
}

std::optional<Failure> Spanning::lost_peers() {
  const auto loss = parts_.link->lost();
  if (!loss) return std::nullopt;
  const auto left = [&](int rank) {
    const std::lock_guard lock(mutex_);
    return left_.contains(rank);
  };
  if (const auto member = rank_of_global_.find(loss->peer); member != rank_of_global_.end() && !left(member->second)) {
    // As the group calls it, not the world.
    std::string text = loss->text;
    const std::string named = fmt::format("rank {}", loss->peer);
    if (const auto at = text.find(named); at != std::string::npos) text.replace(at, named.size(), fmt::format("rank {}", member->second));
    return Failure{.kind = Failure::Kind::peer_failed, .cause = loss->cause, .culprit = member->second, .missing = {}, .message = std::move(text)};
  }
  for (const auto& [global, rank] : rank_of_global_) {
    if (place_.here(rank) || !parts_.link->is_gone(global) || parts_.link->has_left(global) || left(rank)) continue;
    return Failure{.kind = Failure::Kind::peer_failed,
                   .cause = PeerFailed::Cause::disconnected,
                   .culprit = rank,
                   .missing = {},
                   .message = fmt::format("the connection to rank {} ({}) is gone", rank, parts_.link->address_of(global))};
  }
  return std::nullopt;
}

std::set<int> Spanning::gone() {
  std::set<int> ranks;
  if (parts_.host) {
    for (const int r : parts_.host->gone()) ranks.insert(place_.members[static_cast<std::size_t>(r)]);
  }
  for (int r = 0; r < place_.size(); ++r) {
    if (!place_.here(r) && parts_.link->is_gone(parts_.options.global_ranks[static_cast<std::size_t>(r)])) ranks.insert(r);
  }
  const std::lock_guard lock(mutex_);
  ranks.insert(left_.begin(), left_.end());
  return ranks;
}

std::unique_ptr<Task> Spanning::blame(const std::exception_ptr& error) {
  return std::make_unique<Blame>(error, std::string(engine_->name()), [this] { return look_for_failures({}, false); });
}

void Spanning::leave() {
  if (parts_.host) parts_.host->leave();
  if (!one_host()) tell_all("l");
  if (!failure()) engine_->leave();
  if (rail_ && !failure()) rail_->leave();
  if (parts_.owns_link) parts_.link->goodbye(longest_goodbye);
}

// ---- between hosts --------------------------------------------------------------------------------------------

void Spanning::tell(int rank, std::string text) { parts_.link->notify(parts_.options.global_ranks[static_cast<std::size_t>(rank)], group_id_, text); }
void Spanning::tell_all(const std::string& text) {
  for (int r = 0; r < place_.size(); ++r) {
    if (!place_.here(r)) tell(r, text);
  }
}

void Spanning::take_notice(int peer_of_world, std::string_view text) {
  const auto member = rank_of_global_.find(peer_of_world);
  if (member == rank_of_global_.end() || text.empty()) return;
  const int rank = member->second;
  switch (text.front()) {
    case 'm': messages_->take(rank, text); break;
    case 'l': {
      const std::lock_guard lock(mutex_);
      left_.insert(rank);
      break;
    }
    case 'f': {
      const std::lock_guard lock(mutex_);
      if (!announced_) {
        announced_ = decode_failure(text);
        announced_at_ = ground::Clock::now();
        is_announced_.store(true, std::memory_order_release);
      }
      break;
    }
    default: statements_.take(place_.host_of(rank), text); break;
  }
}

void Spanning::poll() {
  if (parts_.link) parts_.link->poll();
}

// ---- making one -----------------------------------------------------------------------------------------------

namespace {

// Numbered anew within the group.
std::vector<int> hosts_of(const BackendOptions& options) {
  std::vector<int> hosts(options.global_ranks.size(), 0);
  std::vector<int> seen;
  for (std::size_t r = 0; r < options.hosts.size(); ++r) {
    auto found = std::find(seen.begin(), seen.end(), options.hosts[r]);
    if (found == seen.end()) found = seen.insert(seen.end(), options.hosts[r]);
    hosts[r] = static_cast<int>(found - seen.begin());
  }
  return hosts;
}

}  // namespace

EngineOptions engine_options(const BackendOptions& options, const std::string& prefix, bool crowded) {
  EngineOptions engine;
  engine.group_name = options.group_name;
  engine.key = options.key;
  engine.rank = options.rank;
  engine.global_ranks = options.global_ranks;
  engine.hosts = hosts_of(options);
  engine.local_rank = options.local_rank;
  engine.address = options.address;
  engine.store = std::make_shared<PrefixStore>(prefix, options.store);
  engine.timeout = options.timeout;
  engine.crowded = crowded;
  return engine;
}

std::unique_ptr<Backend> make_spanning(const BackendOptions& options, const EngineMaker& maker) {
  const std::vector<int> hosts = hosts_of(options);
  SpanningParts parts{
      .options = options, .place = Place(options.rank, hosts), .engine = nullptr, .rail = nullptr, .host = nullptr, .link = nullptr, .bell = nullptr};
  const Place& place = parts.place;
  if (place.host_count() > 1 && !maker.traits.spans_hosts) {
    throw BackendUnavailable(
        fmt::format("the ranks of group {} are on {} hosts, and this engine serves one", options.group_name, place.host_count()));
  }
  const auto under = [&](const std::string& prefix) { return std::make_shared<PrefixStore>(prefix, options.store); };
  if (place.members.size() > 1 || place.size() == 1) {
    BackendOptions on_host = options;
    on_host.rank = place.local;
    on_host.names = place.members;
    on_host.global_ranks.clear();
    for (const int r : place.members) on_host.global_ranks.push_back(options.global_ranks[static_cast<std::size_t>(r)]);
    on_host.store = under(fmt::format("host/{}/", place.host()));
    parts.host = make_native(on_host);
  } else if (!options.world) {
    parts.bell = std::make_shared<engine::Bell>();
  }
  if (place.host_count() > 1 || (maker.connects_all && place.size() > 1)) {
    if (options.world) {
      parts.link = options.world->link();
    } else {
      parts.owns_link = true;
      transport::Link::Options to_others;
      to_others.rank = options.rank;
      to_others.hosts = hosts;
      to_others.all = maker.connects_all;
      to_others.address = options.address;
      to_others.store = under("link/");
      to_others.token = options.token;
      to_others.timeout = options.timeout;
      // The link may outlive the group: it keeps the bell that it rings.
      std::shared_ptr<engine::Bell> bell = parts.bell;
      if (parts.host) bell = {parts.host->segment(), parts.host->bell()};
      to_others.ring = [bell] { bell->ring(); };
      to_others.sleeper = [bell] { return bell->has_sleepers(); };
      parts.link = transport::Link::connect(to_others);
    }
  }
  const EngineOptions engine = engine_options(options, "engine/", parts.host && parts.host->crowded());
  parts.engine = maker.make(engine, parts.link);
  if (place.has_levels() && !place.rail.empty()) {
    EngineOptions rail = engine;
    rail.group_name += fmt::format(" (rail {})", place.local);
    rail.key += fmt::format("/rail{}", place.local);
    rail.rank = place.host();
    rail.global_ranks.clear();
    rail.hosts.clear();
    for (const int r : place.rail) {
      rail.global_ranks.push_back(options.global_ranks[static_cast<std::size_t>(r)]);
      rail.hosts.push_back(place.host_of(r));
    }
    rail.store = under(fmt::format("rail/{}/", place.local));
    parts.rail = maker.make(rail, parts.link);
  }
  return std::make_unique<Spanning>(std::move(parts));
}

}  // namespace unisono::backends
