#include "ssh_hosts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace unisono::testing {
namespace {

constexpr const char* sshd = "/usr/sbin/sshd";

const char* const settings_of_sshd = R"(Port 22
ListenAddress 0.0.0.0
HostKey {0}/host_key
AuthorizedKeysFile {0}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
AllowAgentForwarding yes
MaxStartups 100
)";

const char* const settings_of_ssh = R"(Host *
  User root
  IdentityFile {0}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {0}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ForwardAgent yes
)";

// Gives a host a /run and a /root of its own. The folders that are given stay where they are, in /root too.
constexpr const char* homes_of_their_own = R"(set -e
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
mkdir /run/root
mount --bind /root /run/root
mount -t tmpfs none /root
for folder; do
  if [ "${folder#/root/}" != "$folder" ] && [ -d "/run$folder" ]; then
    mkdir -p "$folder"
    mount --bind "/run$folder" "$folder"
  fi
done
)";

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

void write_script(const std::string& path, const std::string& text) {
  write(path, text);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
}

SshHosts::SshHosts(int count, const std::vector<std::string>& flags) {
  if (::access(sshd, X_OK) != 0) {
    why_not_ = "there is no /usr/sbin/sshd (Debian's package openssh-server)";
    return;
  }
  hosts_ = std::make_unique<Hosts>(count, flags);
  why_not_ = hosts_->why_not();
  if (!why_not_.empty()) return;
  for (const char* name : {"host_key", "user_key"}) {
    RunningCommand keygen({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", folder() + "/" + name});
    EXPECT_EQ(keygen.wait(), 0) << keygen.err();
  }
  write(folder() + "/sshd_config", fmt::format(fmt::runtime(settings_of_sshd), folder()));
  write(folder() + "/ssh_config", fmt::format(fmt::runtime(settings_of_ssh), folder()));
  write(folder() + "/known_hosts", "* " + contents(folder() + "/host_key.pub"));
  const auto built = std::filesystem::path(UNISONO_COMMAND).parent_path().parent_path();
  const auto libtorch = built.parent_path() / "python";  // of scripts/get/torch
  for (int i = 0; i < count; ++i) {
    hosts_->run(i, {"sh", "-c", homes_of_their_own, "-", built, libtorch});
    servers_.push_back(hosts_->start(i, {sshd, "-D", "-e", "-f", folder() + "/sshd_config"}));
    EXPECT_TRUE(servers_.back()->until_err_has("Server listening on")) << servers_.back()->err();
  }
}

std::unique_ptr<RunningCommand> SshHosts::start(int host, std::vector<std::string> words, const std::map<std::string, std::string>& variables) const {
  std::vector<std::string> all{"sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "-", folder(), UNISONO_COMMAND};
  all.insert(all.end(), words.begin(), words.end());
  return hosts_->start(host, all, variables);
}

std::vector<std::string> SshHosts::run_words(const std::string& hosts, const std::vector<std::string>& program,
                                             const std::vector<std::string>& flags) const {
  std::vector<std::string> words{"run", "--hosts", hosts};
  const std::vector<std::pair<std::string, std::string>> usual{{"--ssh", ssh()}, {"--grace", "3"}};
  for (const auto& [name, value] : usual)
    if (std::ranges::find(flags, name) == flags.end()) words.insert(words.end(), {name, value});
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

void SshHosts::replace(int host, const std::string& path, const std::string& by) const { hosts_->run(host, {"mount", "--bind", by, path}); }

int SshHosts::processes_with(const std::string& text) const {
  int found = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || std::stoi(name) == ::getpid()) continue;
    if (contents(entry.path().string() + "/cmdline").find(text) != std::string::npos && is_alive(std::stoi(name))) ++found;
  }
  return found;
}

}  // namespace unisono::testing
