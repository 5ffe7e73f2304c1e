#include "hosts/host_list.h"

#include <netdb.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/host.h"
#include "base/socket.h"
#include "common/text.h"
#include "launch/job_options.h"
#include "launch/process/program.h"
#include "rendezvous/slurm.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

[[noreturn]] void refuse_host(const std::string& place, const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(fmt::format("{}: {}", place, what), {.hint = hint});
}

int slots_of(std::string_view text, std::string_view host, const std::string& place) {
  const auto slots = parse_number<int>(text);
  if (!slots) refuse_host(place, fmt::format("\"{}\" after {} is not a number of ranks", text, host));
  if (*slots < 1 || *slots > launcher::most_ranks)
    refuse_host(place, fmt::format("host {} has {} slots; the number must be from 1 to {}", host, *slots, launcher::most_ranks),
                *slots == 0 ? "leave the host out, or put a # in front of it" : "");
  return *slots;
}

/// Splits "host:4" or "[fd00::1]:4". The number is empty where there is none.
std::pair<std::string, std::string> split_number(std::string_view item) {
  if (item.starts_with('[') && item.find(':') < item.find(']')) {  // an IPv6 address
    const auto end = item.find(']');
    if (end == std::string_view::npos) return {std::string(item), {}};
    const std::string_view rest = item.substr(end + 1);
    return {std::string(item.substr(1, end - 1)), rest.starts_with(':') ? std::string(rest.substr(1)) : std::string()};
  }
  const auto first = item.find(':'), last = item.rfind(':');
  if (first == std::string_view::npos || first != last) return {std::string(item), {}};
  return {std::string(item.substr(0, first)), item.substr(last + 1).empty() ? "?" : std::string(item.substr(last + 1))};
}

void check_name(const std::string& name, const std::string& place) {
  const std::string bare = bare_name(name);
  const bool odd = std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) <= ' ' || std::string_view("\"'`$&|;<>()\\,=").find(c) != std::string_view::npos; });
  // ssh would take a name that begins with a dash for an option.
  if (bare.empty() || odd || name.starts_with('-') || bare.starts_with('-'))
    refuse_host(place, fmt::format("\"{}\" is not the name of a host", name));
}

class Collector {
 public:
  void add(const std::string& names, int slots, const std::string& place) {
    const bool is_address = names.find(':') != std::string::npos;
    std::vector<std::string> all{names};
    if (!is_address && names.find('[') != std::string::npos) {
      try {
        all = rendezvous::parse_host_list(names);
      } catch (const InvalidArgument& error) {
        refuse_host(place, error.message());
      }
    }
    for (const std::string& name : all) {
      check_name(name, place);
      const auto [found, is_new] = places_.try_emplace(bare_name(name), place);
      if (!is_new) {
        refuse_host(
            place,
            found->second == place ? fmt::format("host {} is named twice", name) : fmt::format("host {} is already at {}", name, found->second),
            "name each host once, with all of its slots");
      }
      hosts.push_back({name, slots, place});
    }
  }
  std::vector<HostEntry> hosts;

 private:
  std::map<std::string, std::string> places_;
};

/// Returns the words of a line. Blanks around a "=" do not count.
std::vector<std::string> words_of(std::string line) {
  line = line.substr(0, line.find('#'));
  std::string joined;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) {
    const bool attach = word.starts_with('=') || joined.ends_with('=');
    joined += (joined.empty() || attach ? "" : " ") + word;
  }
  std::vector<std::string> words;
  std::istringstream again(joined);
  for (std::string word; again >> word;) words.push_back(word);
  return words;
}

void read_line(const std::vector<std::string>& words, const std::string& place, Collector& collector) {
  auto [name, number] = split_number(words.front());
  std::optional<int> slots, most;
  if (!number.empty()) slots = slots_of(number, name, place);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    const std::string value = equals == std::string::npos ? std::string() : words[i].substr(equals + 1);
    if (key == "slots" || key == "cpu" || key == "count") {
      if (slots) refuse_host(place, fmt::format("the number of slots of host {} is given twice", name));
      slots = slots_of(value, name, place);
    } else if (key == "max_slots" || key == "max-slots") {
      most = slots_of(value, name, place);
    } else {
      refuse_host(place, fmt::format("\"{}\" is not understood", words[i]), "a line is \"host slots=4\" or \"host:4\"");
    }
  }
  if (most && slots && *slots > *most) refuse_host(place, fmt::format("host {} has {} slots, and at most {}", name, *slots, *most));
  collector.add(name, slots.value_or(1), place);
}

using base::Environment;

std::string first_set(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto value = environment.get(name)) return *value;
  return {};
}

[[noreturn]] void refuse_hosts(const std::string& what, const std::string& hint) { throw InvalidArgument(what, {.hint = hint}); }

int tasks_of(std::string_view text, std::string_view whole) {
  const auto value = parse_number<int>(text);
  if (!value || *value < 1 || *value > launcher::most_ranks)
    refuse_hosts(fmt::format("\"{}\" is not a list of numbers of tasks, such as 2(x3),1", whole), "-n says how many ranks to start here");
  return *value;
}

