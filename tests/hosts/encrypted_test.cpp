// Jobs of several hosts whose connections are encrypted, and what is refused: at once, and on the host concerned.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "../unit/base/certificates.h"
#include "../unit/store/talk.h"
#include "covers.h"
#include "job.h"

namespace unisono::testing {
namespace {

const Variables encrypted = with(secret, {{"UNISONO_TLS", "required"}});
const std::vector<std::string> never{"sh", "-c", "echo a rank has started"};

#define EXPECT_SAYS(text, part) EXPECT_NE(unwrapped(text).find(part), std::string::npos) << (text)

/// The certificate, the key and the authority of one host, in files.
class Files {
 public:
  explicit Files(const base::TlsIdentity& identity) {
    write_secret(path("certificate"), identity.certificate, 0644);
    write_secret(path("key"), std::string(identity.private_key.view()));
    write_secret(path("authority"), identity.authority, 0644);
  }
  std::string path(const std::string& file) const { return folder_.path() + "/" + file; }
  Variables variables() const {
    return with(encrypted, {{"UNISONO_TLS_CERT", path("certificate")}, {"UNISONO_TLS_KEY", path("key")}, {"UNISONO_TLS_CA", path("authority")}});
  }

 private:
  TemporaryFolder folder_;
};

/// Two launchers, each with its variables.
std::vector<std::unique_ptr<RunningCommand>> start_two(const Hosts& hosts, const std::vector<std::string>& words, const Variables& first,
                                                       const Variables& second) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  job.push_back(hosts.start(0, node_words({.node = 0, .master = hosts.address(0)}, words), first));
  job.push_back(hosts.start(1, node_words({.node = 1, .master = hosts.address(0)}, words), second));
  return job;
}

void expect_sums(const std::vector<std::unique_ptr<RunningCommand>>& job, int ranks) {
  std::string out;
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    out += launcher->out();
  }
  EXPECT_EQ(count(out, fmt::format("sum {}\n", ranks * (ranks - 1) / 2)), ranks) << out;
}

TEST(EncryptedHosts, HostsOfDifferentNumbersOfRanksAreEncrypted) {
  {
    MAKE_HOSTS(hosts, 2);
    expect_sums(start_job(hosts, 2, {HOST_RANK, "sum"}, {}, encrypted), 4);
  }
  MAKE_HOSTS(hosts, 3);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 3; ++node) {
    job.push_back(
        hosts.start(node, node_words({.nodes = 3, .node = node, .ranks = node + 1, .master = hosts.address(0)}, {HOST_RANK, "sum"}), encrypted));
  }
  expect_sums(job, 6);
}

TEST(EncryptedHosts, EncryptedHostsNeedNothingButTheEnvironment) {
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int rank = 0; rank < 2; ++rank) {
    job.push_back(hosts.start(rank, {HOST_RANK, "sum"}, with(rank_variables(rank, 2, hosts.address(0)), {{"UNISONO_TLS", "on"}})));
  }
  expect_sums(job, 2);
}

TEST(EncryptedHosts, CertificatesEncryptWithAndWithoutAToken) {
  MAKE_HOSTS(hosts, 2);
  const Authority authority("the cluster");
  const Files first(authority.identity("host0")), second(authority.identity("host1"));
  expect_sums(start_two(hosts, {HOST_RANK, "sum"}, first.variables(), second.variables()), 4);
  const Variables none{{"UNISONO_TOKEN", "none"}};
  expect_sums(start_two(hosts, {HOST_RANK, "sum"}, with(first.variables(), none), with(second.variables(), none)), 4);
}

TEST(EncryptedHosts, EncryptedHostsEndWhenARankDies) {
  MAKE_HOSTS(hosts, 2);
  const auto job = start_job(hosts, 2, {HOST_RANK, "fall", "3"}, {}, encrypted);
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 134);
    EXPECT_SAYS(launcher->err(), "first cause: rank 3 (pid ");
  }
}

