#include "launch/mpi/pmix_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/deadline.h"
#include "launch/process/pidfd.h"
#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto start_limit = 20s;
constexpr auto end_limit = 2s;
constexpr std::size_t most_output = std::size_t{64} << 20;

struct Pipe {
  base::FileDescriptor reading, writing;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw StartFailed("cannot make a pipe: " + error_text(errno), 1);
    reading = base::FileDescriptor(ends[0]);
    writing = base::FileDescriptor(ends[1]);
  }
};

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

}  // namespace

std::string PmixHelper::program() { return find_helper("unisono-pmix"); }

PmixHelper::PmixHelper(const MpiPlaces& places, const std::string& job, MpiExchange exchange)
    : variables_(static_cast<std::size_t>(places.ranks())), exchange_(std::move(exchange)) {
  const std::string path = program();
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
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    throw;
  }
}

void PmixHelper::read_variables() {
  const base::Deadline deadline(start_limit);
  std::string text;
  while (!text.ends_with("ready\n")) {
    pollfd waiting{output_.get(), POLLIN, 0};
    const int count = ::poll(&waiting, 1, deadline.poll_timeout());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) throw StartFailed("unisono-pmix, which serves Open MPI's ranks, does not get ready", 1);
    constexpr std::size_t bytes_per_read = 4096;
    char buffer[bytes_per_read];
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text.size() > most_output) throw StartFailed("unisono-pmix, which serves Open MPI's ranks, ended before it was ready", 1);
    text.append(buffer, static_cast<std::size_t>(got));
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const std::size_t space = line.find(' '), equals = line.find('=');
    int rank = -1;
    if (space == std::string_view::npos || equals == std::string_view::npos || equals < space) continue;
    std::from_chars(line.data(), line.data() + space, rank);
    if (rank < 0 || static_cast<std::size_t>(rank) >= variables_.size()) continue;
    variables_[static_cast<std::size_t>(rank)].emplace_back(line.substr(space + 1, equals - space - 1), line.substr(equals + 1));
  }
}

void PmixHelper::wait_for(PollSet& set) {
  if (!exchange_) return;
  if (output_) set.add(output_.get(), POLLIN, [this](short) { hear(); });
  if (life_line_ && !untold_.empty()) set.add(life_line_.get(), POLLOUT, [this](short) { tell(); });
}

void PmixHelper::hear() {
  constexpr std::size_t bytes_per_read = 65536;
  char buffer[bytes_per_read];
  const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0 || unread_.size() > most_output) return output_.reset();  // it has ended; the ranks see that
  unread_.append(buffer, static_cast<std::size_t>(got));
  for (std::size_t end = 0; (end = unread_.find('\n')) != std::string::npos; unread_.erase(0, end + 1)) {
    begin_fence(std::string_view(unread_).substr(0, end));
  }
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
    tell();
  });
}

/// Writes as much as the pipe takes.
void PmixHelper::tell() {
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
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace unisono::launcher
