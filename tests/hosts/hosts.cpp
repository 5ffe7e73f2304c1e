#include "hosts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/file_descriptor.h"

namespace unisono::testing {

Hosts::Hosts(int count, const std::vector<std::string>& flags) {
  if (::geteuid() != 0) {
    why_not_ = "only root can make network namespaces and enter them";
    return;
  }
  std::vector<std::string> words{WITH_HOSTS};
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back(std::to_string(count));
  holder_ = std::make_unique<RunningCommand>(words);
  if (!holder_->until([&] { return holder_->out().find("ready\n") != std::string::npos; }, std::chrono::seconds(120))) {
    holder_->wait();
    why_not_ = holder_->err().empty() ? "with_hosts made no hosts" : holder_->err();
    return;
  }
  for (const std::string& line : lines_of(holder_->out())) {
    std::istringstream fields(line);
    std::string word;
    int number = 0;
    Host host;
    if (fields >> word >> number >> host.pid >> host.address && word == "host") hosts_.push_back(host);
  }
}

std::vector<std::string> Hosts::on(int host, const std::vector<std::string>& words) const {
  std::vector<std::string> all{"/usr/bin/env", "nsenter", "--target", std::to_string(at(host).pid), "--net", "--uts", "--mount", "--"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::unique_ptr<RunningCommand> Hosts::start(int host, const std::vector<std::string>& words,
                                             const std::map<std::string, std::string>& variables) const {
  return std::make_unique<RunningCommand>(on(host, words), RunningCommand::Options{.environment = variables});
}

std::string Hosts::run(int host, const std::vector<std::string>& words) const {
  const auto command = start(host, words);
  EXPECT_EQ(command->wait(), 0) << words.front() << ": " << command->err();
  return command->out();
}

void Hosts::in_network_of(int host, const std::function<void()>& body) const {
  std::jthread([&] {
    const std::string path = fmt::format("/proc/{}/ns/net", at(host).pid);
    const base::FileDescriptor network(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!network || ::setns(network.get(), CLONE_NEWNET) != 0) {
      ADD_FAILURE() << "the network of host " << host << " cannot be entered";
      return;
    }
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }).join();
}

std::vector<std::string> Hosts::listening(int host) const {
  std::vector<std::string> sockets;
  for (const std::string& line : lines_of(run(host, {"ss", "-Hlntu"}))) {
    std::istringstream fields(line);
    std::string kind, state, received, sent, local;
    fields >> kind >> state >> received >> sent >> local;
    sockets.push_back(local);
  }
  std::ranges::sort(sockets);
  return sockets;
}

void write_secret(const std::string& path, const std::string& text, unsigned mode) {
  const base::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_TRUE(file) << path;
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::fchmod(file.get(), mode), 0);
}

}  // namespace unisono::testing