/// A job of which host 1 is started otherwise. Host 1 says what is wrong, and does not wait for the time to join to pass.
void expect_refusal(const Hosts& hosts, const Variables& first, const Variables& second, const std::string& says, const std::string& log_of_host_0) {
  const auto job = start_two(hosts, never, with(first, {{"UNISONO_TIMEOUT", "60"}}), with(second, {{"UNISONO_TIMEOUT", "600"}}));
  EXPECT_NE(job[1]->wait(), 0);
  EXPECT_SAYS(job[1]->err(), says);
  EXPECT_EQ(job[1]->out(), "");
  if (log_of_host_0.empty()) return;
  EXPECT_TRUE(job[0]->until([&] { return unwrapped(job[0]->err()).find(log_of_host_0) != std::string::npos; })) << job[0]->err();
}

TEST(RefusedEncryption, EncryptionOnOneSideOnlyIsRefused) {
  MAKE_HOSTS(hosts, 2);
  expect_refusal(hosts, encrypted, secret, "this job's connections are encrypted (UNISONO_TLS), and this process's are not",
                 "from 10.77.0.2: it does not encrypt its connections, and this process does");
  expect_refusal(hosts, secret, encrypted, "it does not encrypt its connections, and this process does",
                 "from 10.77.0.2: it encrypts its connections (UNISONO_TLS), and this process does not");
}

TEST(RefusedEncryption, AnotherTokenIsRefused) {
  MAKE_HOSTS(hosts, 2);
  expect_refusal(hosts, encrypted, with(encrypted, {{"UNISONO_TOKEN", "another secret of sufficient length"}}), "it refused this process's token",
                 "from 10.77.0.2: its token is not the token of this process");
}

TEST(RefusedEncryption, EncryptionWithoutTokenAndCertificateIsRefused) {
  MAKE_HOSTS(hosts, 2);
  expect_refusal(hosts, encrypted, with(encrypted, {{"UNISONO_TOKEN", "none"}}), "UNISONO_TLS=required takes the job's secret", "");
}

TEST(RefusedEncryption, CertificatesThatDoNotHoldAreRefused) {
  MAKE_HOSTS(hosts, 2);
  const Authority authority("the cluster"), other("another cluster");
  const Files good(authority.identity("host0")), expired(authority.identity("host1", -day)), strange(other.identity("host1")),
      open(authority.identity("host1"));
  ASSERT_EQ(::chmod(open.path("key").c_str(), 0644), 0);
  expect_refusal(hosts, good.variables(), expired.variables(), "certificate has expired", "");
  expect_refusal(hosts, good.variables(), open.variables(), "is open to others (mode 0644)", "");
  expect_refusal(hosts, good.variables(), strange.variables(), "its certificate is not valid: unable to get local issuer certificate",
                 "from 10.77.0.2: it refused this process");
  expect_refusal(hosts, good.variables(), encrypted, "it presents a certificate, and this process has only a token", "from 10.77.0.2: it refused");
}

// Ranks of which one does not encrypt learn it from the job's store, which their launchers serve them.
TEST(RefusedEncryption, EncryptionOnSomeRanksOnlyIsRefused) {
  MAKE_HOSTS(hosts, 2);
  const std::string mixed = fmt::format("[ $RANK -eq 3 ] && export UNISONO_TLS_CERT=/x UNISONO_TLS_KEY=/x UNISONO_TLS_CA=/x; exec {} sum", HOST_RANK);
  const auto job = start_job(hosts, 2, {"sh", "-c", mixed}, {}, encrypted);
  EXPECT_EQ(job[1]->wait(), 1);
  EXPECT_SAYS(job[1]->err(), "the certificate file /x cannot be read: No such file or directory");
  EXPECT_EQ(job[0]->wait(), 1);
  const std::string plain = fmt::format("[ $RANK -eq 3 ] && export UNISONO_TLS=off; exec {} sum", HOST_RANK);
  const auto second = start_job(hosts, 2, {"sh", "-c", plain}, {}, encrypted);
  EXPECT_EQ(second[1]->wait(), 1);
  EXPECT_SAYS(second[1]->err(), "this job's connections are encrypted (UNISONO_TLS), and this process's are not");
  EXPECT_EQ(second[0]->wait(), 1);
}