/// Returns the numbers of a list in Slurm's form, "2(x3),1" being 2, 2, 2, 1.
std::vector<int> repeated_numbers(std::string_view text) {
  const std::string_view whole = text;
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const auto open = item.find("(x");
    if (open == std::string_view::npos) {
      numbers.push_back(tasks_of(item, whole));
      continue;
    }
    if (!item.ends_with(')')) tasks_of("", whole);
    const int times = tasks_of(item.substr(open + 2, item.size() - open - 3), whole);
    numbers.insert(numbers.end(), static_cast<std::size_t>(times), tasks_of(item.substr(0, open), whole));
  }
  return numbers;
}

/// Returns how many ranks each node gets: as many as Slurm counts tasks there.
std::vector<int> ranks_per_node(const Environment& environment, std::size_t nodes) {
  const std::string text = first_set(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!text.empty()) {
    auto counts = repeated_numbers(text);
    if (counts.size() != nodes)
      refuse_hosts(fmt::format("SLURM_TASKS_PER_NODE {} is about {} nodes, and the job has {}", text, counts.size(), nodes),
                   "--hosts names the hosts");
    return counts;
  }
  if (const auto each = environment.get_int("SLURM_NTASKS_PER_NODE")) return std::vector<int>(nodes, *each);
  const int all = environment.get_int("SLURM_NTASKS").value_or(static_cast<int>(nodes));
  if (all < 1) refuse_hosts(fmt::format("SLURM_NTASKS is {}", all), "--hosts names the hosts");
  std::vector<int> counts(nodes, all / static_cast<int>(nodes));
  for (std::size_t i = 0; i < static_cast<std::size_t>(all) % nodes; ++i) ++counts[i];
  return counts;
}

/// Returns the whole name of this host, as /etc/hosts or the name server has it.
std::string canonical_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  return found->ai_canonname != nullptr ? found->ai_canonname : name;
}

}  // namespace

std::string bare_name(const std::string& name) { return name.substr(name.find('@') + 1); }

std::vector<HostEntry> hosts_of_list(std::string_view text, const std::string& place) {
  Collector collector;
  std::string item;
  int depth = 0;
  const auto take = [&] {
    if (item.empty()) refuse_host(place, fmt::format("a name is empty in \"{}\"", text));
    const auto [name, number] = split_number(item);
    collector.add(name, number.empty() ? 1 : slots_of(number, name, place), place);
    item.clear();
  };
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) take();
    else if (c != ' ') item += c;
  }
  take();
  return std::move(collector.hosts);
}

std::vector<HostEntry> hosts_of_file(const std::string& path) {
  std::ifstream file(path);
  const auto cannot = [&] { refuse_host(path, "the host file cannot be read: " + base::error_text(errno)); };
  if (!file) cannot();
  Collector collector;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (const auto words = words_of(line); !words.empty()) read_line(words, fmt::format("{}:{}", path, number), collector);
  }
  if (file.bad()) cannot();
  if (collector.hosts.empty()) refuse_host(path, "the host file names no host", "a line is \"host slots=4\" or \"host:4\"");
  return std::move(collector.hosts);
}

long slots_of(const std::vector<HostEntry>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0L, [](long sum, const HostEntry& host) { return sum + host.slots; });
}

void limit_ranks(std::vector<HostEntry>& hosts, int ranks) {
  const long all = slots_of(hosts);
  if (ranks > all) {
    throw InvalidArgument(fmt::format("{} ranks are asked for, and the hosts have {}", ranks, counted(static_cast<std::size_t>(all), "slot")),
                          {.hint = "say how many ranks each host takes: --hosts a:4,b:4, or slots=4 in the host file"});
  }
  for (HostEntry& host : hosts) {
    host.slots = std::min(host.slots, ranks);
    ranks -= host.slots;
  }
  std::erase_if(hosts, [](const HostEntry& host) { return host.slots == 0; });
}

std::vector<HostEntry> allocated_hosts(const Environment& environment) {
  if (first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}).empty() || rendezvous::is_step_of_srun(environment)) return {};
  const std::string list = first_set(environment, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (list.empty()) return {};
  const auto names = rendezvous::parse_host_list(list);
  if (names.empty()) return {};
  const auto counts = ranks_per_node(environment, names.size());
  std::vector<HostEntry> hosts;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (counts[i] > 0) hosts.push_back({names[i], counts[i], "SLURM_JOB_NODELIST"});
  return hosts;
}

std::string allocation_command(const Environment& environment) {
  try {
    launcher::find_program("srun", environment);
  } catch (const launcher::StartFailed&) {
    return "ssh";
  }
  // A step of one task on one node, which takes nothing away from other steps. Its ranks are ours, so Slurm serves them no MPI.
  return "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist={host} --overlap --cpu-bind=none --mem=0 --mpi=none --export=ALL --quiet";
}

std::optional<IndexedPod> indexed_pod(const Environment& environment) {
  const auto index = environment.get_int("JOB_COMPLETION_INDEX");
  if (!index) return std::nullopt;
  IndexedPod pod{.index = *index};
  const std::string name = canonical_name(base::host_name());
  const auto dot = name.find('.');
  const std::string ending = fmt::format("-{}", *index);
  const std::string own = name.substr(0, dot);
  // Without a domain, the name of another pod leads nowhere.
  if (dot != std::string::npos && own.ends_with(ending)) pod.first_pod = own.substr(0, own.size() - ending.size()) + "-0" + name.substr(dot);
  return pod;
}

}  // namespace unisono::tools
