// The parts that the chooser loads: the engine and the bootstrap of one kind of MPI.
#include <cstdlib>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "engines/mpi/engine.h"
#include "engines/mpi/launched.h"
#include "engines/mpi/library.h"
#include "engines/mpi/exit_timer.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::engines::mpi {
namespace {

/// Returns how long the ranks of a job wait for each other, as in `initialize`.
std::chrono::seconds join_limit() {
  const char* const text = std::getenv("UNISONO_TIMEOUT");
  const int seconds = text != nullptr ? std::atoi(text) : 0;
  constexpr int default_seconds = 120;
  return std::chrono::seconds(seconds > 0 ? seconds : default_seconds);
}

/// Sets this rank's line and returns those of all ranks, which rank 0 collects: a few requests for each rank. When it returns, all have come.
std::vector<std::string> exchange(const EngineOptions& options, std::string_view round, const std::string& own) {
  std::vector<std::string> lines{own};
  if (options.size() == 1) return lines;
  const std::string all = fmt::format("{}/all", round);
  options.store->set(fmt::format("{}/{}", round, options.rank), own);
  if (options.rank == 0) {
    std::string text;
    for (int r = 0; r < options.size(); ++r) text += options.store->get(fmt::format("{}/{}", round, r), options.timeout) + "\n";
    options.store->set(all, text);
  }
  std::istringstream text(options.store->get(all, options.timeout));
  lines.resize(static_cast<std::size_t>(options.size()));
  for (std::string& line : lines) std::getline(text, line);
  return lines;
}

/// Checks that all ranks use the same MPI, before they wait for each other within it.
void agree_on_mpi(const EngineOptions& options) {
  const bool started = Library::is_joined() || started_by(kind) || options.size() == 1;
  const auto lines = exchange(options, "kind", started ? std::string(kind) : "none");
  for (int r = 0; r < options.size(); ++r) {
    const std::string& line = lines[static_cast<std::size_t>(r)];
    const int global = options.global_ranks[static_cast<std::size_t>(r)];
    if (line == "none") {
      throw BackendUnavailable(fmt::format("rank {} was not started by an MPI launcher (of {}), so it is alone for MPI", global, kind),
                               {.hint = "start the ranks with `mpirun -n`, or with `unisono run --backend mpi`"});
    }
    if (line != lines[static_cast<std::size_t>(options.rank)]) {
      throw BackendUnavailable(fmt::format("rank {} uses {}, and rank {} uses {}: two kinds of MPI cannot talk to each other", global, line,
                                           options.global_ranks[static_cast<std::size_t>(options.rank)], kind),
                               {.hint = "set UNISONO_MPI to the same kind on all ranks"});
    }
  }
}

/// Checks that rank r of the job is rank r of MPI.
void agree_on_ranks(const EngineOptions& options, const Library& library) {
  const auto lines = exchange(options, "place", fmt::format("{} {}", library.rank(), library.size()));
  for (int r = 0; r < options.size(); ++r) {
    std::istringstream line(lines[static_cast<std::size_t>(r)]);
    int rank = -1, size = 0;
    line >> rank >> size;
    const int global = options.global_ranks[static_cast<std::size_t>(r)];
    if (rank != global) {
      throw InvalidArgument(fmt::format("rank {} of the job is rank {} of {} by MPI: the two must be the same", global, rank, size),
                            {.hint = "unset the variables of the launcher that is not meant"});
    }
    if (size != library.size()) {
      throw InvalidArgument(fmt::format("rank {} belongs to an MPI of {} ranks, and this one to an MPI of {}", global, size, library.size()),
                            {.hint = "start all ranks with one mpirun"});
    }
  }
}

EngineTraits traits() { return {}; }

std::unique_ptr<Engine> make(const EngineOptions& options) {
  agree_on_mpi(options);
  Library& library = Library::join(options.timeout);
  if (library.is_given_up()) throw BackendUnavailable(library.given_up());
  agree_on_ranks(options, library);
  return std::make_unique<MpiEngine>(options);
}

std::optional<Bootstrap> bootstrap(bool join) {
  if (!join && !Library::is_the_programs()) return std::nullopt;
  Library& library = Library::join(join_limit());
  Bootstrap result;
  result.rank = library.rank();
  result.size = library.size();
  result.broadcast = [&library](const std::string& of_rank_0) {
    library.require_call();
    const auto lock = library.lock();
    const ExitTimer overdue(join_limit(), "MPI_Bcast");
    unsigned long length = of_rank_0.size();
    check(MPI_Bcast(&length, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD), "MPI_Bcast");
    std::string text = of_rank_0;
    text.resize(length);
    check(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return text;
  };
  return result;
}

}  // namespace
}  // namespace unisono::engines::mpi

extern "C" [[gnu::visibility("default")]] const unisono::Plugin* unisono_mpi_plugin() {
  using namespace unisono;
  static const Plugin plugin{plugin_abi, "mpi", "MPI (" UNISONO_MPI_KIND ")", engines::mpi::traits, engines::mpi::make, engines::mpi::bootstrap};
  return &plugin;
}
