#include "bench/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/deadline.h"
#include "base/printable.h"
#include "bench/options.h"
#include "common/own_programs.h"
#include "launch/process/child.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::tools {

namespace {

struct MpiPeer {
  std::string_view name;
  std::string_view title;
  std::array<std::string_view, 2> launchers;  // Debian's name first, because it is unambiguous
  std::string_view packages;
};

constexpr std::array mpi_peers = {MpiPeer{"openmpi", "Open MPI", {"mpirun.openmpi", "mpirun"}, "libopenmpi-dev and openmpi-bin"},
                                  MpiPeer{"mpich", "MPICH", {"mpiexec.mpich", "mpiexec.hydra"}, "libmpich-dev and mpich"}};

/// Returns the driver that belongs to this command.
std::string driver_of(const std::string& set) { return helper("unisono-bench-" + set).path; }

std::optional<std::string> launcher_of(const MpiPeer& mpi, const base::Environment& environment) {
  for (const std::string_view name : mpi.launchers) {
    try {
      return launcher::find_program(std::string(name), environment);
    } catch (const launcher::StartFailed&) {  // NOLINT(bugprone-empty-catch): another name may be found
    }
  }
  return std::nullopt;
}

/// Asks the driver about the peers it is linked with. Returns nothing if the driver does not run here.
std::map<std::string, std::string> describe(const std::string& driver, const base::Environment& environment, const launcher::SignalScope& signals,
                                            const launcher::Watchdog& watchdog) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw LaunchFailed("cannot make a pipe: " + launcher::error_text(errno));
  const base::FileDescriptor reading(ends[0]);
  base::FileDescriptor writing(ends[1]);
  launcher::ChildPlan plan{.environment = launcher::EnvironmentBlock(environment), .stdout_fd = writing.get(), .signals = &signals};
  const launcher::Child child = launcher::start_child({.path = driver, .arguments = {driver, "--describe"}}, plan, watchdog);
  writing.reset();
  std::string text;
  const base::Deadline deadline(std::chrono::seconds(30));
  for (;;) {
    pollfd wait{.fd = reading.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, deadline.poll_timeout()) == 0) break;
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(reading.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::kill(-child.pid, SIGKILL);  // it has answered, or it hangs
  watchdog.forget(child.pid);
  ::waitpid(child.pid, nullptr, 0);
  std::map<std::string, std::string> versions;
  const nlohmann::json peers = nlohmann::json::parse(text, nullptr, false);
  if (peers.is_discarded()) throw LaunchFailed("the bench's program " + driver + " does not run here (its message stands above)");
  for (const auto& peer : peers) versions[peer.at("name")] = peer.at("version");
  return versions;
}

LaunchFailed missing(std::string_view peer, std::string_view what, std::string_view packages) {
  return LaunchFailed("the peer " + std::string(peer) + " is not available: " + std::string(what),
                      {.hint = "install " + std::string(packages) + " and build again, or leave it out of --peers"});
}

std::vector<std::string> launch_command(const std::string& set, const std::string& launcher, int ranks, bool oversubscribed) {
  const std::string n = std::to_string(ranks);
  // In every set the ranks bind themselves.
  if (set == "openmpi") {
    std::vector<std::string> command = {launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", n};
    if (oversubscribed) command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
    return command;
  }
  if (set == "mpich") return {launcher, "-n", n};
  return {launcher, "run", "-n", n, "--grace", "1", "--"};
}

}  // namespace

std::vector<BenchSetup> bench_setups(const std::vector<std::string>& peers, int ranks, bool oversubscribed, const base::Environment& environment,
                                     const launcher::SignalScope& signals, const launcher::Watchdog& watchdog) {
  const auto asked_for = [&](std::string_view peer) { return std::ranges::find(peers, peer) != peers.end(); };
  for (const std::string& peer : peers)
    if (std::ranges::find(peer_names(), peer) == peer_names().end()) {
      const std::string_view meant = base::nearest(peer, peer_names());
      throw InvalidArgument(meant.empty() ? fmt::format("unknown peer '{}'; peers are {}", peer, fmt::join(peer_names(), ", "))
                                          : fmt::format("unknown peer '{}'; did you mean '{}'?", peer, meant));
    }

  std::vector<BenchSetup> setups;
  for (const MpiPeer& mpi : mpi_peers) {
    if (!asked_for(mpi.name)) continue;
    const std::string name(mpi.name);
    const std::string driver = driver_of(name);
    if (driver.empty()) throw missing(mpi.name, "unisono was built without " + std::string(mpi.title), mpi.packages);
    const std::optional<std::string> launcher = launcher_of(mpi, environment);
    if (!launcher) throw missing(mpi.name, std::string(mpi.launchers[0]) + " was not found along PATH", mpi.packages);
    setups.push_back({.name = name, .driver = driver, .launcher = launch_command(name, *launcher, ranks, oversubscribed), .peers = {name}});
  }
  if (setups.empty()) {
    const std::string driver = driver_of("plain");
    if (driver.empty())
      throw LaunchFailed("the bench's program libexec/unisono/unisono-bench-plain is missing beside this command", {.hint = "build or install it"});
    setups.push_back({.name = "plain", .driver = driver, .launcher = launch_command("plain", path_of_command(), ranks, oversubscribed)});
  }
  if (asked_for("gloo")) setups.front().peers.emplace_back("gloo");
  if (asked_for("ucx")) setups.front().peers.insert(setups.front().peers.end(), {"ucx", "ucx-engine"});
  for (BenchSetup& setup : setups) {
    setup.versions = describe(setup.driver, environment, signals, watchdog);
    if (setup.name == setups.front().name && asked_for("gloo") && !setup.versions.contains("gloo"))
      throw missing("gloo", "unisono was built without Gloo", "libgloo-dev");
    if (setup.name == setups.front().name && asked_for("ucx") && !setup.versions.contains("ucx"))
      throw missing("ucx", "unisono was built without UCX", "libucx-dev");
  }
  return setups;
}

}  // namespace unisono::tools
