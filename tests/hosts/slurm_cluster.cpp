#include "slurm_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace unisono::testing {
namespace {

constexpr const char* munged = "/usr/sbin/munged";
constexpr const char* slurmctld = "/usr/sbin/slurmctld";
constexpr const char* slurmd = "/usr/sbin/slurmd";

const char* const settings = R"(ClusterName=unisono
SlurmctldHost=host0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={0}/munge
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool-%n
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd-%n.pid
SlurmctldLogFile={0}/slurmctld.log
SlurmdLogFile={0}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName=host[0-1] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
)";

/// The process identifiers in /proc.
std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) all.push_back(std::stoi(name));
  }
  return all;
}

std::string network_of(pid_t pid) {
  std::error_code ignored;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/net", pid), ignored);
}

}  // namespace

SlurmCluster::SlurmCluster() {
  for (const char* const program : {munged, slurmctld, slurmd, "/usr/bin/srun"}) {
    if (::access(program, X_OK) == 0) continue;
    why_not_ = fmt::format("there is no {} (Debian: slurmctld, slurmd, slurm-client and munge; scripts/get/dependencies --real)", program);
    return;
  }
  hosts_ = std::make_unique<Hosts>(2);
  why_not_ = hosts_->why_not();
  if (!why_not_.empty()) return;
  start_daemons();
  EXPECT_TRUE(eventually([&] { return both_are_idle(); }, std::chrono::seconds(60))) << logs();
  own_processes_ = processes();
}

SlurmCluster::~SlurmCluster() {
  if (!why_not_.empty() || !hosts_) return;
  daemons_.clear();
  // The steps of a job that a test has left do not end with their slurmd.
  for (const pid_t pid : processes()) {
    if (own_processes_.contains(pid)) continue;
    ::kill(pid, SIGKILL);
  }
}

void SlurmCluster::start_daemons() {
  std::ofstream(folder() + "/slurm.conf") << fmt::format(fmt::runtime(settings), folder());
  std::ofstream(folder() + "/cgroup.conf") << "CgroupPlugin=cgroup/v1\n";  // which nothing here uses, and which asks for no mounted one
  write_secret(folder() + "/munge.key", std::string(1024, 'k') + folder());
  std::ofstream(folder() + "/mpi.conf") << fmt::format("PMIxCliTmpDirBase={}/tmp\n", folder());
  for (const char* const name : {"state", "spool-host0", "spool-host1", "tmp"}) std::filesystem::create_directory(folder() + "/" + name);
  // Slurm's PMIx gives what it puts there the same names on both hosts.
  for (const int host : {0, 1}) hosts_->run(host, {"mount", "-t", "tmpfs", "none", folder() + "/tmp"});
  const auto start_daemon = [&](int host, std::vector<std::string> words) {
    // It ends with a test that is killed, and nobody reads what it prints.
    std::vector<std::string> all{"setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", "exec \"$@\" >>\"$0\" 2>&1", folder() + "/printed"};
    all.insert(all.end(), words.begin(), words.end());
    daemons_.push_back(hosts_->start(host, all));
  };
  const std::string munge = folder() + "/munge", settings_file = folder() + "/slurm.conf";
  // The folder is this user's alone, where munged expects one that all can enter: --force.
  start_daemon(0, {munged, "--foreground", "--force", "--socket=" + munge, "--key-file=" + munge + ".key", "--pid-file=" + munge + ".pid",
                   "--log-file=" + munge + ".log", "--seed-file=" + munge + ".seed"});
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_socket(munge); })) << logs();
  start_daemon(0, {slurmctld, "-D", "-f", settings_file});
  for (const int host : {0, 1}) start_daemon(host, {slurmd, "-D", "-N", fmt::format("host{}", host), "-f", settings_file});
}

bool SlurmCluster::both_are_idle() const {
  const auto asked = start({"sinfo", "--noheader", "--Node", "--format=%N %T"});
  return asked->wait() == 0 && asked->out() == "host0 idle\nhost1 idle\n";
}

std::unique_ptr<RunningCommand> SlurmCluster::start(const std::vector<std::string>& words,
                                                    const std::map<std::string, std::string>& variables) const {
  std::vector<std::string> all{"sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "-", folder()};
  all.insert(all.end(), words.begin(), words.end());
  std::map<std::string, std::string> more{{"SLURM_CONF", folder() + "/slurm.conf"}, {"UNISONO_TOKEN", "the secret of these tests"}};
  for (const auto& [name, value] : variables) more[name] = value;
  return hosts_->start(0, all, more);
}

std::set<pid_t> SlurmCluster::processes() const {
  const std::set<std::string> networks{network_of(hosts_->process(0)), network_of(hosts_->process(1))};
  std::set<pid_t> found;
  for (const pid_t pid : all_processes()) {
    if (networks.contains(network_of(pid)) && is_alive(pid)) found.insert(pid);
  }
  return found;
}

std::set<pid_t> SlurmCluster::started_processes() const {
  std::set<pid_t> started = processes();
  std::erase_if(started, [&](pid_t pid) { return own_processes_.contains(pid); });
  return started;
}

std::string SlurmCluster::logs() const {
  std::string all;
  for (const char* const name : {"printed", "munge.log", "slurmctld.log", "slurmd-host0.log", "slurmd-host1.log"})
    all += fmt::format("---- {}\n{}", name, contents(folder() + "/" + name));
  return all;
}

}  // namespace unisono::testing
