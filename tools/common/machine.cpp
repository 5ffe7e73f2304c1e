#include "common/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/host.h"
#include "common/text.h"

namespace unisono::tools {

namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("Model"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return {};
}

std::string kernel_version() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {} {}", names.sysname, names.release, names.machine) : std::string();
}

std::string affinity_list() {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return {};
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) ++last;
    if (!text.empty()) text += ',';
    text += last == cpu ? fmt::format("{}", cpu) : fmt::format("{}-{}", cpu, last);
    cpu = last;
  }
  return text;
}

int affinity_count() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

std::string chosen_word(const std::string& path) {
  const std::string line = first_line(path);
  const auto open = line.find('[');
  const auto close = line.find(']');
  return open != std::string::npos && close > open ? line.substr(open + 1, close - open - 1) : line;
}

ProcessorTime processor_time() {
  std::istringstream line(first_line("/proc/stat"));  // cpu user nice system idle iowait irq softirq steal …
  std::string label;
  line >> label;
  ProcessorTime time;
  std::uint64_t ticks = 0;
  for (int field = 0; field < 8 && line >> ticks; ++field) {
    time.all += ticks;
    if (field == 7) time.stolen = ticks;
  }
  return time;
}

double stolen_share(const ProcessorTime& before, const ProcessorTime& after) {
  return after.all > before.all ? static_cast<double>(after.stolen - before.stolen) / static_cast<double>(after.all - before.all) : 0;
}

std::size_t private_cache_bytes() {
  if (const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) return static_cast<std::size_t>(bytes);
  const std::string text = first_line("/sys/devices/system/cpu/cpu0/cache/index2/size");  // "1024K"
  if (const auto kib = number(std::string_view(text).substr(0, text.find('K')))) return static_cast<std::size_t>(*kib << 10);
  return std::size_t{1} << 20;
}

std::string describe_machine() {
  const std::string governor = chosen_word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  const std::string huge_pages = chosen_word("/sys/kernel/mm/transparent_hugepage/enabled");
  double load = 0;
  ::getloadavg(&load, 1);
  return wrap(fmt::format("{}: {}, {}, cpus {}{}{}, load {:.1f}", base::host_name(), cpu_model(), kernel_version(), affinity_list(),
                          governor.empty() ? "" : ", governor " + governor, huge_pages.empty() ? "" : ", huge pages " + huge_pages, load),
              2) +
         "\n";
}

}  // namespace unisono::tools
