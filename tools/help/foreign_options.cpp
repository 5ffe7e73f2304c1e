#include "help/foreign_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/processors.h"
#include "common/commands.h"
#include "common/machine.h"

namespace unisono::tools {
namespace {

using Fate = ForeignOption::Fate;

constexpr std::string_view per_host = "--hosts a:4,b:4 says how many ranks each host gets";
constexpr std::string_view in_files = "--logs FOLDER keeps a file for each rank, and the output is shown as well";
constexpr std::string_view as_variable = "-x NAME=VALUE sets a variable of the ranks";
constexpr std::string_view bindings = "--bind takes core, l3, numa or none";
constexpr std::string_view in_order =
    "ranks fill the hosts in order, and with --bind l3 or numa their parts; --hosts a:4,b:4 says how many each gets";
constexpr std::string_view by_number = "each rank chooses its GPU by LOCAL_RANK, or by the CUDA_VISIBLE_DEVICES that it has";

/// Of each, the launcher that has it is named where others of this name mean something else.
constexpr std::array table = {
    ForeignOption{"--np --nprocs --ntasks --num-proc --num-processes", 1, Fate::same, "--ranks"},
    ForeignOption{"--nproc-per-node --npernode --ntasks-per-node --ppn --perhost", 1, Fate::per_host, "--ranks", {}, per_host},
    ForeignOption{
        "-c", 1, Fate::other, {}, {}, "-n says how many ranks (as mpirun's -c), and OMP_NUM_THREADS how many cores each gets (as srun's -c)"},
    ForeignOption{"--cpus-per-task --cpus-per-proc --cpus-per-rank", 1, Fate::other, {}, {}, "OMP_NUM_THREADS=N gives each rank so many cores"},
    ForeignOption{"-N", 1, Fate::other, {}, {}, "--hosts a:4,b:4 names the hosts (srun's -N), and how many ranks each gets (mpirun's -N)"},
    ForeignOption{"--nodes", 1, Fate::other, {}, {}, "--hosts names the hosts; in the shell of an allocation of Slurm it takes all of them"},
    ForeignOption{"-H --host", 1, Fate::same, "--hosts"},
    ForeignOption{"-w --nodelist", 1, Fate::other, {}, {}, "--hosts a:4,b:4 names the hosts, and how many ranks each gets"},
    ForeignOption{"-f --machinefile --default-hostfile", 1, Fate::same, "--hostfile"},
    ForeignOption{"--wd --workdir --chdir -D", 1, Fate::same, "--wdir"},
    ForeignOption{"--oversubscribe --overcommit -O --allow-run-as-root", 0, Fate::implied},
    ForeignOption{"--nooversubscribe", 0, Fate::other, {}, {}, "the ranks of a host may outnumber its cores, and never the slots of --hosts"},
    ForeignOption{"--bind-to", 1, Fate::same, "--bind", "core none l3cache=l3 l3 numa", bindings},
    ForeignOption{"--cpu-bind", 1, Fate::same, "--bind", "cores=core none no=none ldoms=numa", bindings},
    ForeignOption{"--numa-binding",
                  1,
                  Fate::other,
                  {},
                  {},
                  "--bind numa binds to a NUMA node, whatever the rank's GPU, and numactl may stand in front of the program"},
    ForeignOption{"--map-by --rank-by", 1, Fate::implied, {}, "slot core", in_order},
    ForeignOption{"--report-bindings --display-map --display-allocation", 0, Fate::other, {}, {}, "UNISONO_LOG=info says where the ranks run"},
    ForeignOption{"--mca --gmca --prtemca --pmixmca", 2, Fate::other, {}, {}, "it sets parts of Open MPI; here --backend and UNISONO_BACKEND choose"},
    ForeignOption{"--env --genv", 2, Fate::other, {}, {}, as_variable},
    ForeignOption{"--envlist --genvlist", 1, Fate::other, {}, {}, "-x NAME hands a variable on to named hosts; it may be given several times"},
    ForeignOption{"--envall --genvall", 0, Fate::other, {}, {}, "ranks of this host have all variables, and -x 'NAME*' hands them on to named hosts"},
    ForeignOption{"--standalone --no-python", 0, Fate::implied},
    ForeignOption{"--rdzv-backend", 1, Fate::implied, {}, "c10d static", "--store etcd://HOST:2379/JOB lets the hosts meet in etcd"},
    ForeignOption{"--rdzv-endpoint", 1, Fate::same, "--master-addr"},
    ForeignOption{"--rdzv-id", 1, Fate::implied},
    ForeignOption{"--rdzv-conf", 1, Fate::other, {}, {}, "--last-call, --timeout and --silence say how long hosts wait for each other"},
    ForeignOption{"--monitor-interval", 1, Fate::implied},
    ForeignOption{"--local-addr", 1, Fate::other, {}, {}, "UNISONO_INTERFACE names the network of this host"},
    ForeignOption{"--iface", 1, Fate::other, {}, {}, "UNISONO_INTERFACE names the network of this host"},
    ForeignOption{"--start-method", 1, Fate::other, {}, {}, "ranks are programs; unisono.spawn in Python starts functions"},
    ForeignOption{"--role", 1, Fate::other, {}, {}, "ranks have numbers and no roles"},
    ForeignOption{"--run-path", 0, Fate::other, {}, {}, "the program is named by its file"},
    ForeignOption{"--log-dir", 1, Fate::same, "--logs"},
    ForeignOption{"--tee --redirects -r", 1, Fate::other, {}, {}, in_files},
    ForeignOption{"--output-filename --output --error --outfile-pattern --errfile-pattern -o -e", 1, Fate::other, {}, {}, in_files},
    ForeignOption{"--tag-output --label -l --prepend-rank --unbuffered -u", 0, Fate::implied},
    ForeignOption{"--kill-on-bad-exit -K", 0, Fate::implied},
    ForeignOption{"--time -t", 1, Fate::other, {}, {}, "timeout(1) ends a job after a time: timeout 3600 unisono run …"},
    ForeignOption{"--mpi", 1, Fate::other, {}, {}, "--backend mpi makes the ranks a world of MPI's"},
    ForeignOption{"--launcher --launch-agent --plm-rsh-agent --rsh", 1, Fate::other, {}, {}, "--ssh says which command reaches the hosts"},
    ForeignOption{"--gpus --gpus-per-node --gpus-per-task --gres", 1, Fate::other, {}, {}, by_number},
    ForeignOption{"--multi-prog", 0, Fate::other, {}, {}, "all ranks run one program, which may act by RANK"},
    ForeignOption{"--verbose -v", 0, Fate::other, {}, {}, "UNISONO_LOG=info or debug says more"},
    ForeignOption{"--quiet -q", 0, Fate::other, {}, {}, "UNISONO_LOG=error says less"},
};

/// Calls the function with each word of a list until it returns true. Tells whether it did.
template <class Function>
bool any_word(std::string_view list, const Function& is_it) {
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(' '));
    if (is_it(word)) return true;
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
  return false;
}

bool has(const CLI::App& command, const std::string& name) { return command.get_option_no_throw(name) != nullptr; }

/// Options of others that set what only `run` does are none of the other commands'.
const ForeignOption* find_row(const CLI::App& command, std::string_view name) {
  const auto* const row = std::ranges::find_if(
      table, [&](const ForeignOption& each) { return any_word(each.names, [&](std::string_view word) { return word == name; }); });
  if (row == table.end()) return nullptr;
  const bool concerns = takes_program(command) || (!row->ours.empty() && has(command, std::string(row->ours)));
  return concerns ? row : nullptr;
}

bool is_short(std::string_view name) { return name.size() == 2 && name[1] != '-'; }

/// Returns our value; nothing: the fate of the option is not that of this value.
std::optional<std::string> our_value(const ForeignOption& row, const std::string& value) {
  if (row.ours == "--ranks" && value == "cpu") return std::to_string(base::allowed_processors());
  if (row.ours == "--ranks" && (value == "gpu" || value == "auto")) {
    const int gpus = visible_gpus();
    if (gpus == 0 && value == "gpu") return std::nullopt;
    return std::to_string(gpus > 0 ? gpus : base::allowed_processors());
  }
  std::optional<std::string> found;
  if (row.words.empty()) return value;
  any_word(row.words, [&](std::string_view word) {
    const auto equals = std::min(word.find('='), word.size());
    if (word.substr(0, equals) != value) return false;
    found = equals < word.size() ? word.substr(equals + 1) : word;
    return true;
  });
  return found;
}

/// Splits "HOST:PORT", "[ADDRESS]:PORT" or either without a port.
std::pair<std::string, std::string> address_and_port(const std::string& text) {
  const bool has_brackets = text.starts_with('[');
  const auto end = has_brackets ? text.find(']') : text.find(':');
  if (end == std::string::npos || (!has_brackets && text.find(':', end + 1) != std::string::npos)) return {text, {}};  // fd00::1
  const std::string rest = text.substr(end + (has_brackets ? 1 : 0));
  return {has_brackets ? text.substr(1, end - 1) : text.substr(0, end), rest.starts_with(':') ? rest.substr(1) : std::string()};
}

/// Puts our words for one option of another launcher behind the others.
void add_ours(const ForeignOption& row, const std::string& value, std::vector<std::string>& words) {
  if (row.fate == Fate::implied) return;
  const bool is_address = row.ours == "--master-addr";
  const auto [address, port] = is_address ? address_and_port(value) : std::pair(value, std::string());
  words.push_back(fmt::format("{}={}", row.ours, address));
  if (!port.empty()) words.push_back("--master-port=" + port);
}

bool names_hosts(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size();) {
    const OptionWord option = read_option(command, words[i]);
    const std::string_view ours = option.foreign != nullptr ? option.foreign->ours : option.name;
    if (ours == "--hosts" || ours == "--hostfile") return true;
    i += 1 + values_after(command, option);
  }
  return false;
}

}  // namespace

