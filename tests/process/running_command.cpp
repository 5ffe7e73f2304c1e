#include "running_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/deadline.h"
#include "base/environment.h"

namespace unisono::testing {

using std::chrono::milliseconds;

RunningCommand::RunningCommand(std::vector<std::string> arguments) : RunningCommand(std::move(arguments), Options{}) {}

RunningCommand::RunningCommand(std::vector<std::string> arguments, Options options) {
  auto variables = base::Environment::process().all();
  for (const char* name : {"NO_COLOR", "UNISONO_LOG", "RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "LD_PRELOAD", "_STDBUF_O"})
    variables.erase(name);
  variables.emplace("OMP_NUM_THREADS", "1");
  for (const auto& [name, value] : options.environment) {
    if (value.empty()) {
      variables.erase(name);
    } else {
      variables[name] = value;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  std::vector<char*> environment, argv;
  for (auto& line : lines) environment.push_back(line.data());
  for (auto& argument : arguments) argv.push_back(argument.data());
  environment.push_back(nullptr);
  argv.push_back(nullptr);

  std::array<int, 2> in{-1, -1}, out{-1, -1}, err{-1, -1};
  if (options.stdio == Stdio::terminal) {
    int master = -1;
    const winsize size{24, static_cast<unsigned short>(options.columns), 0, 0};
    pid_ = ::forkpty(&master, nullptr, nullptr, &size);
    if (pid_ > 0) {
      in_.reset(::fcntl(master, F_DUPFD_CLOEXEC, 3));
      out_pipe_.reset(master);
      ::fcntl(master, F_SETFD, FD_CLOEXEC);
    }
  } else {
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe");
    }
    pid_ = ::fork();
  }
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    for (const int ignored : {SIGHUP, SIGINT, SIGQUIT}) ::signal(ignored, SIG_DFL);  // by nohup, or a shell's background
    if (options.stdio == Stdio::pipes) {
      ::setpgid(0, 0);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
    }
    ::execve(argv[0], argv.data(), environment.data());
    ::_exit(99);
  }
  if (options.stdio == Stdio::pipes) {
    ::close(in[0]);
    ::close(out[1]);
    ::close(err[1]);
    in_.reset(in[1]);
    out_pipe_.reset(out[0]);
    err_pipe_.reset(err[0]);
  }
}

RunningCommand::~RunningCommand() {
  if (!code_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void RunningCommand::send(int signal) const { ::kill(pid_, signal); }

void RunningCommand::resize(int columns) const {
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  if (::ioctl(in_.get(), TIOCSWINSZ, &size) != 0) throw std::runtime_error("cannot resize");
}

void RunningCommand::type(const std::string& text) {
  if (::write(in_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw std::runtime_error("cannot type");
}

bool RunningCommand::read_some(milliseconds limit) {
  std::array<pollfd, 2> set{{{out_pipe_.get(), POLLIN, 0}, {err_pipe_.get(), POLLIN, 0}}};
  if (!out_pipe_ && !err_pipe_) return false;
  ::poll(set.data(), set.size(), static_cast<int>(limit.count()));
  const auto take = [](const pollfd& ready, base::FileDescriptor& pipe, std::string& text) {
    if (ready.revents == 0) return;
    std::array<char, 65536> bytes;
    const auto got = ::read(pipe.get(), bytes.data(), bytes.size());
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) pipe.reset();  // a terminal says EIO when nobody holds it any more
  };
  take(set[0], out_pipe_, out_);
  take(set[1], err_pipe_, err_);
  return true;
}

std::optional<int> RunningCommand::ended() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

bool RunningCommand::until(const std::function<bool()>& condition, milliseconds limit) {
  const base::Deadline deadline(limit);
  while (!condition()) {
    if (deadline.passed()) return false;
    if (!read_some(milliseconds(20))) return condition();
  }
  return true;
}

bool RunningCommand::until_out_has(const std::string& text, int times) {
  return until([&] { return count(out_, text) >= times; });
}

bool RunningCommand::until_err_has(const std::string& text) {
  return until([&] { return err_.find(text) != std::string::npos; });
}

int RunningCommand::wait(milliseconds limit) {
  const base::Deadline deadline(limit);
  while (!deadline.passed()) {
    const bool open = read_some(milliseconds(20));
    if (!open && ended()) return *code_;
    if (!open) std::this_thread::yield();
  }
  return -1;
}

std::vector<std::string> unisono_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), UNISONO_COMMAND);
  return arguments;
}

std::vector<std::string> run_helper(std::vector<std::string> flags, std::vector<std::string> arguments) {
  return run_plain(std::move(flags), std::move(arguments), RANK_HELPER);
}

std::vector<std::string> run_plain(std::vector<std::string> flags, std::vector<std::string> arguments, const std::string& program) {
  std::vector<std::string> all{UNISONO_COMMAND, "run"};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), {"--", program.empty() ? PLAIN_HELPER : program});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

RunningCommand::Options on_terminal(std::map<std::string, std::string> variables) {
  return {.environment = std::move(variables), .stdio = RunningCommand::Stdio::terminal};
}

std::string tag(int rank) { return fmt::format("[{}] ", rank); }

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string unwrapped(const std::string& text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && i + 1 < text.size() && text[i + 1] == ' ') {
      i = std::min(text.find_first_not_of(' ', i + 1), text.size()) - 1;
      line += ' ';
    } else {
      line += text[i];
    }
  }
  return line;
}

std::string word_after(const std::string& text, const std::string& key) {
  const auto at = text.find(key);
  if (at == std::string::npos) return "";
  const auto begin = at + key.size();
  return text.substr(begin, text.find_first_of(" \r\n", begin) - begin);
}

std::vector<pid_t> processes_of_job(const std::string& id) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (contents(fmt::format("/proc/{}/environ", name)).find("UNISONO_JOB_ID=" + id) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

char state_of(pid_t pid) {
  const std::string stat = contents(fmt::format("/proc/{}/stat", pid));
  const auto at = stat.rfind(')');
  return at == std::string::npos ? 'X' : stat[at + 2];
}

bool is_alive(pid_t pid) {
  const char state = state_of(pid);
  return state != 'Z' && state != 'X';
}

bool eventually(const std::function<bool()>& condition, milliseconds limit) {
  const base::Deadline deadline(limit);
  while (!condition()) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 10);  // between two looks, not instead of one
  }
  return true;
}

std::vector<std::string> listening_sockets(pid_t pid) {
  std::set<std::string> own;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const auto& line : lines_of(contents(table))) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
      if (state == "0A" && own.contains(inode)) found.push_back(local);
    }
  }
  return found;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path() / "unisono-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // an iterator would throw where a process ends while its file in /proc is read
  return text.str();
}

}  // namespace unisono::testing
