#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <utility>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "launch/hosts/node_exchange.h"
#include "launch/job/mpi_ranks.h"
#include "launch/mpi/pmi_server.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto start_limit = 20s;
constexpr auto end_limit = 2s;
constexpr std::size_t most_output = std::size_t{64} << 20;

/// The attributes and actions of posix_spawn, which must be freed explicitly.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan(int in, int out) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    // The helper gets a process group of its own, so that Ctrl-C does not end it before the ranks.
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

/// Serves PMIx to the ranks of Open MPI, through the process `unisono-pmix`. That process ends with this object, and with this process however that
/// ends. On several hosts each launcher has one, and passes what its ranks tell all others (a fence) on to those of the other hosts.
class PmixHelper {
 public:
  /// Returns when the helper serves. Throws StartFailed where it does not.
  PmixHelper(const MpiPlaces& places, const std::string& job, MpiExchange exchange = {});
  ~PmixHelper();
  PmixHelper(const PmixHelper&) = delete;
  PmixHelper& operator=(const PmixHelper&) = delete;

  using Variables = std::vector<std::pair<std::string, std::string>>;
  /// Returns the variables that a rank of this host needs in its environment.
  const Variables& variables(int local_rank) const { return variables_[static_cast<std::size_t>(local_rank)]; }
  void wait_for(PollSet& set);

 private:
  /// Reads what the helper has written. Returns false if it has ended, or writes too much.
  bool read_some();
  void take_lines(const std::function<void(std::string_view line)>& take);
  void read_variables();
  void read_fences();
  /// "fence NAME HOST,HOST TEXT"
  void begin_fence(std::string_view line);
  void write_answers();

  std::vector<Variables> variables_;
  MpiExchange exchange_;
  pid_t pid_ = -1;
  base::FileDescriptor life_line_;  ///< its standard input
  base::FileDescriptor output_;
  std::string unread_, untold_;
};

PmixHelper::PmixHelper(const MpiPlaces& places, const std::string& job, MpiExchange exchange)
    : variables_(static_cast<std::size_t>(places.ranks())), exchange_(std::move(exchange)) {
  const std::string path = find_helper("unisono-pmix");
  if (path.empty())
    throw StartFailed(
        "this build has no unisono-pmix, which Open MPI's ranks need of their launcher (build with libpmix-dev, or use UNISONO_MPI=mpich)", 1);
  Pipe input, output;
  const SpawnPlan plan(input.reading.get(), output.writing.get());
  std::vector<std::string> words{path, job, std::to_string(places.own)};
  for (const MpiPlaces::Host& host : places.hosts) words.push_back(fmt::format("{}={}", host.name, host.ranks));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int failed = ::posix_spawn(&pid_, path.c_str(), &plan.actions, &plan.attributes, arguments.data(), environ);
  if (failed != 0) throw StartFailed(fmt::format("cannot run {}: {}", path, error_text(failed)), 1);
  life_line_ = std::move(input.writing);
  ::fcntl(life_line_.get(), F_SETFL, O_NONBLOCK);
  output.writing.reset();
  output_ = std::move(output.reading);
  try {
    read_variables();
  } catch (...) {
    ::kill(pid_, SIGKILL);
    reap(pid_);
    throw;
  }
}

bool PmixHelper::read_some() {
  constexpr std::size_t bytes_per_read = 65536;
  char buffer[bytes_per_read];
  const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
  if (got > 0) unread_.append(buffer, static_cast<std::size_t>(got));
  return (got > 0 || (got < 0 && errno == EINTR)) && unread_.size() <= most_output;
}

void PmixHelper::take_lines(const std::function<void(std::string_view line)>& take) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1)
    take(std::string_view(unread_).substr(begin, end - begin));
  unread_.erase(0, begin);
}

void PmixHelper::read_variables() {
  const base::Deadline deadline(start_limit);
  for (bool is_ready = false; !is_ready;) {
    pollfd waiting{output_.get(), POLLIN, 0};
    const int count = ::poll(&waiting, 1, deadline.poll_timeout());
    if (count == 0) throw StartFailed("unisono-pmix, which serves Open MPI's ranks, does not get ready", 1);
    if (count > 0 && !read_some()) throw StartFailed("unisono-pmix, which serves Open MPI's ranks, ended before it was ready", 1);
    take_lines([&](std::string_view line) {  // "0 NAME=VALUE"
      is_ready = is_ready || line == "ready";
      const std::size_t space = line.find(' '), equals = line.find('=');
      std::size_t rank = SIZE_MAX;
      if (space == std::string_view::npos || equals == std::string_view::npos || equals < space) return;
      std::from_chars(line.data(), line.data() + space, rank);
      if (rank < variables_.size()) variables_[rank].emplace_back(line.substr(space + 1, equals - space - 1), line.substr(equals + 1));
    });
  }
}

void PmixHelper::wait_for(PollSet& set) {
  if (!exchange_) return;
  if (output_) set.add(output_.get(), POLLIN, [this](short) { read_fences(); });
  if (life_line_ && !untold_.empty()) set.add(life_line_.get(), POLLOUT, [this](short) { write_answers(); });
}

void PmixHelper::read_fences() {
  if (!read_some()) return output_.reset();  // it has ended; the ranks see that
  take_lines([this](std::string_view line) { begin_fence(line); });
}