TEST(RefusedEncryption, BackendsThatDoNotEncryptBetweenHostsAreRefused) {
  if (!has_gloo()) GTEST_SKIP() << "skipped: the plug-in gloo is not built";
  MAKE_HOSTS(hosts, 2);
  const auto job = start_job(hosts, 2, {HOST_RANK, "sum"}, {"--backend", "gloo"}, encrypted);
  std::string out;
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 1) << launcher->err();
    out += launcher->out();
  }
  EXPECT_GE(count(out, "failed: BackendUnavailable: UNISONO_TLS=required, and unisono does not encrypt the connections of backend gloo"), 1) << out;
  // On one host it may do as it likes, and `on` is about our own connections.
  const auto alone = hosts.start(0, unisono_command({"run", "-n", "2", "--backend", "gloo", "--", HOST_RANK, "sum"}), encrypted);
  EXPECT_EQ(alone->wait(), 0) << alone->err();
  expect_sums(start_job(hosts, 2, {HOST_RANK, "sum"}, {"--backend", "gloo"}, with(secret, {{"UNISONO_TLS", "on"}})), 4);
}

TEST(RefusedEncryption, EncryptionWithoutThePlugInIsRefused) {
  MAKE_HOSTS(hosts, 1);
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/bin");
  std::filesystem::copy_file(UNISONO_COMMAND, folder.path() + "/bin/unisono");
  const auto run = [&](const Variables& more) {
    auto words = node_words({.node = 0, .master = hosts.address(0)}, never);
    words.front() = folder.path() + "/bin/unisono";
    auto launcher = hosts.start(0, words, with(encrypted, more));
    EXPECT_NE(launcher->wait(), 0);
    EXPECT_SAYS(launcher->err(), "a build of unisono with OpenSSL 3 has it");
    return launcher->err();
  };
  EXPECT_SAYS(run({}), "UNISONO_TLS=required, and this process cannot encrypt: there is no libunisono-tls.so in " + folder.path() + "/bin");
  write_secret(folder.path() + "/bin/libunisono-tls.so", "not a library");
  EXPECT_SAYS(run({}), folder.path() + "/bin/libunisono-tls.so cannot be loaded: ");
  ASSERT_EQ(::chmod((folder.path() + "/bin/libunisono-tls.so").c_str(), 0666), 0);
  EXPECT_SAYS(run({}), "libunisono-tls.so is not loaded: anybody can write to ");
}

// Strangers at the store and at the ranks, while the ranks meet and work.
TEST(EncryptedHosts, StrangersKeepNobodyOut) {
  MAKE_HOSTS(hosts, 3);
  TemporaryFolder folder;
  const auto job = start_job(hosts, 2, {HOST_RANK, "hold", folder.path() + "/go"}, {}, encrypted);
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("holding\n", 2)) << launcher->err();
  hosts.in_network_of(2, [&] {
    std::vector<base::FileDescriptor> strangers;
    for (int i = 0; i < 200; ++i) {
      strangers.push_back(base::try_connect(base::resolve("10.77.0.1", 29500).front(), base::Deadline(std::chrono::seconds(30))).fd);
      ASSERT_TRUE(strangers.back());
      // Nothing, half the head of a record, a record that announces more than comes, and noise.
      const std::string_view words[] = {"", {"\x16\x03\x01", 3}, {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11}, "GET / HTTP/1.0\r\n\r\n"};
      store::say(strangers.back(), words[i % 4]);
    }
    for (const auto& fd : strangers) store::hear(fd);  // closed, and in time; it fails where one is kept
  });
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 0) << launcher->err();
}

}  // namespace
}  // namespace unisono::testing
