#include "bench/setups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "base/printable.h"
#include "bench/mpi_folder.h"
#include "bench/options.h"
#include "common/child.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

/// An MPI of the system.
struct MpiPeer {
  std::string_view name;
  std::string_view title;
  std::array<std::string_view, 2> launchers;  // Debian's name first, because it is unambiguous
  std::string_view packages;
};

constexpr std::array mpi_peers = {MpiPeer{"openmpi", "Open MPI", {"mpirun.openmpi", "mpirun"}, "libopenmpi-dev and openmpi-bin"},
                                  MpiPeer{"mpich", "MPICH", {"mpiexec.mpich", "mpiexec.hydra"}, "libmpich-dev and mpich"}};

/// Returns the driver, or a part of one, that belongs to this command.
std::string driver_of(const std::string& set) { return helper("unisono-bench-" + set).path; }

std::optional<std::string> launcher_of(const MpiPeer& mpi) {
  for (const std::string_view name : mpi.launchers)
    if (auto path = find_tool(std::string(name))) return path;
  return std::nullopt;
}

struct Description {
  std::map<std::string, std::string> versions = {};  ///< of the peers that the driver measures
  std::string why_not = {};                          ///< it cannot measure the MPI that it was asked for
};

/// Asks the driver about its peers. `mpi`: a name or a file.
Description describe(const std::string& driver, const std::string& mpi) {
  const Captured captured = capture({driver, "--describe", mpi}, std::chrono::seconds(30), ChildManner::Errors::inherited);
  const nlohmann::json told = nlohmann::json::parse(captured.printed, nullptr, false);
  if (told.is_discarded()) throw LaunchFailed("the bench's program " + driver + " does not run here (its message is above)");
  if (told.is_object()) return {.why_not = told.at("why_not")};
  Description description;
  for (const auto& peer : told) description.versions[peer.at("name")] = peer.at("version");
  return description;
}

LaunchFailed missing(std::string_view peer, std::string_view what, std::string_view packages) {
  return LaunchFailed("the peer " + std::string(peer) + " is not available: " + std::string(what),
                      {.hint = "install " + std::string(packages) + " and build again, or leave it out of --peers"});
}

std::string driver_of_ranks(const std::string& set) {
  std::string driver = driver_of(set);
  if (driver.empty())
    throw LaunchFailed(fmt::format("the bench's program libexec/unisono/unisono-bench-{} is missing beside this command", set),
                       {.hint = "build or install it"});
  return driver;
}

// In every set the ranks bind themselves.

std::vector<std::string> launch_openmpi(const std::string& launcher, int ranks, bool oversubscribed) {
  std::vector<std::string> command = {launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", std::to_string(ranks)};
  if (oversubscribed) command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
  return command;
}

std::vector<std::string> launch_hydra(const std::string& launcher, int ranks) { return {launcher, "-n", std::to_string(ranks)}; }

BenchSetup setup_of_system(const MpiPeer& mpi, int ranks, bool oversubscribed) {
  const std::string name(mpi.name);
  if (driver_of("mpi." + name + ".so").empty()) throw missing(mpi.name, "unisono was built without " + std::string(mpi.title), mpi.packages);
  const std::optional<std::string> launcher = launcher_of(mpi);
  if (!launcher) throw missing(mpi.name, std::string(mpi.launchers[0]) + " was not found along PATH", mpi.packages);
  BenchSetup setup{.name = name, .driver = driver_of_ranks("mpi"), .peers = {name}};
  setup.launcher = name == "openmpi" ? launch_openmpi(*launcher, ranks, oversubscribed) : launch_hydra(*launcher, ranks);
  Description description = describe(setup.driver, name);
  if (!description.why_not.empty()) throw missing(mpi.name, description.why_not, mpi.packages);
  setup.versions = std::move(description.versions);
  return setup;
}

/// Returns "openmpi" for "Open MPI v5.0.11".
std::string_view family_of(std::string_view version) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> families = {
      {{"Open MPI", "openmpi"}, {"Intel", "impi"}, {"MVAPICH", "mvapich"}, {"MPICH", "mpich"}}};
  const auto* const known = std::ranges::find_if(families, [&](const auto& each) { return version.find(each.first) != std::string_view::npos; });
  return known == families.end() ? "mpi" : known->second;
}

