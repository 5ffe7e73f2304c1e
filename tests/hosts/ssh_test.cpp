// `unisono run --hosts` over ssh: where the ranks run, what they get, and what is shown.

#include <gtest/gtest.h>

#include <filesystem>

#include "ssh_hosts.h"
#include "job.h"

namespace unisono::testing {
namespace {

TEST(HostsBySsh, HostsGetTheirRanksInOrder) {
  MAKE_SSH_HOSTS(all, 3);
  const auto job = all.start(0, all.run_words("host0:1,host1:2,host2:1", {RANK_HELPER, "variables", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                                                          "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR"}));
  ASSERT_EQ(job->wait(), 0) << job->err();
  const std::vector<std::vector<int>> places{{0, 0, 1}, {1, 0, 2}, {1, 1, 2}, {2, 0, 1}};  // host, local rank, local size
  for (int rank = 0; rank < 4; ++rank) {
    const auto& place = places[static_cast<std::size_t>(rank)];
    for (const std::string& text :
         {fmt::format("GROUP_RANK={}", place[0]), fmt::format("LOCAL_RANK={}", place[1]), fmt::format("LOCAL_WORLD_SIZE={}", place[2]),
          std::string("WORLD_SIZE=4"), std::string("GROUP_WORLD_SIZE=3"), std::string("MASTER_ADDR=10.77.0.1")}) {
      EXPECT_EQ(count(job->out(), tag(rank) + text + "\n"), 1) << text << "\n" << job->out();
    }
  }
  EXPECT_EQ(job->err(), "");
}

TEST(HostsBySsh, HostsMayAllBeOthers) {
  MAKE_SSH_HOSTS(all, 3);
  const auto job = all.start(2, all.run_words("root@host0:2,10.77.0.2:2", {HOST_RANK, "meet"}));
  ASSERT_EQ(job->wait(), 0) << job->err();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count(job->out(), fmt::format("[{}] rank {} of 4 at {}, with host0 host0 host1 host1\n", rank, rank, all.hosts().address(rank / 2))), 1)
        << job->out() << job->err();
  }
}

TEST(HostsBySsh, HostsMayBeASingleOne) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job = all.start(0, all.run_words("host1:3", {HOST_RANK, "meet"}));
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->out(), "with host1 host1 host1\n"), 3) << job->out() << job->err();
}

TEST(HostsBySsh, HostsAreNamedByAFileAndFilledInOrder) {
  MAKE_SSH_HOSTS(all, 3);
  write_secret(all.folder() + "/hosts", "# ours\nhost0 slots=2 max_slots=4\n\nhost1:2  # MPICH's\nhost2 slots = 2\n");
  const auto job =
      all.start(0, {"run", "--ssh", all.ssh(), "--hostfile", "hosts", "-n", "3", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE on $(hostname)"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  for (const char* line : {"[0] 0 of 3 on host0\n", "[1] 1 of 3 on host0\n", "[2] 2 of 3 on host1\n"})
    EXPECT_EQ(count(job->out(), line), 1) << job->out();
}

TEST(HostsBySsh, HostsRunInTheCurrentFolderWithTheChosenVariables) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job = all.start(0,
                             all.run_words("host1:1", {"sh", "-c", "pwd; echo $ONE $TWO $THREE_A $THREE_B-$NOT-$UNISONO_LOG"},
                                           {"-x", "ONE", "-x", "TWO=2 and more", "-x", "THREE*"}),
                             {{"ONE", "1"}, {"THREE_A", "3a"}, {"THREE_B", "3b"}, {"NOT", "4"}, {"UNISONO_LOG", "error"}});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[0] " + all.folder() + "\n[0] 1 2 and more 3a 3b--error\n");
  const auto elsewhere = all.start(0, all.run_words("host1:1", {"pwd"}, {"--wdir", "/usr/bin"}));
  EXPECT_EQ(elsewhere->wait(), 0) << elsewhere->err();
  EXPECT_EQ(elsewhere->out(), "[0] /usr/bin\n");
}

TEST(HostsBySsh, HostsGetTheSecretByStandardInputAlone) {  // A7
  MAKE_SSH_HOSTS(all, 2);
  const std::string word = "a-word-that-stands-nowhere-else", open = "a-word-that-is-no-secret";
  const auto job =
      all.start(0, all.run_words("host0:1,host1:1", {HOST_RANK, "hold", all.folder() + "/go"}), {{"UNISONO_TOKEN", word}, {"OPEN", open}});
  ASSERT_TRUE(job->until_out_has("holding\n", 2)) << job->err();
  const auto places_of = [&](const std::string& text) {
    const std::string pattern = text.substr(0, 10) + "[" + text[10] + "]" + text.substr(11);
    return all.hosts().run(0, {"sh", "-c", "grep -l -a -e '" + pattern + "' /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null || true"});
  };
  EXPECT_NE(places_of(open).find(fmt::format("/proc/{}/environ\n", job->pid())), std::string::npos);
  // The user has put it into the environment of `unisono run` itself, which has overwritten it there.
  EXPECT_EQ(places_of(word), "");
  EXPECT_EQ(all.hosts().listening(1), std::vector<std::string>{"0.0.0.0:22"});
  write_secret(all.folder() + "/go", "");
  EXPECT_EQ(job->wait(), 0) << job->err();
}

TEST(HostsBySsh, HostsGetNoWayToTheUsersAgent) {
  MAKE_SSH_HOSTS(all, 2);
  const std::string agent = all.folder() + "/agent";
  const auto keeper = all.hosts().start(0, {"ssh-agent", "-D", "-a", agent});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(agent); })) << keeper->err();
  const auto plain =
      all.hosts().start(0, {"ssh", "-F", all.folder() + "/ssh_config", "host1", "echo agent: $SSH_AUTH_SOCK"}, {{"SSH_AUTH_SOCK", agent}});
  ASSERT_EQ(plain->wait(), 0) << plain->err();
  ASSERT_NE(plain->out(), "agent: \n") << "the settings of this test forward it";
  const auto job = all.start(0, all.run_words("host1:1", {"sh", "-c", "echo agent: $SSH_AUTH_SOCK"}), {{"SSH_AUTH_SOCK", agent}});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[0] agent:\n");
}

