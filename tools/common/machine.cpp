#include "common/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/host.h"
#include "common/text.h"
#include "launch/process/host.h"

namespace unisono::tools {

namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
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
  const std::vector<int> cpus = launcher::allowed_cpus();
  std::string text;
  for (std::size_t first = 0, last = 0; first < cpus.size(); first = ++last) {
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[first]);
    if (last > first) text += fmt::format("-{}", cpus[last]);
  }
  return text;
}

int affinity_count() { return std::max(1, static_cast<int>(launcher::allowed_cpus().size())); }

std::string chosen_word(const std::string& path) {
  const std::string line = first_line(path);
  const auto open = line.find('[');
  const auto close = line.find(']');
  return open != std::string::npos && close > open ? line.substr(open + 1, close - open - 1) : line;
}

std::string field_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word; std::getline(file, word))
    if (word == name && file >> word) return word;
  return {};
}

int visible_gpus(const char* named, const std::string& folder) {
  int devices = 0;
  for (std::string path = folder + "/nvidia0"; std::filesystem::exists(path); path = fmt::format("{}/nvidia{}", folder, devices)) ++devices;
  if (named == nullptr) return devices;
  int seen = 0;
  std::istringstream words(named);
  // The first word that names no device ends the list.
  for (std::string word; std::getline(words, word, ',') && !word.empty() && word[0] != '-' && seen < devices;) ++seen;
  return seen;
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
  if (const auto kib = parse_number<std::uint64_t>(std::string_view(text).substr(0, text.find('K')))) return static_cast<std::size_t>(*kib << 10);
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