void PmixHelper::begin_fence(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string kind, name, among, text;
  if (!(words >> kind >> name >> among) || kind != "fence") return;
  words >> text;  // which may be empty
  std::vector<int> hosts;
  std::istringstream list(among);
  for (std::string host; std::getline(list, host, ',');) hosts.push_back(std::atoi(host.c_str()));
  exchange_("pmix" + name, hosts, text, [this, name](const std::vector<std::string>& texts) {
    // The data of the hosts follow each other; each is written in hexadecimal digits.
    std::string all;
    for (const std::string& one : texts) all += one;
    untold_ += fmt::format("fence {} {}\n", name, all);
    write_answers();
  });
}

/// Writes as much as the pipe takes.
void PmixHelper::write_answers() {
  const ssize_t written = ::write(life_line_.get(), untold_.data(), untold_.size());
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (written < 0) untold_.clear();
  else untold_.erase(0, static_cast<std::size_t>(written));
}

PmixHelper::~PmixHelper() {
  life_line_.reset();
  // The helper cleans up and ends by itself, or is ended after a deadline.
  if (const base::FileDescriptor pidfd = open_pidfd(pid_)) {
    const base::Deadline deadline(end_limit);
    pollfd waiting{pidfd.get(), POLLIN, 0};
    while (::poll(&waiting, 1, deadline.poll_timeout()) < 0 && errno == EINTR) {
    }
    if (waiting.revents == 0) ::kill(pid_, SIGKILL);
  }
  reap(pid_);
}

/// Returns where the ranks are. Hosts that call themselves alike are told apart by their numbers.
MpiPlaces places_of(const Hosts& among) {
  MpiPlaces places{.own = among.terms().node};
  const std::vector<JobHost> hosts = among.all();
  std::vector<std::string> names;
  for (const JobHost& host : hosts) names.push_back(host.where.substr(0, host.where.rfind(':')));  // without the process's number
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const bool is_unique = std::ranges::count(names, names[i]) == 1;
    places.hosts.push_back({.name = is_unique ? names[i] : fmt::format("{}-{}", names[i], i), .ranks = hosts[i].ranks});
  }
  return places;
}

/// Serves PMI (MPICH) and PMIx (Open MPI), unless UNISONO_MPI names one of them, because the launcher cannot know which one the program or the
/// plug-in is linked to.
class MpiWorld final : public MpiRanks {
 public:
  MpiWorld(const std::string& kind, int attempt, const Hosts& hosts);

  void prepare(int local_rank, ChildPlan& plan) override;
  void started() override {
    if (pmi_) pmi_->started();
  }
  void wait_for(PollSet& set) override;

 private:
  void serve_openmpi(const std::string& kind, const std::string& job, const MpiExchange& exchange);

  const MpiPlaces places_;
  std::unique_ptr<PmiServer> pmi_;
  std::unique_ptr<PmixHelper> pmix_;
  std::unique_ptr<NodeExchange> exchange_;  ///< null on one host; ends before those that it calls
};

MpiWorld::MpiWorld(const std::string& kind, int attempt, const Hosts& hosts)
    : places_(places_of(hosts)), exchange_(hosts.make_exchange("mpi", attempt)) {
  MpiExchange exchange;
  if (exchange_) {
    exchange = [this](const std::string& name, const std::vector<int>& others, std::string own, NodeExchange::Done done) {
      exchange_->begin(name, others, std::move(own), std::move(done));
    };
  }
  const std::string job = fmt::format("unisono-{}-{}", hosts.terms().job_name, attempt);
  if (kind != "openmpi") pmi_ = std::make_unique<PmiServer>(places_, job, exchange);
  if (kind != "mpich") serve_openmpi(kind, job, exchange);
}

void MpiWorld::serve_openmpi(const std::string& kind, const std::string& job, const MpiExchange& exchange) {
  if (kind.empty() && find_helper("unisono-pmix").empty()) return;
  try {
    pmix_ = std::make_unique<PmixHelper>(places_, job, exchange);
  } catch (const StartFailed& failed) {  // the helper of a wheel finds no PMIx on some machines, and MPICH's ranks need none
    if (!kind.empty()) throw;
    base::warn(std::string(failed.what()) + "; ranks of Open MPI will not find each other");
  }
}

void MpiWorld::prepare(int local_rank, ChildPlan& plan) {
  EnvironmentBlock& environment = plan.environment;
  if (pmi_) {
    plan.pmi_fd = pmi_->rank_end(local_rank);
    environment.set("PMI_FD", plan.pmi_fd);
    environment.set("PMI_RANK", places_.first_rank() + local_rank);
    environment.set("PMI_SIZE", places_.world_size());
    environment.set("MPI_LOCALRANKID", local_rank);
    environment.set("MPI_LOCALNRANKS", places_.ranks());
  }
  if (pmix_) {
    for (const auto& [name, value] : pmix_->variables(local_rank)) environment.set(name, value);
    // Open MPI 4 treats ranks as lone processes unless it recognises their launcher. This variable (of jsrun) stands for ranks that a launcher with
    // PMIx started directly.
    environment.set("JSM_JSRUN_PORT", 1);
  }
}

void MpiWorld::wait_for(PollSet& set) {
  if (pmi_) pmi_->wait_for(set);
  if (pmix_) pmix_->wait_for(set);
  if (exchange_) exchange_->wait_for(set);
}

}  // namespace

std::unique_ptr<MpiRanks> serve_mpi(const JobOptions& options, int attempt, const Hosts& hosts) {
  const std::string kind = options.environment.get("UNISONO_MPI").value_or("");
  if (!kind.empty() && kind != "openmpi" && kind != "mpich") throw StartFailed(fmt::format("UNISONO_MPI is \"{}\"; it is openmpi or mpich", kind), 1);
  return std::make_unique<MpiWorld>(kind, attempt, hosts);
}

}  // namespace unisono::launcher