std::span<const ForeignOption> foreign_options() { return table; }

OptionWord read_option(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-') || word.size() < 2) return {.name = word};
  OptionWord option;
  const auto equals = word.find('=');
  option.has_value = equals != std::string::npos;
  option.name = word.substr(0, equals);
  if (option.has_value) option.value = word.substr(equals + 1);
  if (is_short(option.name)) {
    if (!has(command, option.name)) option.foreign = find_row(command, option.name);
    return option;
  }
  if (has(command, option.name)) return option;
  // torchrun takes '_' for '-', and mpirun one dash for two.
  std::string dashed = option.name.starts_with("--") ? option.name : "-" + option.name;
  std::ranges::replace(dashed, '_', '-');
  const std::string letter = word.substr(0, 2);
  if (has(command, dashed) || (option.foreign = find_row(command, dashed)) != nullptr) {
    option.name = dashed;
  } else if (is_short(letter) && word.size() > 2) {  // -n4
    const ForeignOption* row = has(command, letter) ? nullptr : find_row(command, letter);
    if (!has(command, letter) && (row == nullptr || row->values == 0)) return option;
    option = {.name = letter, .value = word.substr(2), .has_value = true, .foreign = row};
  }
  return option;
}

std::size_t values_after(const CLI::App& command, const OptionWord& option) {
  if (option.has_value) return 0;
  if (option.foreign != nullptr) return static_cast<std::size_t>(option.foreign->values);
  const CLI::Option* own = command.get_option_no_throw(option.name);
  return own != nullptr && own->get_expected_min() > 0 && own->get_type_size() > 0 ? 1 : 0;
}