TEST(HostsBySsh, HostsTakeStandardInputToItsEnd) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job = all.start(0, all.run_words("host0:1,host1:1", {"sh", "-c", "echo $(wc -c) $(cat | wc -c)"}, {"--stdin", "1"}));
  const std::string block(1 << 16, 'x');
  for (int i = 0; i < 32; ++i) job->type(block);
  job->close_input();
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->out(), "[1] 2097152 0\n"), 1) << job->out();
  EXPECT_EQ(count(job->out(), "[0] 0 0\n"), 1) << job->out();
}

TEST(HostsBySsh, HostsShowAllOutputInWholeLines) {
  MAKE_SSH_HOSTS(all, 2);
  // Longer than a pipe takes, and the last line has no end.
  const auto job =
      all.start(0, all.run_words("host0:2,host1:2",
                                 {"sh", "-c", "seq -f \"$RANK line %05g of many that are all of one length\" 20000; printf 'the end of %s' $RANK"}));
  EXPECT_EQ(job->wait(), 0) << job->err();
  const auto lines = lines_of(job->out());
  EXPECT_EQ(lines.size(), 4 * 20001u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count(job->out(), fmt::format("[{}] {} line 20000 of many that are all of one length\n", rank, rank)), 1);
    EXPECT_EQ(count(job->out(), fmt::format("[{}] the end of {}\n", rank, rank)), 1);
  }
}

TEST(HostsBySsh, HostsAreNotDisturbedByWhatAShellPrints) {
  MAKE_SSH_HOSTS(all, 2);
  write_secret(all.folder() + "/bashrc", "echo welcome to this host\necho and beware >&2\n");
  all.hosts().run(1, {"cp", all.folder() + "/bashrc", "/root/.bashrc"});
  const auto plain = all.hosts().start(0, {"ssh", "-F", all.folder() + "/ssh_config", "host1", "true"});
  ASSERT_EQ(plain->wait(), 0);
  ASSERT_EQ(plain->out(), "welcome to this host\n");
  const auto job = all.start(0, all.run_words("host1:1", {"echo", "here"}));
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[0] here\n");
  EXPECT_EQ(job->err(), "");
}

TEST(HostsBySsh, HostsStartAgainTogetherAndLogIntoOneFolder) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job =
      all.start(0, all.run_words("host0:1,host1:1", {"sh", "-c", fmt::format("[ $UNISONO_ATTEMPT$RANK = 01 ] && exit 5; exec {} meet", HOST_RANK)},
                                 {"--max-restarts", "1", "--logs", "logs"}));
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->err(), "restart 1 of 1"), 1) << job->err();
  EXPECT_EQ(count(job->err(), "first cause: rank 1 (pid "), 1) << job->err();
  EXPECT_EQ(count(job->err(), "[unisono] logs: logs/"), 1) << job->err();
  EXPECT_EQ(count(job->out(), ", with host0 host1\n"), 2) << job->out();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(all.folder() + "/logs/latest")) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 4) << "two ranks, two attempts";
}

}  // namespace
}  // namespace unisono::testing
