#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/spanning/plan.h"
#include "ground/deadline.h"
#include "ground/thread.h"
#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::engine {
class Bell;
}

// The tasks that a call of a Spanning group is made of.
namespace unisono::backends {

/// What this rank does by itself.
class LocalWork final : public Task {
 public:
  explicit LocalWork(std::function<void()> work) : work_(std::move(work)) {}
  bool advance() override {
    if (work_) std::exchange(work_, nullptr)();
    return true;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  std::function<void()> work_;
};

/// A task among some of the group's ranks, which calls them by their names in the group.
class Renamed final : public Task {
 public:
  Renamed(std::unique_ptr<Task> task, const std::vector<int>& names) : task_(std::move(task)), names_(names) {}
  bool advance() override { return task_->advance(); }
  std::vector<int> waiting_for() const override {
    std::vector<int> ranks = task_->waiting_for();
    for (int& r : ranks) r = names_[static_cast<std::size_t>(r)];
    return ranks;
  }
  bool any_will_do() const override { return task_->any_will_do(); }
  bool is_rung_for() const override { return task_->is_rung_for(); }
  Arrival arrival() const override {
    Arrival arrival = task_->arrival();
    if (arrival.source >= 0) arrival.source = names_[static_cast<std::size_t>(arrival.source)];
    return arrival;
  }
  bool detach() override { return task_->detach(); }

 private:
  std::unique_ptr<Task> task_;
  const std::vector<int>& names_;  // of the group's Place, which lives as long as its tasks
};

/// Waits until it is known why an engine's call threw: a peer that is gone is noticed within a second. Ends with a GroupFailure.
class Blame final : public Task {
 public:
  Blame(const std::exception_ptr& error, const std::string& engine, std::function<std::optional<Failure>()> look);
  bool advance() override;
  std::vector<int> waiting_for() const override { return {}; }
  bool is_rung_for() const override { return false; }

 private:
  Failure unexplained_;
  std::function<std::optional<Failure>()> look_;
  ground::Clock::time_point since_;
};

/// A task of an engine. Made when its turn comes; when it throws, the reason is looked for.
class Watched final : public Task {
 public:
  using Make = std::function<std::unique_ptr<Task>()>;
  using Explain = std::function<std::unique_ptr<Task>(const std::exception_ptr&)>;
  Watched(Make make, Explain explain, std::function<void()> poll) : make_(std::move(make)), explain_(std::move(explain)), poll_(std::move(poll)) {}
  bool advance() override;
  std::vector<int> waiting_for() const override { return task_ ? task_->waiting_for() : std::vector<int>(); }
  bool is_rung_for() const override { return task_ && task_->is_rung_for(); }

 private:
  Make make_;
  Explain explain_;
  std::function<void()> poll_;
  std::unique_ptr<Task> task_;
  bool failed_ = false;
};

/// A task that is there already, of a message between hosts; when it throws anything but a Mismatch, the reason is looked for.
class Explained final : public Task {
 public:
  using Explain = std::function<std::unique_ptr<Task>(const std::exception_ptr&)>;
  Explained(std::unique_ptr<Task> task, Explain explain) : task_(std::move(task)), explain_(std::move(explain)) {}
  bool advance() override;
  std::vector<int> waiting_for() const override { return task_->waiting_for(); }
  bool any_will_do() const override { return task_->any_will_do(); }
  bool is_rung_for() const override { return task_->is_rung_for(); }
  Arrival arrival() const override { return task_->arrival(); }
  bool detach() override { return task_->detach(); }

 private:
  std::unique_ptr<Task> task_;
  Explain explain_;
};

/// A receive or a probe from anybody, where some are on this host and some are not: whichever comes first, the other half is given up before it has
/// taken anything.
class EitherSource final : public Task {
 public:
  using Make = std::function<std::unique_ptr<Task>()>;
  EitherSource(Make here, Make elsewhere) : here_(here()), elsewhere_(elsewhere()) {}
  bool advance() override;
  std::vector<int> waiting_for() const override;
  bool any_will_do() const override { return here_ && elsewhere_; }
  bool is_rung_for() const override { return (!here_ || here_->is_rung_for()) && (!elsewhere_ || elsewhere_->is_rung_for()); }
  Arrival arrival() const override { return here_ ? here_->arrival() : elsewhere_->arrival(); }

 private:
  std::unique_ptr<Task> here_, elsewhere_;
};

/// A thread that is inside an engine's blocking calls, one at a time, on behalf of asynchronous ones.
class Worker {
 public:
  /// `give_up`: ends the group, where a call is let go that is still under way. Error where there is no thread to be had.
  Worker(engine::Bell* bell, std::function<void()> give_up);
  ~Worker();
  /// The task must be let go before the worker; if that happens before it is done, its group is over.
  std::unique_ptr<Task> run(std::shared_ptr<Engine> engine, const CollectiveCall& call);

 private:
  class Call;
  struct Shared;
  std::shared_ptr<Shared> shared_;
  engine::Bell* bell_;
  std::function<void()> give_up_;
  pid_t process_;
  ground::Thread thread_;
};

/// Of ranks that call with counts: the exchange of what each has given, and the judgement, a Mismatch on every rank if they do not fit.
struct CountsComparison {
  CollectiveCall gather;
  std::function<void()> judge;
};
CountsComparison compare_counts(const CollectiveCall& call, int rank, int size, Scratch& scratch);

/// What a collective among one rank does: it moves its block from `in` to `out`.
void copy_own(const CollectiveCall& call);

}  // namespace unisono::backends
