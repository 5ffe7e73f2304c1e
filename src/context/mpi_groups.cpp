// Groups of the processes of a communicator of the program's own MPI, and the way back.
//
// The processes tell each other through MPI what they are in their job, and each of them judges the same lines: all come to the same error, or form
// the same group. The way back goes the same way through the group's own connections.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/error_place.h"
#include "context/state.h"
#include "context/world.h"
#include "rendezvous/identity.h"
#include "rendezvous/rendezvous.h"
#include "unisono/context.h"
#include "unisono/detail/mpi_members.h"
#include "unisono/detail/request.h"
#include "unisono/error.h"

namespace unisono {
namespace {

using context::State;

constexpr const char* from_label = "from_mpi";
constexpr const char* to_label = "to_mpi";

/// What a process of the communicator is.
struct Line {
  enum Kind : std::int64_t { outside, process, thread } kind = outside;
  std::int64_t rank = -1, world_size = 0;
  std::uint64_t world = 0;  // see State::mark
};

Line own_line(int processes) {
  if (const State* const state = context::initialized()) {
    return {context::of_thread() != nullptr ? Line::thread : Line::process, state->rank, state->world_size, state->mark};
  }
  const bool is_alone = processes == 1 && !rendezvous::launched_as_many(base::Environment::process());
  return is_alone ? Line{Line::process, 0, 1, 0} : Line{};
}

std::chrono::milliseconds timeout_of(const GroupOptions& options) {
  if (options.timeout) return *options.timeout;
  if (const State* const state = context::initialized()) return state->world->implementation()->facts().timeout();
  return rendezvous::join_timeout(rendezvous::default_timeout, base::Environment::process());
}

/// Returns the lines of all processes. MPI has no wait with a deadline, so it is asked again and again.
std::vector<Line> exchange(std::unique_ptr<detail::MpiCommunicator>& communicator, const base::Deadline& deadline) {
  struct Memory {
    std::unique_ptr<detail::MpiCommunicator> communicator;
    Line own;
    std::vector<Line> all;
  };
  const int processes = communicator->size();
  auto memory =
      std::make_unique<Memory>(Memory{std::move(communicator), own_line(processes), std::vector<Line>(static_cast<std::size_t>(processes))});
  memory->communicator->gather(&memory->own, memory->all.data(), sizeof(Line));
  while (!memory->communicator->is_gathered()) {
    if (deadline.passed()) {
      static_cast<void>(memory.release());  // MPI may still write to it
      throw Timeout(fmt::format("a process of the communicator did not call within {} ms", deadline.timeout().count()),
                    {.operation = from_label, .hint = "from_mpi is collective over the communicator"});
    }
    ::sched_yield();
  }
  communicator = std::move(memory->communicator);
  return std::move(memory->all);
}

/// Finds two members with the same number.
std::optional<std::pair<std::size_t, std::size_t>> same(const std::vector<int>& numbers) {
  std::map<int, std::size_t> seen;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [first, is_new] = seen.try_emplace(numbers[i], i);
    if (!is_new) return std::pair(first->second, i);
  }
  return std::nullopt;
}

/// Returns the ranks of the world. Throws InvalidArgument where the processes are not those of one job.
std::vector<int> ranks_of(const std::vector<Line>& lines) {
  const auto refuse = [](const std::string& what, const char* hint) { throw InvalidArgument(what, {.operation = from_label, .hint = hint}); };
  std::vector<int> ranks;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.kind == Line::outside) {
      refuse(fmt::format("process {} of the communicator has not joined the job", i),
             "each process must call initialize first, or all of MPI_COMM_WORLD call from_mpi first");
    }
    if (line.kind == Line::thread) {
      refuse(fmt::format("process {} of the communicator calls in a thread of run_threads", i), "MPI knows processes, not threads");
    }
    if (line.world != lines[0].world || line.world_size != lines[0].world_size) {
      refuse(fmt::format("processes 0 and {} of the communicator have joined different jobs", i), "the processes of a group are those of one job");
    }
    ranks.push_back(static_cast<int>(line.rank));
  }
  if (const auto twice = same(ranks)) {
    refuse(fmt::format("processes {} and {} of the communicator are both rank {} of their job, so they have joined different ones", twice->first,
                       twice->second, ranks[twice->first]),
           "the processes of a group are those of one job");
  }
  return ranks;
}

}  // namespace

detail::MpiCommunicator::~MpiCommunicator() = default;

ProcessGroup detail::group_of_mpi(std::unique_ptr<MpiCommunicator> communicator, const GroupOptions& options) {
  return base::with_place(options.where, [&] {
    const base::Deadline deadline(timeout_of(options));
    auto lines = exchange(communicator, deadline);
    const auto is_outside = [](const Line& line) { return line.kind == Line::outside; };
    if (communicator->is_whole() && std::all_of(lines.begin(), lines.end(), is_outside)) {
      unisono::sync();
      lines = exchange(communicator, deadline);
    }
    return new_group(ranks_of(lines), options).value();
  });
}

std::vector<int> detail::ranks_in_mpi(const ProcessGroup& group, int own_rank, int processes, std::source_location where) {
  std::array<int, 2> own{own_rank, processes};
  std::vector<int> all(2 * static_cast<std::size_t>(group.size()));
  detail::run({.operation = Operation::all_gather,
               .in = TensorView(own.data(), DType::int32, own.size()),
               .out = TensorView(all.data(), DType::int32, all.size()),
               .label = to_label},
              group, {.where = where});
  return base::with_place(where, [&] {
    const auto refuse = [&](const std::string& what, const char* hint) {
      throw InvalidArgument(what, {.operation = to_label, .group = group.name(), .rank = group.rank(), .hint = hint});
    };
    std::vector<int> ranks;
    for (std::size_t r = 0; r < all.size() / 2; ++r) {
      if (all[2 * r] < 0) refuse(fmt::format("MPI is not initialized in the process of rank {}", r), "each member must call MPI_Init first");
      if (all[2 * r + 1] != all[1]) refuse(fmt::format("ranks 0 and {} are processes of different MPIs", r), "start them with one mpirun");
      ranks.push_back(all[2 * r]);
    }
    if (const auto twice = same(ranks)) {
      refuse(fmt::format("ranks {} and {} are both process {} of their MPI_COMM_WORLD, which is not the same", twice->first, twice->second,
                         ranks[twice->first]),
             "start them with one mpirun, or with `unisono run --backend mpi`");
    }
    return ranks;
  });
}

}  // namespace unisono
