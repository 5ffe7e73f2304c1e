#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "running_command.h"

namespace unisono::testing {

/// Hosts made by `with_hosts`, for one test: host0, host1, ... Gone with this object.
class Hosts {
 public:
  explicit Hosts(int count, const std::vector<std::string>& flags = {});

  /// The reason why there are none on this system; empty: there are.
  const std::string& why_not() const { return why_not_; }
  const std::string& address(int host) const { return at(host).address; }
  /// A process that lives there as long as the host does.
  pid_t process(int host) const { return at(host).pid; }
  /// The words that run a command there.
  std::vector<std::string> on(int host, const std::vector<std::string>& words) const;
  std::unique_ptr<RunningCommand> start(int host, const std::vector<std::string>& words,
                                        const std::map<std::string, std::string>& variables = {}) const;
  /// Runs a command there to its end; its output. A failure of the test where it fails.
  std::string run(int host, const std::vector<std::string>& words) const;
  /// Runs in a thread of this process that uses that host's network.
  void in_network_of(int host, const std::function<void()>& body) const;
  /// The addresses of the TCP sockets that listen there ("10.77.0.1:29500"), or of the UDP sockets that are bound, sorted.
  std::vector<std::string> listening(int host) const;

 private:
  struct Host {
    pid_t pid = -1;
    std::string address;
  };
  const Host& at(int host) const { return hosts_.at(static_cast<std::size_t>(host)); }

  std::string why_not_;
  std::unique_ptr<RunningCommand> holder_;
  std::vector<Host> hosts_;
};

/// A file with this text that only this user can read.
void write_secret(const std::string& path, const std::string& text, unsigned mode = 0600);

}  // namespace unisono::testing

/// Makes `name` of so many hosts, or skips the test and says why.
#define MAKE_HOSTS(name, ...)                      \
  const unisono::testing::Hosts name(__VA_ARGS__); \
  if (!name.why_not().empty()) GTEST_SKIP() << "skipped: " << name.why_not()
