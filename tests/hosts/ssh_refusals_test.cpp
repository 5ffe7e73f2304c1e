// Hosts that `unisono run --hosts` cannot use are named at once, with the reason and what to do.

#include <gtest/gtest.h>

#include "ssh_hosts.h"
#include "job.h"

namespace unisono::testing {
namespace {

const std::vector<std::string> never{"sh", "-c", "echo a rank has started"};

std::string refusal(const SshHosts& all, const std::string& hosts, const std::vector<std::string>& flags = {}) {
  const auto job = all.start(0, all.run_words(hosts, never, flags));
  EXPECT_EQ(job->wait(), 1) << job->err();
  EXPECT_EQ(job->out(), "");
  return unwrapped(job->err());
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
}

TEST(RefusedBySsh, ANameThatNobodyKnowsIsRefused) {
  MAKE_SSH_HOSTS(all, 2);
  write_secret(all.folder() + "/hosts", "host0\nhost1\nnowhere.invalid slots=2\n");
  const auto job = all.start(0, {"run", "--ssh", all.ssh(), "--hostfile", "hosts", "--", "true"});
  EXPECT_EQ(job->wait(), 1);
  expect_parts(job->err(), {"host nowhere.invalid (hosts:3) cannot be used", "Could not resolve hostname", "hint: correct the name"});
}

TEST(RefusedBySsh, AHostThatIsNotThereIsNamed) {
  MAKE_SSH_HOSTS(all, 1);
  expect_parts(refusal(all, "host0,10.77.0.9"),
               {"host 10.77.0.9 (--hosts) cannot be used: ssh ended with exit code 255", "No route to host", "the host is down"});
}

TEST(RefusedBySsh, AHostWithoutSshdAndOneWithoutTheKeyAreRefused) {
  MAKE_SSH_HOSTS(all, 2);
  expect_parts(refusal(all, "host1", {"--ssh", all.ssh() + " -p 23"}), {"Connection refused", "no sshd listens there"});
  expect_parts(refusal(all, "host1",
                       {"--ssh", "ssh -F /dev/null -o User=root -o IdentityFile=/dev/null -o UserKnownHostsFile=" + all.folder() + "/known_hosts"}),
               {"Permission denied", "ssh-copy-id host1"});
  expect_parts(refusal(all, "host1", {"--ssh", all.ssh() + " -o UserKnownHostsFile=/dev/null"}), {"Host key verification failed", "once by hand"});
}

TEST(RefusedBySsh, AHostWithoutTheCommandIsNamed) {
  MAKE_SSH_HOSTS(all, 2);
  all.replace(1, UNISONO_COMMAND, "/dev/null");
  expect_parts(refusal(all, "host0,host1"), {"host host1 (--hosts) cannot be used", "not found", "hint: install unisono on host1", UNISONO_COMMAND});
}

// As in /tmp, where any user may have put it.
TEST(RefusedBySsh, ACommandThatAnotherUserMayHavePutThereIsRefused) {
  MAKE_SSH_HOSTS(all, 2);
  write_script(all.folder() + "/other", "#!/bin/sh\necho unisono-host 99.1.2\n");
  all.hosts().run(0, {"chown", "54321", all.folder() + "/other"});
  all.replace(1, UNISONO_COMMAND, all.folder() + "/other");
  const std::string owned = refusal(all, "host0,host1");
  expect_parts(owned,
               {"host host1 (--hosts) cannot be used", UNISONO_COMMAND, " is not run: ", "belongs to another user", "hint: put unisono on host1"});
  EXPECT_EQ(count(owned, "99.1.2"), 0) << owned;
  all.hosts().run(0, {"chown", "root", all.folder() + "/other"});
  all.hosts().run(0, {"chmod", "777", all.folder() + "/other"});
  expect_parts(refusal(all, "host0,host1"), {" is not run: ", "or all may write to it"});
}

TEST(RefusedBySsh, AHostWithAnotherVersionIsRefused) {
  MAKE_SSH_HOSTS(all, 2);
  write_script(all.folder() + "/other", "#!/bin/sh\necho unisono-host 99.1.2\n");
  all.replace(1, UNISONO_COMMAND, all.folder() + "/other");
  expect_parts(refusal(all, "host0,host1"),
               {"host host1 (--hosts) cannot be used: it has unisono 99.1.2, and this one is ", "install the same version"});
}

TEST(RefusedBySsh, AHostThatTalksNonsenseIsRefused) {
  MAKE_SSH_HOSTS(all, 2);
  const auto version = all.start(0, {"version"});
  ASSERT_EQ(version->wait(), 0);
  const std::string number = version->out().substr(std::string("unisono ").size(), version->out().size() - std::string("unisono \n").size());
  write_script(all.folder() + "/other", "#!/bin/sh\necho unisono-host " + number + "\necho H is no header\ncat\n");
  all.replace(1, UNISONO_COMMAND, all.folder() + "/other");
  expect_parts(refusal(all, "host1"), {"the other host has sent something that is not a message of unisono"});
}

TEST(RefusedBySsh, AHostThatDoesNotAnswerIsNamed) {
  MAKE_SSH_HOSTS(all, 2);
  write_script(all.folder() + "/other", "#!/bin/sh\ncat >/dev/null\n");
  all.replace(1, UNISONO_COMMAND, all.folder() + "/other");
  const auto job = all.start(0, all.run_words("host0,host1", never), {{"UNISONO_TIMEOUT", "5"}});  // in which host 0 answers
  EXPECT_EQ(job->wait(), 1);
  expect_parts(job->err(), {"host host1 (--hosts) cannot be used: no answer within 5 s"});
}

TEST(RefusedBySsh, AFolderThatAHostLacksIsNamed) {
  MAKE_SSH_HOSTS(all, 2);
  all.hosts().run(0, {"mkdir", "/run/work"});  // each host has its own /run
  expect_parts(refusal(all, "host0:1,host1:1", {"--wdir", "/run/work"}),
               {"host host1 (--hosts) cannot be used: the folder /run/work cannot be entered there: ", "--wdir"});
}

TEST(RefusedBySsh, AProgramThatOneHostLacksEndsTheJobAtOnce) {
  MAKE_SSH_HOSTS(all, 2);
  write_script(all.folder() + "/program", "#!/bin/sh\nexec sleep 1000\n");
  all.hosts().run(1, {"mount", "--bind", "/dev/null", all.folder() + "/program"});
  const auto job = all.start(0, all.run_words("host0,host1", {"./program"}));
  EXPECT_EQ(job->wait(), 126) << job->err();
  expect_parts(job->err(), {"program"});
}

TEST(RefusedBySsh, AnAddressThatHost0DoesNotHaveIsRefused) {
  MAKE_SSH_HOSTS(all, 2);
  expect_parts(refusal(all, "host0,host1", {"--master-addr", "10.77.0.200"}), {"host host0 (--hosts) cannot be used", "10.77.0.200"});
}

}  // namespace
}  // namespace unisono::testing
