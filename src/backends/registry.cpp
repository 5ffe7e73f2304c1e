#include "backends/registry.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "backends/native/native.h"
#include "backends/serial/serial.h"

namespace unisono {
namespace backends {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, BackendFactory, std::less<>> factories{{"native", make_native}, {"serial", make_serial}};
};

Registry& registry() {
  static Registry& instance = *new Registry;  // lives as long as the process, whoever ends last
  return instance;
}

// Names that programs may ask for, of engines that this build does not have.
constexpr std::pair<std::string_view, std::string_view> absent[] = {
    {"tcp", "this build has no tcp engine; ranks of one host use native"},
    {"gloo", "this build has no gloo plug-in"},
    {"mpi", "this build has no mpi plug-in"},
    {"nccl", "this build has no nccl plug-in"},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

[[noreturn]] void unknown(std::string_view name) {
  std::string names;
  for (const auto& known : available()) names += (names.empty() ? "" : ", ") + known;
  throw InvalidArgument("unknown backend \"" + std::string(name) + "\"", {.hint = "available here: auto, " + names});
}

}  // namespace

Availability availability(std::string_view name) {
  const std::string wanted = lower(name);
  {
    const std::lock_guard lock(registry().mutex);
    if (registry().factories.contains(wanted)) return {.known = true, .available = true, .why_not = {}};
  }
  for (const auto& [other, reason] : absent) {
    if (wanted == other) return {.known = true, .available = false, .why_not = std::string(reason)};
  }
  return {};
}

std::vector<std::string> available() {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::string> names{"native", "serial"};
  for (const auto& [name, factory] : registry().factories) {
    if (name != "native" && name != "serial") names.push_back(name);
  }
  return names;
}

BackendFactory factory(std::string_view name) {
  const Availability state = availability(name);
  if (!state.known) unknown(name);
  if (!state.available) throw BackendUnavailable("backend " + lower(name) + " cannot be used: " + state.why_not);
  const std::lock_guard lock(registry().mutex);
  return registry().factories.find(lower(name))->second;
}

std::string host_backend(std::string_view request) {
  std::string text = lower(request);
  if (text.find(':') == std::string::npos) {
    if (text != "auto" && !availability(text).known) unknown(request);
    return text;
  }
  // "cpu:native,cuda:nccl": one backend for each kind of device.
  std::map<std::string, std::string> by_device;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const std::size_t colon = pair.find(':');
    if (colon == std::string::npos || (pair.substr(0, colon) != "cpu" && pair.substr(0, colon) != "cuda")) {
      throw InvalidArgument("malformed backend \"" + std::string(request) + "\"", {.hint = "write it as \"cpu:native,cuda:nccl\""});
    }
    const std::string name = pair.substr(colon + 1);
    if (!availability(name).known) unknown(name);
    if (!by_device.emplace(pair.substr(0, colon), name).second) {
      throw InvalidArgument("backend \"" + std::string(request) + "\" names two engines for one kind of device");
    }
    begin = end + 1;
  }
  if (const auto cuda = by_device.find("cuda"); cuda != by_device.end()) factory(cuda->second);  // throws where it cannot be used
  const auto cpu = by_device.find("cpu");
  return cpu == by_device.end() ? "auto" : cpu->second;
}

}  // namespace backends

void register_backend(std::string_view name, BackendFactory factory) {
  const bool well_formed = !name.empty() && name != "auto" && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '_' || c == '-';
  });
  if (!well_formed)
    throw InvalidArgument("a backend's name is lower-case letters, digits, '_' and '-', and not \"auto\": \"" + std::string(name) + "\"");
  if (!factory) throw InvalidArgument("backend " + std::string(name) + " has no factory");
  const std::lock_guard lock(backends::registry().mutex);
  if (!backends::registry().factories.emplace(std::string(name), std::move(factory)).second) {
    throw InvalidArgument("there is a backend \"" + std::string(name) + "\" already");
  }
}

}  // namespace unisono
