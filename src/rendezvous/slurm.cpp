#include "rendezvous/slurm.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>

#include <fmt/format.h>

#include "base/printable.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::size_t most_hosts = 1'000'000;
constexpr std::size_t most_digits = 18;  ///< of a number that fits 64 bits

struct Number {
  std::uint64_t value = 0;
  std::size_t width = 0;  ///< of the text of its range's start
  auto operator<=>(const Number&) const = default;
};

class Parser {
 public:
  Parser(std::string_view text, HostOrder order) : text_(text), order_(order) {
    std::ranges::copy_if(text, std::back_inserter(compact_), [](char c) { return c != ' ' && c != '\t' && c != '\n'; });
    rest_ = compact_;
  }

  std::vector<std::string> parse() {
    std::vector<std::string> hosts;
    while (!rest_.empty()) {
      const bool nothing = rest_ == "[]" || rest_.starts_with("[],");
      const auto names = item();
      if (names.empty() && !nothing) refuse("a name is empty");
      if (names.size() > most_hosts - hosts.size()) refuse("it has more than a million names");
      hosts.insert(hosts.end(), names.begin(), names.end());
      if (rest_.empty()) break;
      rest_.remove_prefix(1);  // the comma
      if (rest_.empty()) refuse("it ends with a comma");
    }
    return hosts;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const { throw InvalidArgument(fmt::format("the host list \"{}\" is invalid: {}", text_, why)); }

  /// Reads an item: the text up to the next comma outside brackets.
  std::vector<std::string> item() {
    if (rest_.starts_with("[]") && (rest_.size() == 2 || rest_[2] == ',')) {
      rest_.remove_prefix(2);
      return {};
    }
    std::vector<std::string> names{""};
    while (!rest_.empty() && rest_.front() != ',') {
      if (rest_.front() == ']') refuse("a bracket is closed that was not opened");
      if (rest_.front() != '[') {
        const std::string_view plain = rest_.substr(0, rest_.find_first_of("[],"));
        check_length(names.front().size() + plain.size());
        for (std::string& name : names) name += plain;
        rest_.remove_prefix(plain.size());
        continue;
      }
      const auto end = rest_.find(']');
      if (end == std::string_view::npos) refuse("a bracket is not closed");
      names = multiply(names, bracket(rest_.substr(1, end - 1)));
      rest_.remove_prefix(end + 1);
    }
    if (names.front().empty()) return {};
    for (const std::string& name : names) check_length(name.size());  // the numbers of a bracket may have more digits than its first one
    return names;
  }

  std::vector<std::string> multiply(const std::vector<std::string>& names, const std::vector<Number>& numbers) const {
    if (numbers.size() > most_hosts / names.size()) refuse("it has more than a million names");
    check_length(names.front().size() + numbers.front().width);
    std::vector<std::string> product;
    product.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const Number& number : numbers) product.push_back(fmt::format("{}{:0{}}", name, number.value, number.width));
    }
    return product;
  }

  // A million names of any length would take all memory.
  void check_length(std::size_t bytes) const {
    if (bytes > longest_host_name) refuse(fmt::format("a name has more than {} bytes", longest_host_name));
  }

  std::vector<Number> bracket(std::string_view inside) const {
    std::vector<Number> numbers;
    for (;;) {
      const auto comma = inside.find(',');
      add_range(numbers, inside.substr(0, comma));
      if (comma == std::string_view::npos) break;
      inside.remove_prefix(comma + 1);
    }
    if (order_ == HostOrder::sorted) {
      std::ranges::sort(numbers);
      const auto again = std::ranges::unique(numbers);
      numbers.erase(again.begin(), again.end());
    }
    return numbers;
  }

  void add_range(std::vector<Number>& numbers, std::string_view range) const {
    const auto dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::uint64_t from = number(first);
    const std::uint64_t to = dash == std::string_view::npos ? from : number(range.substr(dash + 1));
    if (to < from) refuse(fmt::format("the range {} goes down", range));
    if (to - from >= most_hosts - numbers.size()) refuse("it has more than a million names");
    for (std::uint64_t value = from; value <= to; ++value) numbers.push_back({value, first.size()});
  }

  std::uint64_t number(std::string_view written) const {
    const auto value = base::whole_number<std::uint64_t>(written);
    if (written.size() > most_digits || !value) refuse(fmt::format("\"{}\" is not a number; brackets hold numbers and ranges of numbers", written));
    return *value;
  }

  const std::string_view text_;
  const HostOrder order_;
  std::string compact_;
  std::string_view rest_;
};

using base::Environment;

