#include "engines/ucx/devices.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::engines::ucx {
namespace {

constexpr std::string_view over_sockets = "tcp";

void add_transports(const Library& library, uct_component_h component, const std::string& domain, std::vector<NetworkTransport>& found) {
  uct_md_config_t* config = nullptr;
  if (library.uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h memory = nullptr;
  const ucs_status_t opened = library.uct_md_open(component, domain.c_str(), config, &memory);
  library.uct_config_release(config);
  if (opened != UCS_OK) return;
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  if (library.uct_md_query_tl_resources(memory, &resources, &count) == UCS_OK) {
    for (unsigned i = 0; i < count; ++i) {
      if (resources[i].dev_type == UCT_DEVICE_TYPE_NET) found.push_back({.name = resources[i].tl_name, .device = resources[i].dev_name});
    }
    library.uct_release_tl_resource_list(resources);
  }
  library.uct_md_close(memory);
}

/// Returns the interface with a numeric address; empty: there is none.
std::string interface_with(const std::string& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) throw std::system_error(errno, std::generic_category(), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  const std::string wanted = address.substr(0, address.find('%'));
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6)) continue;
    char text[NI_MAXHOST];
    const socklen_t length = one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    const std::string_view found = text;
    if (found.substr(0, found.find('%')) == wanted) return one->ifa_name;
  }
  return {};
}

bool is_group(std::string_view item, std::string_view transport) {
  if (item == "all" || item == transport) return true;
  if (transport == "posix" || transport == "sysv") return item == "shm" || item == "sm" || item == "mm";
  const bool is_verbs = transport.starts_with("rc_") || transport.starts_with("dc_") || transport.starts_with("ud_");
  if (!is_verbs) return false;
  if (item == "ib") return true;
  const std::string_view kind = transport.substr(0, 2);  // "rc" also stands for "rc_verbs" and "rc_mlx5", and "rc_x" for the latter
  if (item == kind) return true;
  if (item.size() == 4 && item.substr(0, 2) == kind && item[2] == '_') {
    return (item[3] == 'v' && transport.ends_with("_verbs")) || (item[3] == 'x' && transport.ends_with("_mlx5"));
  }
  return false;
}

}  // namespace

std::vector<NetworkTransport> network_transports(const Library& library) {
  std::vector<NetworkTransport> found;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (library.uct_query_components(&components, &count) != UCS_OK) return found;
  for (unsigned i = 0; i < count; ++i) {
    uct_component_attr_t facts{};
    facts.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if (library.uct_component_query(components[i], &facts) != UCS_OK || facts.md_resource_count == 0) continue;
    std::vector<uct_md_resource_desc_t> domains(facts.md_resource_count);
    facts.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    facts.md_resources = domains.data();
    if (library.uct_component_query(components[i], &facts) != UCS_OK) continue;
    for (const uct_md_resource_desc_t& domain : domains) add_transports(library, components[i], domain.md_name, found);
  }
  library.uct_release_component_list(components);
  return found;
}

bool admits(const std::string& list, const std::string& transport) {
  if (list.empty()) return true;
  const bool excludes = list.front() == '^';
  std::istringstream items(excludes ? list.substr(1) : list);
  bool is_named = false;
  for (std::string item; std::getline(items, item, ',');) is_named = is_named || is_group(item, transport);
  return is_named != excludes;
}

RdmaProbe RdmaProbe::of_process() {
  const char* const list = std::getenv("UCX_TLS");
  return {.list = list != nullptr ? list : "", .transports = [] { return network_transports(library()); }};
}

std::string RdmaProbe::why_not() const {
  std::error_code error;
  const std::filesystem::directory_iterator devices(verbs_devices, error);
  if (error || devices == std::filesystem::directory_iterator()) {
    return fmt::format("this host has no verbs device ({} is {})", verbs_devices.string(), error ? "missing" : "empty");
  }
  try {
    const std::vector<NetworkTransport> found = transports();
    const auto is_usable = [this](const NetworkTransport& one) { return one.name != over_sockets && admits(list, one.name); };
    if (std::ranges::any_of(found, is_usable)) return {};
    return list.empty() ? "UCX finds no transport on this host's verbs devices"
                        : fmt::format("UCX finds no transport on this host's verbs devices that UCX_TLS={} admits", list);
  } catch (const BackendUnavailable& missing) {
    return missing.message();
  }
}

std::string devices_for(const std::string& address, const std::vector<NetworkTransport>& transports) {
  const std::string interface = interface_with(address);
  if (interface.empty()) {
    throw BackendUnavailable(fmt::format("ucx cannot use the address \"{}\": no interface of this host has it", address),
                             {.hint = "choose an interface with UNISONO_INTERFACE"});
  }
  std::vector<std::string> names;
  for (const NetworkTransport& one : transports) {
    if (one.name != over_sockets && std::ranges::find(names, one.device) == names.end()) names.push_back(one.device);
  }
  names.push_back(interface);
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace unisono::engines::ucx