std::string with_our_name(const CLI::App& command, const std::string& word) {
  const OptionWord option = read_option(command, word);
  if (!word.starts_with('-')) return word;
  if (option.foreign != nullptr ? option.foreign->ours.empty() : is_short(option.name) || !has(command, option.name)) return word;
  return std::string(option.foreign != nullptr ? option.foreign->ours : option.name) + (option.has_value ? "=" + option.value : "");
}

OurWords in_our_words(const CLI::App& command, const std::vector<std::string>& words) {
  OurWords ours;
  const bool has_hosts = takes_program(command) && names_hosts(command, words);
  for (std::size_t i = 0; i < words.size();) {
    const OptionWord option = read_option(command, words[i]);
    const std::size_t end = std::min(words.size(), i + 1 + values_after(command, option));
    if (option.foreign == nullptr) {
      ours.words.push_back(with_our_name(command, words[i]));
      ours.words.insert(ours.words.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.begin() + static_cast<std::ptrdiff_t>(end));
      i = end;
      continue;
    }
    const ForeignOption& row = *option.foreign;
    const std::string typed = words[i].substr(0, words[i].find('='));
    const auto object = [&](std::string_view what, std::string_view why) {
      ours.objection = fmt::format("{}{}{}", typed, what, why);
      return ours;
    };
    if (row.fate == Fate::other || (row.fate == Fate::per_host && has_hosts)) return object(": ", row.instead);
    if (row.values == 0 && option.has_value) return object("", " takes no value");
    if (row.values > 0 && !option.has_value && end == i + 1) return object("", " needs a value");
    const std::string value = row.values == 0 ? std::string() : option.has_value ? option.value : words[i + 1];
    const auto known = row.values == 0 ? std::optional(std::string()) : our_value(row, value);
    if (!known && row.ours == "--ranks") return object(" gpu: ", "there is no GPU on this host, or none is visible");
    if (!known) return object(" " + value + ": ", row.instead);
    add_ours(row, *known, ours.words);
    i = end;
  }
  return ours;
}

}  // namespace unisono::tools
