#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "free_port.h"
#include "base/deadline.h"
#include "base/socket.h"

namespace unisono::testing {

/// A member of etcd of this test alone, on loopback, with its data in a folder of its own.
class EtcdServer {
 public:
  /// The program that ETCD_PROGRAM names, where a test runs beside another etcd than the system's; empty: there is none.
  static std::string program() {
    if (const char* const named = std::getenv("ETCD_PROGRAM")) return ::access(named, X_OK) == 0 ? named : "";
    for (const char* const path : {"/usr/bin/etcd", "/usr/local/bin/etcd"}) {
      if (::access(path, X_OK) == 0) return path;
    }
    return {};
  }
  static bool is_here() {
#ifdef UNISONO_WITHOUT_ETCD
    return false;
#else
    return !program().empty();
#endif
  }
  static constexpr const char* how_to_get_it =
      "there is no etcd on this machine (Debian: etcd-server; etcd 3.5: scripts/get/dependencies --real), or this build is without it "
      "(-DUNISONO_ETCD=OFF)";

  /// The words that start a member with these URLs, for clients and for members, and its data and log in this folder.
  static std::vector<std::string> words_of(const std::string& client, const std::string& peer, const std::string& folder) {
    return {program(),
            "--name=test",
            "--data-dir=" + folder + "/data",
            "--listen-client-urls=" + client,
            "--advertise-client-urls=" + client,
            "--listen-peer-urls=" + peer,
            "--initial-advertise-peer-urls=" + peer,
            "--initial-cluster=test=" + peer,
            "--heartbeat-interval=20",
            "--election-timeout=200",
            "--logger=zap",
            "--log-outputs=" + folder + "/log"};
  }

  EtcdServer() : EtcdServer("", "") {}
  /// The names of PEM files with which it encrypts, where they are given.
  EtcdServer(std::string certificate, std::string key)
      : port_(free_port()), peer_port_(free_port()), certificate_(std::move(certificate)), key_(std::move(key)) {
    // Memory, where there is one: each change of etcd waits for the disk.
    std::string name = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/unisono_etcd_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    start();
  }
  ~EtcdServer() {
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::string endpoint() const { return fmt::format("127.0.0.1:{}", port_); }
  /// `user`: "name@", or nothing.
  std::string url(const std::string& prefix = "/test", const std::string& user = "") const {
    return fmt::format("{}://{}{}{}", certificate_.empty() ? "etcd" : "etcds", user, endpoint(), prefix);
  }
  pid_t pid() const { return pid_; }

  /// Ends it as a crash does.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// Goes on with the data that it had, and returns when it serves.
  void start() {
    const std::string client = (certificate_.empty() ? "http://" : "https://") + endpoint(), peer = fmt::format("http://127.0.0.1:{}", peer_port_);
    // It ends with a test that is killed.
    std::vector<std::string> words;
    if (::access(setpriv, X_OK) == 0) words = {setpriv, "--pdeathsig", "KILL", "--"};
    const std::vector<std::string> command = words_of(client, peer, folder_);
    words.insert(words.end(), command.begin(), command.end());
    if (!certificate_.empty()) words.insert(words.end(), {"--cert-file=" + certificate_, "--key-file=" + key_});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (::posix_spawn(&pid_, words.front().c_str(), nullptr, &attributes, arguments.data(), environ) != 0)
      throw std::runtime_error("etcd does not start");
    ::posix_spawnattr_destroy(&attributes);
    const base::Deadline deadline(std::chrono::seconds(30));
    while (!serves()) {
      if (deadline.passed() || ::waitpid(pid_, nullptr, WNOHANG) != 0) throw std::runtime_error("etcd does not serve: " + text_of(folder_ + "/log"));
      ::poll(nullptr, 0, 10);  // nothing tells of a new listener
    }
  }

 private:
  static constexpr const char* setpriv = "/usr/bin/setpriv";

  bool serves() const { return base::try_connect(base::resolve("127.0.0.1", port_).front(), base::Deadline(std::chrono::seconds(1))).fd.get() >= 0; }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::uint16_t port_, peer_port_;
  const std::string certificate_, key_;
  std::string folder_;
  pid_t pid_ = -1;
};

}  // namespace unisono::testing

/// Skips a test where etcd is missing.
#define NEEDS_ETCD() \
  if (!unisono::testing::EtcdServer::is_here()) GTEST_SKIP() << unisono::testing::EtcdServer::how_to_get_it
