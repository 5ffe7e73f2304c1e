#include "rendezvous/plan.h"

#include <sys/resource.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/deadline.h"
#include "rendezvous/error_info.h"
#include "rendezvous/own_address.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using base::Environment;
using namespace std::chrono_literals;

constexpr auto default_join_timeout = 120s;

// Refuses a job that needs too many descriptors. A later failure would look like a missing rank or an unreadable file.
void check_descriptors(int world_size) {
  rlimit limit{};
  if (world_size == 1 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  // A handle on every other process is needed. The process that serves the store needs a connection to each. Joining needs a few more.
  constexpr rlim_t for_joining = 8;
  const auto needed = 2 * static_cast<rlim_t>(world_size) + for_joining;
  rlim_t used = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end; entry.increment(error)) ++used;
  if (error && error != std::errc::too_many_files_open) return;  // no /proc here
  if (!error && used + needed <= limit.rlim_cur) return;
  throw BackendUnavailable(fmt::format("a job of {} ranks takes up to {} file descriptors more, and {} of {} are in use", world_size, needed,
                                       error ? "all" : std::to_string(used), limit.rlim_cur),
                           info("raise the limit: ulimit -n"));
}

}  // namespace

std::optional<Said> agree(std::string_view what, const std::optional<Said>& first, const std::optional<Said>& second) {
  if (first && second && first->value != second->value) {
    throw InvalidArgument(fmt::format("the {} is {} by {}, but {} by {}", what, first->value, first->source, second->value, second->source), info());
  }
  return first ? first : second;
}

void check_range(const Plan& plan) {
  if (plan.world_size < 1) throw InvalidArgument(fmt::format("the world size is {}; there is at least one process", plan.world_size), info());
  if (plan.rank && (*plan.rank < 0 || *plan.rank >= plan.world_size)) {
    throw InvalidArgument(fmt::format("rank {} is not within a world of {} processes (0 to {})", *plan.rank, plan.world_size, plan.world_size - 1),
                          info());
  }
  check_descriptors(plan.world_size);
  // An unusable UNISONO_INTERFACE is reported before the others wait for a rank that they could not reach.
  if (plan.world_size > 1 && plan.environment.has("UNISONO_INTERFACE")) own_address(plan.environment, {}, true);
  const JobIdentity& identity = plan.identity;
  if (identity.local_rank && *identity.local_rank < 0)
    throw InvalidArgument(fmt::format("the local rank is {}; it is at least 0", *identity.local_rank), info());
  if (identity.local_rank && identity.local_world_size && *identity.local_rank >= *identity.local_world_size) {
    throw InvalidArgument(fmt::format("local rank {} is not within the {} processes of this host", *identity.local_rank, *identity.local_world_size),
                          info());
  }
}

Plan explicit_plan(const JobRequest& request, std::optional<int> rank, std::optional<int> world_size, const Environment& environment) {
  Plan plan(environment);
  plan.rank = rank;
  plan.world_size = world_size.value_or(1);
  plan.group_name = request.group_name;
  plan.library = request.library;
  plan.timeout = join_timeout(request.timeout, environment);
  plan.identity.launcher = infer_launcher(environment);
  plan.identity.local_rank = request.local_rank ? request.local_rank : local_rank_from_environment(environment, rank.value_or(-1), plan.world_size);
  return plan;
}

std::chrono::milliseconds join_timeout(std::chrono::milliseconds requested, const Environment& environment) {
  const auto seconds = environment.get_int("UNISONO_TIMEOUT");
  if (seconds && *seconds <= 0)
    throw InvalidArgument(fmt::format("UNISONO_TIMEOUT is {}; it must be a positive number of seconds", *seconds), info());
  if (requested != default_timeout) return base::clamped(requested);
  return seconds ? std::chrono::seconds(*seconds) : default_join_timeout;
}

}  // namespace unisono::rendezvous
