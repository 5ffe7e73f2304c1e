#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "free_port.h"
#include "base/file_descriptor.h"

namespace unisono::testing {

/// A started program with its output caught. Ends by SIGKILL with the test that forgets it.
class RunningCommand {
 public:
  enum class Stdio { pipes, terminal };
  struct Options {
    std::map<std::string, std::string> environment = {};  ///< on top of the test's own; OMP_NUM_THREADS=1 unless given
    Stdio stdio = Stdio::pipes;                           ///< terminal: a controlling one; its output counts as `out`
    int columns = 80;                                     ///< of the terminal
  };

  explicit RunningCommand(std::vector<std::string> arguments);
  RunningCommand(std::vector<std::string> arguments, Options options);
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  void send(int signal) const;
  void type(const std::string& text);
  void close_input() { in_.reset(); }
  /// The terminal gets another size, of which it tells the programs in its foreground.
  void resize(int columns) const;

  /// Reads output until the condition holds. False after `limit`, or when the program ends first.
  bool until(const std::function<bool()>& condition, std::chrono::milliseconds limit = std::chrono::seconds(30));
  bool until_out_has(const std::string& text, int times = 1);
  bool until_err_has(const std::string& text);
  /// To the end of the program and its output. The exit code; 128 + signal; -1 after `limit`.
  int wait(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  bool read_some(std::chrono::milliseconds limit);
  std::optional<int> ended();

  pid_t pid_ = -1;
  base::FileDescriptor in_, out_pipe_, err_pipe_;
  std::string out_, err_;
  std::optional<int> code_;
};

/// `unisono` of this build with these arguments.
std::vector<std::string> unisono_command(std::vector<std::string> arguments);
/// `unisono run FLAGS -- rank_helper ARGUMENTS`.
std::vector<std::string> run_helper(std::vector<std::string> flags, std::vector<std::string> arguments);
/// `unisono run FLAGS -- PROGRAM ARGUMENTS`; the program is plain_helper unless given.
std::vector<std::string> run_plain(std::vector<std::string> flags, std::vector<std::string> arguments, const std::string& program = "");
RunningCommand::Options on_terminal(std::map<std::string, std::string> variables = {});

/// "[3] ", what stands before a line of rank 3.
std::string tag(int rank);
int count(const std::string& text, const std::string& part);
std::vector<std::string> lines_of(const std::string& text);
/// The number of columns that a line of UTF-8 takes.
std::size_t width_of(const std::string& line);
/// Joins the lines that were wrapped to the width of a terminal: a line that begins with a space goes on with the one before it.
std::string unwrapped(const std::string& text);
/// The word after `key` in a line, e.g. the pid after "[1] ready ".
std::string word_after(const std::string& text, const std::string& key);

/// Living processes whose environment carries UNISONO_JOB_ID=id.
std::vector<pid_t> processes_of_job(const std::string& id);
bool is_alive(pid_t pid);
/// The letter of the process's state in /proc (proc(5)), e.g. S (sleeping) or T (stopped); X if there is no such process.
char state_of(pid_t pid);
/// Asks again and again until the condition holds; false after `limit`.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = std::chrono::seconds(20));
/// Numbers of the listening TCP sockets that the process has open.
std::vector<std::string> listening_sockets(pid_t pid);

/// A folder of its own for one test, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string contents(const std::string& path);

}  // namespace unisono::testing
