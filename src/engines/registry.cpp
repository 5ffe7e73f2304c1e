#include "engines/registry.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <set>

#include <fmt/ranges.h>

#include "base/host.h"
#include "base/printable.h"
#include "engines/plugins.h"
#include "engines/serial/serial.h"
#include "engines/shm/private_memory.h"
#include "engines/tcp/tcp.h"
#include "transport/tcp/link.h"
#include "unisono/engine.h"

namespace unisono {
namespace engines {
namespace {

/// The ranks of a host share memory that is handed over by a descriptor.
std::string why_no_shared_memory() {
  for (const base::RefusedCall& call : base::refused_calls()) {
    if (call.name == "memfd_create") return call.text();
  }
  return {};
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, EngineMaker, std::less<>> engines{
      {"native",
       {.is_shared_memory = true,
        .traits = {.spans_hosts = false, .why_not = why_no_shared_memory},
        .check_settings = [](const base::Environment& environment) { static_cast<void>(shm::single_copy_range(environment, {})); }}},
      {"serial",
       {.make = [](const EngineOptions&, const std::shared_ptr<transport::Link>&) { return serial::make_serial(); },
        .traits = {.spans_hosts = false}}},
      {"tcp",
       {.make = [](const EngineOptions& options, const std::shared_ptr<transport::Link>& link) { return tcp::make_tcp(options, link); },
        .connects_all = true,
        .check_settings = [](const base::Environment& environment) { static_cast<void>(transport::most_eager_connections(environment)); }}}};
};

Registry& registry() {
  static Registry& instance = *new Registry;  // never destroyed: threads may use it while the process ends
  return instance;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

[[noreturn]] void unknown(std::string_view name) {
  const std::vector<std::string> names = known_names();
  const std::string_view meant = base::nearest(lower(name), std::vector<std::string_view>(names.begin(), names.end()));
  std::string message = fmt::format("unknown backend \"{}\"", name);
  if (!meant.empty()) message += fmt::format("; did you mean \"{}\"?", meant);
  const std::string remark = plugin_path_remark();
  throw InvalidArgument(message, {.hint = fmt::format("known here: {}{}{}", fmt::join(names, ", "), remark.empty() ? "" : "; ", remark)});
}

struct NamedEngine {
  std::string device;  // "cpu" or "cuda"; empty where no map was given
  std::string name;
};

/// Splits a request: "native" is one name without a device, "cpu:native,cuda:nccl" one for each kind of device.
std::vector<NamedEngine> split(std::string_view request) {
  const std::string text = lower(request);
  if (text.find(':') == std::string::npos) return {{.device = {}, .name = text}};
  std::vector<NamedEngine> engines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const std::size_t colon = pair.find(':');
    if (colon == std::string::npos || (pair.substr(0, colon) != "cpu" && pair.substr(0, colon) != "cuda")) {
      throw InvalidArgument("malformed backend \"" + std::string(request) + "\"", {.hint = "write it as \"cpu:native,cuda:nccl\""});
    }
    NamedEngine engine{.device = pair.substr(0, colon), .name = pair.substr(colon + 1)};
    if (std::ranges::find(engines, engine.device, &NamedEngine::device) != engines.end()) {
      throw InvalidArgument("backend \"" + std::string(request) + "\" names two engines for one kind of device");
    }
    engines.push_back(std::move(engine));
    begin = end + 1;
  }
  return engines;
}

/// Returns the traits of an engine that is registered or in a plug-in; those of an engine of host memory where there is no such engine.
EngineTraits traits_of(const std::string& name) {
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().engines.find(name); found != registry().engines.end()) return found->second.traits;
  }
  const FoundPlugin* found = find_plugin(name);
  return found != nullptr && found->plugin != nullptr && found->plugin->traits != nullptr ? found->plugin->traits() : EngineTraits{};
}

bool is_of_devices(const std::string& name) { return traits_of(name).device != Device::Type::cpu; }

}  // namespace

Availability availability(std::string_view name, Look look) {
  const std::string wanted = lower(name);
  EngineTraits traits;
  bool is_registered = false;
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().engines.find(wanted); found != registry().engines.end()) {
      traits = found->second.traits;
      is_registered = true;
    }
  }
  if (!is_registered) {
    const FoundPlugin* found = find_plugin(wanted);
    if (found == nullptr) {
      if (std::find(std::begin(plugins_of_ours), std::end(plugins_of_ours), wanted) == std::end(plugins_of_ours)) return {};
      std::string places;
      for (const auto& directory : plugin_directories()) places.append(places.empty() ? "" : ", ").append(directory);
      const std::string remark = plugin_path_remark();
      return {.known = true,
              .available = false,
              .why_not = fmt::format("there is no libunisono_{}.so in {}{}{}", wanted, places, remark.empty() ? "" : "; ", remark)};
    }
    if (found->plugin == nullptr) return {.known = true, .available = false, .why_not = found->why_not};
    if (found->plugin->traits != nullptr) traits = found->plugin->traits();
  }
  std::string why_not = traits.why_not ? traits.why_not() : std::string();
  if (why_not.empty() && look == Look::as_a_rank && traits.why_not_as_a_rank) why_not = traits.why_not_as_a_rank();
  return {.known = true, .available = why_not.empty(), .why_not = std::move(why_not)};
}

