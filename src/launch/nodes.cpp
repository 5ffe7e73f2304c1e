#include "launch/nodes.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include <fmt/format.h>

#include "ground/log.h"
#include "launch/nodes_text.h"
#include "launch/program.h"
#include "rendezvous/join.h"
#include "rendezvous/own_address.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "store/serve.h"
#include "store/token.h"
#include "unisono/error.h"

namespace unisono::launcher {

using ground::Deadline;
using namespace std::chrono_literals;

namespace {

constexpr std::uint16_t default_port = 29500;
constexpr int most_ranks = 1 << 16;
/// How long node 0 keeps the store for launchers that have everything they need but have not said so.
constexpr auto farewell_time = std::chrono::seconds(5);
constexpr auto longest_pause_of_beats = std::chrono::milliseconds(1000);
/// Node 0 gives up first, and tells the others.
constexpr auto courtesy = std::chrono::milliseconds(250);
constexpr auto slice = std::chrono::milliseconds(1000);

ErrorInfo info(std::string hint = {}) { return {.operation = "unisono run", .hint = std::move(hint)}; }

std::string secret_of(const JobOptions& options) {
  const auto said = options.token_file.empty() ? store::said_token(options.environment) : store::token_of_file(options.token_file);
  return said.value_or("");
}

/// A thread that leaves signals to the main one.
template <class Body>
std::thread start(Body body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Nodes::Nodes(const JobOptions& options)
    : node_(options.node_rank),
      nodes_(options.nnodes),
      silence_(options.silence),
      secret_(secret_of(options)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw StartFailed("cannot make an event descriptor: " + error_text(errno), 1);
  meet(options);
  beating_ = start([this] { beat(); });
}

void Nodes::meet(const JobOptions& options) {
  const auto timeout = rendezvous::join_timeout(std::chrono::hours(1), options.environment);
  const Deadline deadline(node_ == 0 ? timeout : timeout + courtesy);
  const rendezvous::Address address(options.master_addr, options.master_port == 0 ? default_port : static_cast<std::uint16_t>(options.master_port));
  const std::string place = "the launchers' store at " + ground::describe(address.name, address.port());
  rendezvous::check_reachable(address.name, address.resolved);
  if (node_ == 0) {
    const auto addresses = rendezvous::addresses_to_listen_on(address.name, address.resolved, options.environment);
    const std::string token = store::token_for(addresses, secret_, {});
    ground::FileDescriptor listening = store::listen_on(addresses);
    ground::info(fmt::format("the job's store listens on {}", describe(ground::local_address(listening.get()))));
    store_ = store::serve(std::move(listening), place, {.token = token});
  } else {
    store_ = store::connect_tcp(address.resolved, place, {.token = store::token_for(address.resolved, secret_, {})}, deadline);
  }
  store_address_ = store_->way()->store;
  rendezvous::JoinRequest request{.self = rendezvous::own_record(node_), .world_size = nodes_, .group_name = "launchers"};
  request.most_generations = 1;
  request.who = "node";
  request.size = "number of hosts";
  request.size_option = "--nnodes";
  const auto joined = rendezvous::join(*store_, request, deadline);
  if (!joined) throw InvalidArgument(fmt::format("the job at {} is over", place), info("start the launchers of all hosts together"));
  for (const auto& member : joined->members) members_.push_back(rendezvous::where(member));
  agree(options, deadline);
  store_->set_timeout(silence_);
}

// Who has how many ranks; what only node 0 can say.
void Nodes::agree(const JobOptions& options, const Deadline& deadline) {
  store_->set(key("ranks", node_), std::to_string(options.ranks));
  for (int node = 0; node < nodes_; ++node) counts_.push_back(std::stoi(store_->get(key("ranks", node), deadline.left())));
  world_size_ = std::accumulate(counts_.begin(), counts_.end(), 0);
  first_rank_ = std::accumulate(counts_.begin(), counts_.begin() + node_, 0);
  if (world_size_ > most_ranks) throw InvalidArgument(fmt::format("a job has at most {} ranks, and there are {}", most_ranks, world_size_));
  if (node_ == 0) {
    // The next port, where firewalls are likely to let it through as well.
    port_ = PortReservation::near(store_address_, store_address_.port() + 1);
    store_->set("launchers/port", std::to_string(port_->port()));
    store_->set("launchers/restarts", std::to_string(options.max_restarts));
  }
  master_port_ = std::stoi(store_->get("launchers/port", deadline.left()));
  max_restarts_ = std::stoi(store_->get("launchers/restarts", deadline.left()));
}

Nodes::~Nodes() {
  std::unique_lock lock(mutex_);
  const bool lost = store_lost_.has_value();
  lock.unlock();
  try {
    if (!lost) {
      store_->leave_will({});
      store_->set(key("bye", node_), "1");
      const Deadline deadline(farewell_time);
      for (int node = 0; node_ == 0 && node < nodes_; ++node) store_->get(key("bye", node), deadline.left());
    }
  } catch (const std::exception& error) {  // nobody needs to be told: what this was for is done
    ground::log(ground::LogLevel::debug, error.what());
  }
  lock.lock();
  stop_ = true;
  lock.unlock();
  changed_.notify_all();
  store_->hang_up();
  for (std::thread* thread : {&beating_, &listening_, &gathering_}) {
    if (thread->joinable()) thread->join();
  }
}

std::string Nodes::key(std::string_view name, int node) const { return fmt::format("launchers/{}/{}", name, node); }
std::string Nodes::attempt_key(std::string_view name) const { return fmt::format("launchers/attempt/{}/{}", attempt_, name); }

int Nodes::node_of(int rank) const {
  int node = 0;
  for (int first = counts_[0]; first <= rank && node + 1 < nodes_; first += counts_[static_cast<std::size_t>(node)]) ++node;
  return node;
}

void Nodes::tell_ranks(store::StoreServer& launchers, int attempt) const {
  rendezvous::tell_of_store([&](std::string_view name, std::string_view value) { launchers.set(name, value); }, store_address_, secret_, "",
                            fmt::format("attempt/{}", attempt));
}

void Nodes::ring() const { ::eventfd_write(bell_.get(), 1); }

// ---- an attempt -----------------------------------------------------------------------------------------------

void Nodes::begin(int attempt) {
  for (std::thread* thread : {&listening_, &gathering_}) {
    if (thread->joinable()) thread->join();
  }
  const std::lock_guard lock(mutex_);
  attempt_ = attempt;
  trouble_.reset();
  trouble_taken_ = complete_ = false;
  ends_.clear();
  to_tell_.clear();
  const int first = std::accumulate(counts_.begin(), counts_.begin() + node_, 0);
  const Trouble lost{.kind = Trouble::Kind::lost, .node = node_, .rank = first, .how = "the connection to it ended"};
  try {
    store_->leave_will({{attempt_key("trouble"), lost.text()}, {attempt_key(fmt::format("ends/{}", node_)), ""}, {key("bye", node_), "1"}});
  } catch (const std::exception& error) {
    store_lost_ = error.what();
  }
  listening_ = start([this, attempt] { listen(attempt); });
}

void Nodes::give_up_restart(int attempt, int signal) {
  begin(attempt);
  tell({.kind = Trouble::Kind::interrupt, .signal = signal});
  end({});
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
  eventfd_t rung = 0;
  ::eventfd_read(bell_.get(), &rung);
  const std::lock_guard lock(mutex_);
  if (!trouble_ || trouble_taken_) return std::nullopt;
  trouble_taken_ = true;
  return trouble_->node == node_ ? std::nullopt : trouble_;
}

std::optional<Trouble> Nodes::first_trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void Nodes::end(const std::vector<RankEnd>& ends) {
  gathering_ = start([this, text = encode_ends(ends)] { gather(text); });
}

bool Nodes::all_ended() {
  const std::lock_guard lock(mutex_);
  return complete_;
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
  ring();
}

/// Says again and again that this launcher lives, and what it has to tell.
void Nodes::beat() {
  std::map<int, std::pair<std::string, ground::Clock::time_point>> heard;
  try {
    for (std::int64_t number = 1;; ++number) {
      std::vector<Trouble> telling;
      std::string place;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::min<std::chrono::milliseconds>(silence_ / 4, longest_pause_of_beats),
                          [&] { return stop_ || !to_tell_.empty(); });
        if (stop_) return;
        telling.swap(to_tell_);
        if (attempt_ >= 0) place = attempt_key("trouble");
      }
      for (const Trouble& trouble : telling) store_->compare_set(place, "", trouble.text());
      store_->set(key("beat", node_), std::to_string(number));
      if (node_ == 0) look_for_the_silent(heard);
    }
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

/// Node 0 hears all others, and says for one that says nothing any more that it is lost.
void Nodes::look_for_the_silent(std::map<int, std::pair<std::string, ground::Clock::time_point>>& heard) {
  const auto now = ground::Clock::now();
  std::unique_lock lock(mutex_);
  if (attempt_ < 0) return;
  const std::string trouble = attempt_key("trouble");
  const std::string ends = attempt_key("ends/");
  lock.unlock();
  const store::StoreServer& server = *store_->own_server();
  for (int node = 1; node < nodes_; ++node) {
    const std::string said = server.peek(key("beat", node)).value_or("");
    auto& [last, when] = heard.try_emplace(node, said, now).first->second;
    if (said != last) {
      last = said;
      when = now;
    }
    if (now - when <= silence_ || server.peek(key("bye", node))) continue;
    const int first = std::accumulate(counts_.begin(), counts_.begin() + node, 0);
    const Trouble lost{
        .kind = Trouble::Kind::lost, .node = node, .rank = first, .how = fmt::format("nothing came from it for {} ms", silence_.count())};
    store_->compare_set(trouble, "", lost.text());
    if (!server.peek(ends + std::to_string(node))) store_->set(ends + std::to_string(node), "");
    store_->compare_set(key("bye", node), "", "1");
  }
}

/// Until somebody tells of trouble in this attempt.
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
        const auto trouble = Trouble::parse(store_->get(place, slice));
        if (!trouble) throw ProtocolError("a launcher told of trouble in no way of ours");
        {
          const std::lock_guard lock(mutex_);
          if (!trouble_) trouble_ = trouble;
        }
        return ring();
      } catch (const Timeout&) {  // that is good news
      }
    }
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

/// Until all nodes have told how their ranks ended.
void Nodes::gather(std::string own_ends) {
  try {
    std::vector<RankEnd> all;
    std::vector<Trouble> telling;
    std::unique_lock lock(mutex_);
    const std::string trouble_place = attempt_key("trouble");
    const std::string ends_place = attempt_key("ends/");
    telling.swap(to_tell_);
    lock.unlock();
    for (const Trouble& trouble : telling) store_->compare_set(trouble_place, "", trouble.text());
    store_->set(ends_place + std::to_string(node_), own_ends);
    for (int node = 0; node < nodes_; ++node) {
      for (bool there = false; !there;) {
        lock.lock();
        if (stop_) return;
        lock.unlock();
        try {
          for (RankEnd& end : decode_ends(store_->get(ends_place + std::to_string(node), slice))) all.push_back(std::move(end));
          there = true;
        } catch (const Timeout&) {  // its ranks still run
        }
      }
    }
    // All have told what they had to tell by now, also where the one who listens for it has not heard it yet.
    const auto first = store_->try_get(trouble_place);
    lock.lock();
    if (first && !trouble_) trouble_ = Trouble::parse(*first);
    // Clocks of hosts differ: what was told first happened first.
    for (RankEnd& end : all) {
      if (trouble_ && trouble_->kind == Trouble::Kind::failure && node_of(end.rank) != trouble_->node) end.order += most_ranks;
    }
    ends_ = std::move(all);
    complete_ = true;
    lock.unlock();
    ring();
  } catch (const std::exception& error) {
    lose_store(error);
  }
}

}  // namespace unisono::launcher
