// Pods of an indexed Job of Kubernetes: hosts called NAME-INDEX, which find pod 0 by the name that a headless service gives it.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "job.h"

namespace unisono::testing {
namespace {

/// Makes a host what the kubelet makes a pod with a subdomain: its own whole name is in /etc/hosts, and the other one's, as from the name server.
void make_pod(const Hosts& hosts, const TemporaryFolder& folder, int index, const std::string& domain, bool knows_first = true) {
  const std::string path = fmt::format("{}/names{}", folder.path(), index);
  std::ofstream names(path);
  names << "127.0.0.1 localhost\n";
  names << fmt::format("{} train-{}{}{}\n", hosts.address(index), index, domain, domain.empty() ? "" : fmt::format(" train-{}", index));
  if (index != 0 && knows_first && !domain.empty()) names << fmt::format("{} train-0{}\n", hosts.address(0), domain);
  names.close();
  hosts.run(index, {"sh", "-c", fmt::format("hostname train-{} && umount /etc/hosts && mount --bind {} /etc/hosts", index, path)});
}

Variables pod(int index) { return with(secret, {{"JOB_COMPLETION_INDEX", std::to_string(index)}}); }

/// The command of the pods in docs/guide/several-hosts.md, with this build's program and a program to run.
std::vector<std::string> command_of_document() {
  const std::string document = contents(CLUSTERS_DOCUMENT);
  const auto job = document.find("completionMode: Indexed");
  const auto begin = document.find("command: [", job);
  if (begin == std::string::npos) throw std::runtime_error("docs/guide/several-hosts.md has no command of an indexed Job");
  const auto words = nlohmann::json::parse(document.substr(begin + 9, document.find(']', begin) + 1 - begin - 9)).get<std::vector<std::string>>();
  EXPECT_EQ(words.front(), "unisono");
  EXPECT_EQ(words.back(), "./app");
  std::vector<std::string> own{UNISONO_COMMAND};
  own.insert(own.end(), words.begin() + 1, words.end() - 1);
  own.insert(own.end(), {HOST_RANK, "meet"});
  return own;
}

constexpr const char* domain = ".train.default.svc.cluster.local";

TEST(PodsOfAnIndexedJob, PodsFindEachOtherByTheCommandOfTheDocument) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  for (const int index : {0, 1}) make_pod(hosts, folder, index, domain);
  const auto words = command_of_document();
  const auto second = hosts.start(1, words, pod(1)), first = hosts.start(0, words, pod(0));
  for (RunningCommand* each : {first.get(), second.get()}) {
    EXPECT_EQ(each->wait(), 0) << each->err();
    EXPECT_GE(count(each->out(), "with train-0 train-0 "), 1) << each->out();
  }
  EXPECT_EQ(count(first->out(), "[0] rank 0 of 8 at 10.77.0.1"), 1) << first->out();
  EXPECT_EQ(count(second->out(), "[4] rank 4 of 8 at 10.77.0.2"), 1) << second->out();
}

TEST(PodsOfAnIndexedJob, PodsWaitForTheNameOfTheFirst) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  make_pod(hosts, folder, 0, domain);
  make_pod(hosts, folder, 1, domain, false);
  const std::vector<std::string> words = unisono_command({"run", "--nnodes", "2", "-n", "1", "--", HOST_RANK, "meet"});
  const auto second = hosts.start(1, words, with(pod(1), {{"UNISONO_LOG", "info"}}));
  ASSERT_TRUE(second->until_err_has("train-0")) << second->err();
  const auto first = hosts.start(0, words, pod(0));
  std::ofstream(folder.path() + "/names1", std::ios::app) << fmt::format("{} train-0{}\n", hosts.address(0), domain);
  EXPECT_EQ(second->wait(), 0) << second->err();
  EXPECT_EQ(first->wait(), 0) << first->err();
}

TEST(PodsOfAnIndexedJob, PodsObeyOptionsAndVariables) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  for (const int index : {0, 1}) make_pod(hosts, folder, index, "");  // no service
  const std::vector<std::string> words = unisono_command({"run", "--nnodes", "2", "-n", "1", "--", HOST_RANK, "meet"});
  const auto lost = hosts.start(1, words, pod(1));
  EXPECT_EQ(lost->wait(), 2);
  for (const char* part : {"this is a pod of an indexed Job (JOB_COMPLETION_INDEX)", "subdomain", "MASTER_ADDR"})
    EXPECT_NE(unwrapped(lost->err()).find(part), std::string::npos) << lost->err();
  const Variables place{{"MASTER_ADDR", hosts.address(0)}, {"MASTER_PORT", "29611"}};
  const auto first = hosts.start(0, words, with(pod(0), place)), second = hosts.start(1, words, with(pod(1), place));
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
  // Pods may be jobs of their own.
  const auto alone = hosts.start(1, unisono_command({"run", "-n", "2", "--", HOST_RANK, "meet"}), pod(1));
  EXPECT_EQ(alone->wait(), 0) << alone->err();
  EXPECT_EQ(count(alone->out(), "of 2 at"), 2) << alone->out();
}

}  // namespace
}  // namespace unisono::testing