std::string why_not_auto(std::string_view name) {
  EngineTraits traits;
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().engines.find(name); found != registry().engines.end()) traits = found->second.traits;
  }
  if (!traits.why_not_auto) {
    const FoundPlugin* found = find_plugin(name);
    if (found == nullptr) return fmt::format("there is no libunisono_{}.so", name);
    if (found->plugin == nullptr) return found->why_not;
    if (found->plugin->traits != nullptr) traits = found->plugin->traits();
  }
  if (!traits.why_not_auto) return "it is used only if the program names it";
  // The device comes first: where it is missing, nothing else of the engine is looked at or loaded.
  if (std::string why = traits.why_not_auto(); !why.empty()) return why;
  return availability(name, Look::as_a_rank).why_not;
}

std::vector<std::string> available(Look look) {
  std::set<std::string> others;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [name, engine] : registry().engines) others.insert(name);
  }
  for (const FoundPlugin& found : find_plugins()) others.insert(found.name);
  std::vector<std::string> names;
  for (const std::string name : {"native", "serial"}) {
    if (availability(name, look).available) names.push_back(name);
  }
  for (const auto& name : others) {
    if (name != "native" && name != "serial" && availability(name, look).available) names.push_back(name);
  }
  return names;
}

void check_settings(const base::Environment& environment) {
  const std::lock_guard lock(registry().mutex);
  for (const auto& [name, engine] : registry().engines) {
    if (engine.check_settings) engine.check_settings(environment);
  }
}

EngineMaker maker(std::string_view name) {
  const Availability state = availability(name);
  if (!state.known) unknown(name);
  const std::string wanted = lower(name);
  if (!state.available) throw BackendUnavailable(fmt::format("backend {} cannot be used: {}", wanted, state.why_not));
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().engines.find(wanted); found != registry().engines.end()) return found->second;
  }
  const Plugin* plugin = find_plugin(wanted)->plugin;
  EngineMaker of_plugin{.make = [plugin](const EngineOptions& options, const std::shared_ptr<transport::Link>&) { return plugin->make(options); }};
  if (plugin->traits != nullptr) of_plugin.traits = plugin->traits();
  return of_plugin;
}

OwnDevice own_device(std::string_view name, int local_rank) {
  const EngineTraits traits = traits_of(lower(name));
  return traits.own_device ? traits.own_device(local_rank) : OwnDevice{.device = {.type = traits.device, .index = local_rank}};
}

EngineFactory device_factory(std::string_view name, Look look) {
  const Availability state = availability(name, look);
  if (!state.known) unknown(name);
  const std::string wanted = lower(name);
  if (!state.available) throw BackendUnavailable(fmt::format("backend {} cannot be used: {}", wanted, state.why_not));
  if (!is_of_devices(wanted)) throw InvalidArgument(fmt::format("backend {} does not work on memory of devices", wanted));
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().engines.find(wanted); found != registry().engines.end()) {
      return [make = found->second.make](const EngineOptions& options) { return make(options, nullptr); };
    }
  }
  return find_plugin(wanted)->plugin->make;
}

Request parse_request(std::string_view request, Look look) {
  const std::vector<NamedEngine> engines = split(request);
  if (engines.front().device.empty()) {
    const std::string& text = engines.front().name;
    if (text == "auto") return {text, {}};
    if (!availability(text).known) unknown(request);
    if (!is_of_devices(text)) return {text, {}};
    static_cast<void>(device_factory(text, look));  // throws where it cannot be used
    return {"auto", text};
  }
  Request parsed{"auto", {}};
  for (const NamedEngine& engine : engines) {
    if (!availability(engine.name).known) unknown(engine.name);
    (engine.device == "cuda" ? parsed.device : parsed.host) = engine.name;
  }
  if (!parsed.device.empty()) static_cast<void>(device_factory(parsed.device, look));
  if (is_of_devices(parsed.host)) throw InvalidArgument(fmt::format("backend {} does not work on memory of the host", parsed.host));
  return parsed;
}

std::vector<std::string> known_names() {
  std::set<std::string> others(std::begin(plugins_of_ours), std::end(plugins_of_ours));
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [name, engine] : registry().engines) others.insert(name);
  }
  for (const std::string& name : plugin_names()) others.insert(name);
  std::vector<std::string> names{"auto", "native", "serial"};
  for (const auto& name : others) {
    if (name != "native" && name != "serial") names.push_back(name);
  }
  return names;
}

void check_names(std::string_view request) {
  const std::vector<std::string> names = known_names();
  for (const NamedEngine& engine : split(request)) {
    const bool known = std::ranges::find(names, engine.name) != names.end();
    if (!known || (engine.name == "auto" && !engine.device.empty())) unknown(engine.name);
  }
}

}  // namespace engines

void register_engine(std::string_view name, EngineFactory factory, EngineTraits traits) {
  if (!factory) throw InvalidArgument(fmt::format("engine {} has no factory", name));
  const bool is_well_formed = !name.empty() && name != "auto" &&
                              std::ranges::all_of(name, [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_' || c == '-'; });
  if (!is_well_formed) {
    throw InvalidArgument(fmt::format("a backend's name is lower-case letters, digits, '_' and '-', and not \"auto\": \"{}\"", name));
  }
  auto& registry = engines::registry();
  const std::lock_guard lock(registry.mutex);
  if (registry.engines.contains(name)) throw InvalidArgument(fmt::format("there is a backend \"{}\" already", name));
  registry.engines.emplace(
      std::string(name), engines::EngineMaker{.make = [make = std::move(factory)](const EngineOptions& options,
                                                                                  const std::shared_ptr<transport::Link>&) { return make(options); },
                                              .traits = std::move(traits)});
}

}  // namespace unisono
