#include "hosts/host_list.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/socket.h"
#include "launch/job_options.h"
#include "rendezvous/slurm.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

[[noreturn]] void refuse_host(const std::string& place, const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(fmt::format("{}: {}", place, what), {.hint = hint});
}

int slots_of(std::string_view text, std::string_view host, const std::string& place) {
  int slots = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || stop != text.data() + text.size() || text.empty())
    refuse_host(place, fmt::format("\"{}\" behind {} is no number of ranks", text, host));
  if (slots < 1 || slots > launcher::most_ranks)
    refuse_host(place, fmt::format("host {} has {} slots; the number must be from 1 to {}", host, slots, launcher::most_ranks),
                slots == 0 ? "leave the host out, or put a # in front of it" : "");
  return slots;
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
  if (bare.empty() || odd || name.starts_with('-') || bare.starts_with('-')) refuse_host(place, fmt::format("\"{}\" is no name of a host", name));
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
      if (slots) refuse_host(place, fmt::format("the number of slots of host {} stands there twice", name));
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
    throw InvalidArgument(fmt::format("{} ranks are asked for, and the hosts have {} slot{}", ranks, all, all == 1 ? "" : "s"),
                          {.hint = "say how many ranks each host takes: --hosts a:4,b:4, or slots=4 in the host file"});
  }
  for (HostEntry& host : hosts) {
    host.slots = std::min(host.slots, ranks);
    ranks -= host.slots;
  }
  std::erase_if(hosts, [](const HostEntry& host) { return host.slots == 0; });
}

}  // namespace unisono::tools