/// Slurm's numbers for the steps that are no step of srun in a script: those from here on are the batch script, the interactive shell, and the like.
constexpr std::string_view first_special_step = "4294967290";

/// Returns the first of the names that is set; empty: none.
std::string_view first_set(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (environment.has(name)) return name;
  }
  return {};
}

// The newer name comes first; a step may run on fewer nodes than its job has.
std::string_view job_id_variable(const Environment& environment) { return first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}); }
std::string_view node_list_variable(const Environment& environment) {
  return first_set(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
}
std::string_view node_count_variable(const Environment& environment) {
  return first_set(environment, {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
}

}  // namespace

std::vector<std::string> parse_host_list(std::string_view text, HostOrder order) { return Parser(text, order).parse(); }

bool is_step_of_srun(const Environment& environment) {
  const std::string step = environment.get("SLURM_STEP_ID").value_or("");
  if (step.size() >= first_special_step.size() && step >= first_special_step) return false;
  return environment.has("SLURM_STEP_NUM_NODES") || !step.empty();
}

std::string advice_for_batch_script(const Environment& environment, int world_size) {
  constexpr std::array of_launchers = {"UNISONO_LAUNCHER_FD", "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"};
  const bool is_launched = std::ranges::any_of(of_launchers, [&](const char* name) { return environment.has(name); });
  if (world_size == 1 || is_launched || is_step_of_srun(environment)) return {};
  if (environment.get("SLURM_PROCID") != "0" || environment.get("SLURM_NTASKS") != std::to_string(world_size)) return {};
  return "srun has not started this process; the script of sbatch must start the program by `srun` or `unisono run`";
}

bool is_slurm_task(const Environment& environment) {
  if (job_id_variable(environment).empty()) return false;
  return environment.has("SLURM_PROCID") || environment.has("SLURM_LOCALID") || environment.get_int("SLURM_NTASKS").value_or(1) > 1;
}

SlurmTask slurm_task(const Environment& environment) {
  const std::string_view node_list = node_list_variable(environment);
  const std::string_view node_count = node_count_variable(environment);
  std::string missing;
  const auto need = [&](bool there, std::string_view name) {
    if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  };
  for (const std::string_view name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"}) need(environment.has(name), name);
  need(!node_list.empty(), "SLURM_JOB_NODELIST");
  need(!node_count.empty(), "SLURM_JOB_NUM_NODES");
  if (!missing.empty()) {
    throw InvalidArgument(
        fmt::format("this process is in Slurm job {}, and its environment has no {}", *environment.get(job_id_variable(environment)), missing),
        {.operation = "initialize", .hint = "start it with srun; to run alone in an allocation, unset SLURM_JOB_ID"});
  }
  SlurmTask task;
  task.rank = *environment.get_int("SLURM_PROCID");
  task.local_rank = *environment.get_int("SLURM_LOCALID");
  task.world_size = *environment.get_int("SLURM_NTASKS");
  task.nodes = *environment.get_int(node_count);
  const std::string id = *environment.get(job_id_variable(environment));
  const std::string step = environment.get("SLURM_STEP_ID").value_or("");
  task.port = slurm_port(id, base::whole_number<std::uint64_t>(step).value_or(0));
  task.job = fmt::format("slurm {}.{}", id, step);
  task.attempt = environment.get_int("SLURM_RESTART_COUNT").value_or(0);
  const auto hosts = parse_host_list(*environment.get(node_list));
  if (hosts.empty()) throw InvalidArgument(fmt::format("{} names no host: \"{}\"", node_list, *environment.get(node_list)));
  task.first_host = hosts.front();
  return task;
}

std::uint16_t slurm_port(std::string_view job_id, std::uint64_t step) {
  constexpr std::size_t digits_used = 4;  // of the job's number
  constexpr int first_port = 15000, ports = 10'000;
  // The golden section of the ports: the first 50 steps of a job stay away from the first steps of the jobs before and after it.
  constexpr int from_step_to_step = 6181;

  std::size_t digits = 0;
  while (digits < job_id.size() && job_id[digits] >= '0' && job_id[digits] <= '9') ++digits;
  if (digits == 0)
    throw InvalidArgument(fmt::format("SLURM_JOB_ID does not begin with a number: \"{}\"", job_id), {.hint = "MASTER_PORT can say the port"});
  int last = 0;
  for (const char digit : job_id.substr(digits - std::min(digits, digits_used), std::min(digits, digits_used))) last = 10 * last + (digit - '0');
  return static_cast<std::uint16_t>(first_port + (last + static_cast<int>(step % ports) * from_step_to_step) % ports);
}

}  // namespace unisono::rendezvous