/// Returns "5" for "Open MPI v5.0.11"; empty where there is no number.
std::string first_number_of(const std::string& version) {
  std::istringstream words(version);
  for (std::string word; words >> word;) {
    if (word.starts_with('v')) word.erase(0, 1);
    const auto end = std::ranges::find_if_not(word, [](unsigned char letter) { return std::isdigit(letter) != 0; });
    if (end != word.begin()) return {word.begin(), end};
  }
  return {};
}

BenchSetup setup_of_folder(const std::string& folder, int ranks, bool oversubscribed) {
  const MpiFolder mpi = mpi_in(folder);
  BenchSetup setup{.driver = driver_of_ranks("mpi")};
  Description description;
  for (const std::string& library : mpi.libraries) {
    Description of_this = describe(setup.driver, library);
    const bool is_measured = of_this.why_not.empty();
    if (!is_measured && !setup.library.empty()) continue;  // the first one's objection is told
    setup.library = library;
    description = std::move(of_this);
    if (is_measured) break;
  }
  if (!description.why_not.empty()) throw LaunchFailed(fmt::format("the MPI in {} cannot be measured: {}", folder, description.why_not));
  const std::string version = description.versions.at(setup.library);
  description.versions.erase(setup.library);
  const std::string_view family = family_of(version);
  const std::string number = first_number_of(version);
  setup.name = number.empty() ? std::string(family) : fmt::format("{}-{}", family, number);
  setup.peers = {setup.name};
  setup.versions = std::move(description.versions);
  setup.versions[setup.name] = version;
  setup.launcher = family == "openmpi" ? launch_openmpi(mpi.launcher, ranks, oversubscribed) : launch_hydra(mpi.launcher, ranks);
  if (family == "impi") setup.variables["I_MPI_PIN"] = "0";
  return setup;
}

/// `peer`: one that the driver looks for only if it is asked for; or none.
BenchSetup plain_setup(int ranks, const std::string& peer) {
  BenchSetup setup{.name = "plain", .driver = driver_of_ranks("plain")};
  setup.launcher = {path_of_command(), "run", "-n", std::to_string(ranks), "--bind", "none", "--grace", "1", "--"};
  Description description = describe(setup.driver, peer);
  if (!description.why_not.empty())
    throw LaunchFailed(fmt::format("the peer {} is not available: {}", peer, description.why_not), {.hint = "leave it out of --peers"});
  setup.versions = std::move(description.versions);
  if (!peer.empty()) setup.peers = {peer};
  return setup;
}

void check_name(const std::string& peer) {
  if (is_path(peer) || std::ranges::find(peer_names(), peer) != peer_names().end()) return;
  const std::string_view meant = base::nearest(peer, peer_names());
  if (!meant.empty()) throw InvalidArgument(fmt::format("unknown peer '{}'; did you mean '{}'?", peer, meant));
  throw InvalidArgument(fmt::format("unknown peer '{}'; peers are {}, and folders of an MPI, written with a /", peer, fmt::join(peer_names(), ", ")));
}

}  // namespace

std::vector<BenchSetup> bench_setups(const std::vector<std::string>& peers, int ranks, bool oversubscribed) {
  const auto asked_for = [&](std::string_view peer) { return std::ranges::find(peers, peer) != peers.end(); };
  for (const std::string& peer : peers) check_name(peer);
  std::vector<BenchSetup> setups;
  for (const MpiPeer& mpi : mpi_peers)
    if (asked_for(mpi.name)) setups.push_back(setup_of_system(mpi, ranks, oversubscribed));
  for (const std::string& peer : peers) {
    if (!is_path(peer)) continue;
    BenchSetup setup = setup_of_folder(peer, ranks, oversubscribed);
    if (const auto same = std::ranges::find(setups, setup.name, &BenchSetup::name); same != setups.end())
      throw InvalidArgument(fmt::format("two peers are {}: {} and {}", setup.name, same->library, setup.library),
                            {.hint = "measure them one by one"});
    setups.push_back(std::move(setup));
  }
  // UCX is not for the processes of an MPI, which may bring a UCX of its own.
  if (setups.empty() || asked_for("ucx")) setups.push_back(plain_setup(ranks, asked_for("nccl") ? "nccl" : ""));
  if (asked_for("ucx")) {
    if (!setups.back().versions.contains("ucx")) throw missing("ucx", "unisono was built without UCX", "libucx-dev");
    setups.back().peers = {"ucx", "ucx-engine"};
  }
  if (asked_for("gloo")) {
    if (!setups.front().versions.contains("gloo")) throw missing("gloo", "unisono was built without Gloo", "libgloo-dev");
    setups.front().peers.emplace_back("gloo");
  }
  return setups;
}

}  // namespace unisono::tools
