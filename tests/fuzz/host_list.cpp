// The lists of hosts: Slurm's node lists, --hosts, host files, and the words of --ssh. Each is refused with InvalidArgument, or names hosts whose
// names are not empty; a list of Slurm's is the same when its names are written one by one, and when it is sorted it has the same names.
#include "hosts/host_list.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hosts/start_words.h"
#include "input.h"
#include "rendezvous/slurm.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

constexpr std::size_t most_compared = 20'000;  // a million names take seconds to compare

void check_slurm(std::string_view text) {
  std::vector<std::string> hosts, sorted;
  if (refuses<InvalidArgument>([&] { hosts = rendezvous::parse_host_list(text); })) return;
  require(hosts.size() <= 1'000'000, "a list has a million names at most");
  for (const std::string& host : hosts) require(!host.empty() && host.size() <= rendezvous::longest_host_name, "a name has a length");
  if (hosts.size() > most_compared) return;
  sorted = rendezvous::parse_host_list(text, rendezvous::HostOrder::sorted);
  require(std::set(hosts.begin(), hosts.end()) == std::set(sorted.begin(), sorted.end()), "both orders have the same names");
  require(rendezvous::parse_host_list(fmt::format("{}", fmt::join(hosts, ","))) == hosts, "a list of names comes back");
}

void check_task(Input& in) {
  std::map<std::string, std::string, std::less<>> variables;
  for (const char* const name :
       {"SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "SLURM_RESTART_COUNT", "SLURM_STEP_ID"}) {
    if (in.flag()) variables[name] = in.text();
  }
  variables["SLURM_JOB_NODELIST"] = in.rest();
  const base::Environment environment(std::move(variables));
  refuses<InvalidArgument>([&] {
    if (!rendezvous::is_slurm_task(environment)) return;
    const rendezvous::SlurmTask task = rendezvous::slurm_task(environment);
    require(task.rank >= 0 && task.rank < task.world_size && !task.first_host.empty(), "a task has a rank in its world, and a first host");
  });
}

void check_hosts(const std::vector<tools::HostEntry>& hosts) {
  require(!hosts.empty(), "a list names a host");
  std::set<std::string> names;
  for (const tools::HostEntry& host : hosts) {
    require(host.slots >= 1 && !host.name.starts_with('-') && host.name.find_first_of(" \t\n'\"`$;&|") == std::string::npos,
            "a host is safe for ssh");
    require(names.insert(tools::bare_name(host.name)).second, "no host is named twice");
  }
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  switch (in.choice(4)) {
    case 0: return check_slurm(in.rest());
    case 1: return check_task(in);
    case 2: refuses<InvalidArgument>([&] { check_hosts(tools::hosts_of_list(in.rest())); }); return;
    case 3: {
      const MemoryFile file(in.rest());
      refuses<InvalidArgument>([&] { check_hosts(tools::hosts_of_file(file.path())); });
      return;
    }
    default: {
      std::vector<std::string> words;
      if (refuses<InvalidArgument>([&] { words = tools::split_words(in.rest()); })) return;
      std::string text;
      for (const std::string& word : words) text += tools::shell_quoted(word) + " ";
      require(tools::split_words(text) == words, "quoted words come back");
    }
  }
}

}  // namespace unisono::fuzz
