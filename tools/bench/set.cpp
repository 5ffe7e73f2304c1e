#include "bench/set.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/printable.h"
#include "bench/options.h"
#include "common/child.h"
#include "harness/arena.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

/// Opens both ends, so that a reader gets no end of file before a rank has opened its end.
base::FileDescriptor make_fifo(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw LaunchFailed("cannot make " + path + ": " + launcher::error_text(errno));
  base::FileDescriptor fifo(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fifo) throw LaunchFailed("cannot open " + path + ": " + launcher::error_text(errno));
  return fifo;
}

}  // namespace

BenchSet::BenchSet(const BenchSetup& setup, bench::Plan plan, const std::filesystem::path& folder, const base::Environment& environment,
                   launcher::SignalScope& signals, const launcher::Watchdog& watchdog)
    : setup_(setup), plan_(std::move(plan)), signals_(signals), watchdog_(watchdog) {
  std::filesystem::create_directory(folder);
  // The ranks open anonymous memory by way of this process, so nothing is left behind however this process ends.
  arena_.reset(::memfd_create("unisono-bench", MFD_CLOEXEC));
  if (!arena_ || ::ftruncate(arena_.get(), static_cast<off_t>(bench::Arena::bytes(plan_.ranks))) != 0)
    throw LaunchFailed("cannot make shared memory: " + launcher::error_text(errno));
  plan_.folder = folder.string();
  plan_.arena = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(arena_.get());
  control_ = make_fifo(plan_.control());
  events_ = make_fifo(plan_.events());
  const std::string plan_file = (folder / "plan.json").string();
  std::ofstream(plan_file) << bench::to_json(plan_);

  std::vector<std::string> arguments = setup_.launcher;
  arguments.push_back(setup_.driver);
  arguments.push_back(plan_file);
  const base::FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  launcher::ChildPlan child{.environment = launcher::EnvironmentBlock(environment),
                            .stdin_fd = nothing.get(),
                            .stdout_fd = STDERR_FILENO,  // only the table goes to standard output
                            .signals = &signals_};
  if (!child.environment.has("OMP_NUM_THREADS")) child.environment.set("OMP_NUM_THREADS", 1);  // the same in every set
  for (const auto& [name, value] : setup_.variables)
    if (!child.environment.has(name)) child.environment.set(name, value);
  child_ = launcher::start_child({.path = arguments.front(), .arguments = arguments}, child, watchdog_);
  try {
    backend_ = next_event().at("backend");
    waits_for_order_ = true;
  } catch (...) {
    end_quietly();
    throw;
  }
}

BenchSet::~BenchSet() { end_quietly(); }

nlohmann::json BenchSet::round(int number, const std::function<void(double part)>& on_progress) {
  order(number);
  nlohmann::json event = next_event();
  for (; event.contains("part"); event = next_event()) on_progress(event.at("part").get<double>());
  waits_for_order_ = true;  // it ends by itself after a wrong result
  if (event.contains("wrong")) throw LaunchFailed(event.at("wrong").get<std::string>());
  return event;
}

void BenchSet::finish() {
  order(-1);
  if (!wait_for_exit(std::chrono::seconds(60))) throw LaunchFailed("the processes of the set " + setup_.name + " do not end");
  if (status_ != 0) explain_end();
}

void BenchSet::order(int number) {
  waits_for_order_ = false;
  const std::string text = std::to_string(number) + "\n";
  // Each order is a few bytes, read before the next one, so the pipe is never full.
  if (::write(control_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw LaunchFailed("cannot reach the ranks of the set " + setup_.name + ": " + launcher::error_text(errno));
}

nlohmann::json BenchSet::next_event() {
  const base::Deadline deadline(plan_.timeout);
  for (;;) {
    if (const auto end = text_.find('\n'); end != std::string::npos) {
      nlohmann::json event = nlohmann::json::parse(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end));
      text_.erase(0, end + 1);
      return event;
    }
    std::array wait = {pollfd{.fd = events_.get(), .events = POLLIN, .revents = 0}, pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                       pollfd{.fd = child_.pidfd.get(), .events = POLLIN, .revents = 0}};
    if (::poll(wait.data(), wait.size(), deadline.poll_timeout()) == 0)
      throw Timeout("the set " + setup_.name + " has not answered for " + std::to_string(deadline.timeout().count() / 1000) + " s",
                    {.hint = "a longer --timeout, or smaller sizes"});
    if (wait[1].revents != 0)
      if (const std::optional<int> signal = signals_.next()) throw BenchInterrupted{*signal};
    if (wait[0].revents != 0) {
      std::array<char, 65536> buffer;
      const ssize_t got = ::read(events_.get(), buffer.data(), buffer.size());
      if (got > 0) text_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (wait[2].revents != 0) {
      wait_for_exit(std::chrono::seconds(1));
      explain_end();
    }
  }
}

bool BenchSet::wait_for_exit(std::chrono::milliseconds timeout) noexcept {
  if (child_.pid < 0) return true;
  const base::Deadline deadline(timeout);
  pollfd wait{.fd = child_.pidfd.get(), .events = POLLIN, .revents = 0};
  while (::poll(&wait, 1, deadline.poll_timeout()) < 0 && errno == EINTR) {
  }
  if (wait.revents == 0) return false;
  ::kill(-child_.pid, SIGKILL);  // processes of its group that the launcher may have left
  watchdog_.forget(child_.pid);
  ::waitpid(child_.pid, &status_, 0);
  child_.pid = -1;
  return true;
}

void BenchSet::explain_end() {
  std::string words;
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    std::ifstream file(plan_.folder + "/error." + std::to_string(rank));
    if (file) words += "; rank " + std::to_string(rank) + ": " + std::string(std::istreambuf_iterator<char>(file), {});
  }
  const std::string how =
      WIFSIGNALED(status_) ? "was ended by " + launcher::signal_name(WTERMSIG(status_)) : "ended with code " + std::to_string(WEXITSTATUS(status_));
  throw LaunchFailed("the set " + setup_.name + " " + how + words);
}

void BenchSet::end_quietly() noexcept {
  if (child_.pid < 0) return;
  try {
    if (waits_for_order_) {
      order(-1);
      if (wait_for_exit(std::chrono::seconds(5))) return;
    }
    ::kill(-child_.pid, SIGTERM);  // the launchers end their ranks on SIGTERM
    if (wait_for_exit(std::chrono::seconds(5))) return;
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the signal below ends it in any case
  }
  ::kill(-child_.pid, SIGKILL);
  wait_for_exit(std::chrono::seconds(5));
}

}  // namespace unisono::tools
