#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hosts.h"

namespace unisono::testing {

/// Hosts with an sshd on each, for `unisono run --hosts`. Keys, settings and known hosts lie in a folder of the test; nobody's ~/.ssh is read. Each
/// host has a /run of its own and a /root of its own.
class SshHosts {
 public:
  explicit SshHosts(int count, const std::vector<std::string>& flags = {});

  /// The reason why there are none on this system; empty: there are.
  const std::string& why_not() const { return why_not_; }
  const Hosts& hosts() const { return *hosts_; }
  const std::string& folder() const { return folder_.path(); }
  /// The value of --ssh.
  std::string ssh() const { return "ssh -F " + folder() + "/ssh_config"; }
  /// `unisono` with these words on a host, in the test's folder.
  std::unique_ptr<RunningCommand> start(int host, std::vector<std::string> words, const std::map<std::string, std::string>& variables = {}) const;
  /// The words of `unisono run --ssh … --grace 3 --hosts HOSTS FLAGS -- PROGRAM`; flags may give the first two another value.
  std::vector<std::string> run_words(const std::string& hosts, const std::vector<std::string>& program,
                                     const std::vector<std::string>& flags = {}) const;
  /// Puts another file in the place of one, on one host only.
  void replace(int host, const std::string& path, const std::string& by) const;
  /// The processes on these hosts whose command line has the text.
  int processes_with(const std::string& text) const;

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Hosts> hosts_;
  std::vector<std::unique_ptr<RunningCommand>> servers_;
  std::string why_not_;
};

/// A script that can be run.
void write_script(const std::string& path, const std::string& text);

}  // namespace unisono::testing

#define MAKE_SSH_HOSTS(name, ...)                     \
  const unisono::testing::SshHosts name(__VA_ARGS__); \
  if (!name.why_not().empty()) GTEST_SKIP() << "skipped: " << name.why_not()
