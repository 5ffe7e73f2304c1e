#include "controller/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error_place.h"
#include "base/error_text.h"
#include "base/log.h"
#include "context/state.h"
#include "rendezvous/launcher_store.h"
#include "unisono/context.h"
#include "unisono/error.h"

namespace unisono::controller {
namespace {

using namespace std::chrono_literals;

/// A process in the place of a lost one is waited for so long: longer than the longest pause of a launcher before it starts one.
constexpr auto longest_replacement = 120s;

bool replaces_processes(const context::State& whole) {
  const auto& store = whole.launcher.store();
  return whole.job.can_grow() && store && store->try_get(rendezvous::elastic_key);
}

}  // namespace

Workers::Workers(const ControllerOptions& options, std::unique_ptr<LocalJob> local, std::unique_ptr<Context> context, std::source_location where)
    : options_(options), local_(std::move(local)), context_(std::move(context)) {
  context::State& whole = context::current();
  try {
    roster_ = meet(whole, {}, where);
  } catch (const Mismatch&) {  // which all ranks throw: none of them leaves the others alone
    if (!local_) context_.reset();
    throw;
  }
  core_ = std::make_shared<Core>(whole.progress, options.most_in_flight);
  core_->connect(link_to_workers(roster_), roster_);
  place_ = std::make_unique<Place>(roster_, ProcessGroup(whole.whole));
  whole.launcher.tell_controlled();
  if (local_) local_->note_met();
}

std::shared_ptr<detail::RemoteCall> Workers::begin(int worker, detail::RemoteRequest request) {
  const std::source_location where = request.where;
  return base::with_place(where, [&] { return core_->begin(worker, std::move(request)); });
}

ProcessGroup Workers::everyone() const {
  if (!place_) throw NotInitialized("the controller has ended, or its members could not be changed", {.operation = "everyone"});
  return place_->everyone();
}

void Workers::replace(int worker, std::source_location where) {
  base::with_place(where, [&] {
    const auto failure = core_->failure(worker);
    if (core_->has_ended()) std::rethrow_exception(failure);
    if (!replaces_processes(context::current())) {
      throw Unsupported("no launcher of this job starts processes in the place of lost ones",
                        {.operation = "replace", .hint = "start the job with `unisono run -n MIN:MAX` and --max-restarts"});
    }
    if (!failure) return;
    core_->finish_calls();
    core_->tell_all(Kind::regroup);
    core_->poll();
    Introduction own{.epoch = roster_.epoch, .workers = core_->size(), .lost = {worker}};
    for (int i = 0; i < core_->size(); ++i) {
      if (i != worker && core_->failure(i)) own.lost.push_back(i);
    }
    const bool has_come = regroup(own, where);
    if (!has_come) {
      throw Timeout(fmt::format("no process has come in the place of worker {} within {} s; the others go on", worker, longest_replacement.count()),
                    {.operation = "replace",
                     .group = base::group_of_workers,
                     .culprit = worker,
                     .hint = "does the launcher have restarts left (--max-restarts)?"});
    }
  });
}

bool Workers::regroup(const Introduction& own, std::source_location where) {
  core_->disconnect();
  try {
    place_.reset();
    const bool has_come = take_newcomers_in(longest_replacement);
    context::State& whole = context::current();
    roster_ = meet(whole, own, where);
    core_->reconnect(whole.progress, link_to_workers(roster_), roster_);
    place_ = std::make_unique<Place>(roster_, ProcessGroup(whole.whole));
    whole.launcher.tell_controlled();
    return has_come;
  } catch (...) {
    core_->give_up(std::current_exception());
    throw;
  }
}

void Workers::end(std::string_view reason) {
  if (core_->has_ended()) return;
  if (reason.empty()) {
    core_->finish_calls();
    core_->tell_all(Kind::end);
  } else {
    core_->abort(reason);
  }
  core_->end(reason);
  place_.reset();
  core_->disconnect();
  context_.reset();  // if an exception is leaving, the members of all groups are told so
  local_.reset();
}

Workers::~Workers() {
  try {
    end({});
  } catch (const std::exception& error) {
    base::warn(fmt::format("the end of a controller: {}", error.what()));
  }
}

}  // namespace unisono::controller
