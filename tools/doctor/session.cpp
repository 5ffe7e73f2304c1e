#include "doctor/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/deadline.h"
#include "hosts/frames.h"
#include "hosts/host_start.h"
#include "hosts/remote_host.h"
#include "launch/process/host.h"
#include "launch/process/poll_set.h"
#include "launch/process/program.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Deadline;
using Kind = Finding::Kind;

/// The times of log files and certificates are compared; ranks themselves use steady clocks.
constexpr double most_clock_difference = 1.0;  // seconds
constexpr int clock_samples = 5;
constexpr std::chrono::seconds silence{60}, time_for_answer{60};

double now_in_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

class Session {
 public:
  Session(const std::vector<HostEntry>& hosts, const std::string& start_command, const std::vector<std::string>& variables,
          const base::Environment& environment)
      : limit_(64 + descriptors_per_host * hosts.size()),
        secret_(launcher::random_id()),
        answer_time_(rendezvous::join_timeout(rendezvous::default_timeout, environment)) {
    ::signal(SIGPIPE, SIG_IGN);  // an ssh that has ended is noticed otherwise
    for (const HostEntry& entry : hosts) {
      found_.hosts.push_back(entry.name);
      start(entry, start_command, variables, environment);
    }
    found_.facts = Json::array();
    for (std::size_t i = 0; i < hosts_.size(); ++i) found_.facts.push_back(nullptr);
    found_.latency_us.assign(hosts_.size(), std::vector<double>(hosts_.size()));
    found_.mebibytes_per_s = found_.latency_us;
  }

  Examination run() {
    until([](const Peer& peer) { return peer.hello.has_value(); }, answer_time_);
    inspect();
    compare_clocks();
    compare_addresses();
    measure_all();
    compare_mtus();
    for (Peer& peer : hosts_)
      if (peer.remote) peer.remote->close_input();
    return std::move(found_);
  }

 private:
  struct Peer {
    HostEntry entry;
    std::unique_ptr<RemoteHost> remote = {};  ///< null once it cannot be used
    std::optional<Fields> hello = {};
    std::string line = {};  ///< of its output
    std::optional<Json> answer = {};
    double answered_at = 0;
  };

  void start(const HostEntry& entry, const std::string& start_command, const std::vector<std::string>& variables,
             const base::Environment& environment) {
    Peer peer{.entry = entry};
    peer.remote = std::make_unique<RemoteHost>(entry, start_command);
    peer.remote->send(FrameKind::config, encode(config_of_agent("/", silence, false, variables, environment)));
    peer.remote->send(FrameKind::start, encode(Fields{{"log name", "-"}, {"word", "__doctor"}}));
    hosts_.push_back(std::move(peer));
  }

  void take(Peer& peer, const Frame& frame) {
    if (frame.kind == FrameKind::hello) peer.hello = decode_fields(frame.payload);
    if (frame.kind == FrameKind::failed) give_up(peer, frame.payload, {});
    if (frame.kind == FrameKind::result) give_up(peer, "its process has ended: " + frame.payload, {});
    if (frame.kind != FrameKind::output) return;
    peer.line += frame.payload;
    const auto end = peer.line.find('\n');
    if (end == std::string::npos) return;
    peer.answered_at = now_in_seconds();
    peer.answer = Json::parse(peer.line.substr(0, end));
    peer.line.erase(0, end + 1);
  }

  void give_up(Peer& peer, const std::string& why, const std::string& hint) {
    const bool other_version = why.starts_with("it has unisono");
    found_.findings.push_back({Kind::wrong, other_version ? "version" : "host", fmt::format("{}: {}", peer.entry.place, why),
                               hint.empty() ? "`ssh " + peer.entry.name + " unisono info` shows what works there" : hint, peer.entry.name});
    peer.answer.reset();
    peer.hello.reset();
    peer.entry.slots = 0;  // marks it; its process is let go once nobody uses it
  }

  /// Goes on until the condition holds for all hosts that can be used, and gives up those for which it does not in time.
  void until(const std::function<bool(const Peer&)>& condition, std::chrono::milliseconds limit) {
    const Deadline deadline(limit);
    for (;;) {
      for (Peer& peer : hosts_) {
        if (!peer.remote) continue;
        if (peer.entry.slots > 0 && peer.remote->is_over()) give_up(peer, peer.remote->why(), peer.remote->hint());
        if (peer.entry.slots > 0 && deadline.passed() && !condition(peer))
          give_up(peer, fmt::format("no answer within {} s", limit.count() / 1000), {});
        if (peer.entry.slots == 0) peer.remote.reset();
      }
      if (std::ranges::all_of(hosts_, [&](const Peer& peer) { return !peer.remote || condition(peer); })) return;
      launcher::PollSet set;
      for (Peer& peer : hosts_)
        if (peer.remote) peer.remote->wait_for(set, [this, &peer](const Frame& frame) { take(peer, frame); });
      for (Peer& peer : hosts_)
        if (peer.remote) peer.remote->send(FrameKind::beat);
      set.wake_within(std::chrono::seconds(1));
      set.wake_at(deadline);
      set.wait();
    }
  }

  void ask(Peer& peer, const Json& request) {
    peer.answer.reset();
    peer.remote->send(FrameKind::input, request.dump() + "\n");
  }

  void inspect() {
    // This host is reached, if at all, at the address from which it has reached another one.
    std::string seen;
    for (const Peer& peer : hosts_)
      if (peer.remote && !peer.remote->is_local() && seen.empty()) seen = field(*peer.hello, "peer");
    for (Peer& peer : hosts_) {
      if (!peer.remote) continue;
      ask(peer, {{"do", "inspect"}, {"ranks", peer.entry.slots}, {"secret", secret_}, {"by ssh", !peer.remote->is_local()}, {"seen as", seen}});
    }
    until([](const Peer& peer) { return peer.answer.has_value(); }, time_for_answer);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].remote) continue;
      found_.facts[i] = *hosts_[i].answer;
      for (Finding& each : take_findings(found_.facts[i], hosts_[i].entry.name)) found_.findings.push_back(std::move(each));
    }
  }

  /// The other clock was read between the question and the answer; the shortest of several round trips tells most.
  void compare_clocks() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      double shortest = 1e9, difference = 0;
      for (int sample = 0; sample < clock_samples && hosts_[i].remote; ++sample) {
        const double asked = now_in_seconds();
        ask(hosts_[i], {{"do", "clock"}});
        until([&](const Peer& peer) { return &peer != &hosts_[i] || peer.answer.has_value(); }, time_for_answer);
        if (!hosts_[i].remote) break;
        const double trip = hosts_[i].answered_at - asked;
        if (trip >= shortest) continue;
        shortest = trip;
        difference = hosts_[i].answer->at("clock").get<double>() - (asked + trip / 2);
      }
      if (!hosts_[i].remote) continue;
      found_.facts[i]["clock_difference_s"] = difference;
      if (std::abs(difference) - shortest / 2 < most_clock_difference) continue;
      found_.findings.push_back({Kind::wrong, "clock",
                                 fmt::format("its clock is {:.1f} s {} of this host's", std::abs(difference), difference > 0 ? "ahead" : "behind"),
                                 "start chronyd or systemd-timesyncd on all hosts (timedatectl set-ntp true)", hosts_[i].entry.name});
    }
  }

  /// The same address on two hosts is a network of each host's own.
  void compare_addresses() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!hosts_[i].remote || !hosts_[j].remote || hosts_[i].remote->is_local()) continue;
        const std::string address = found_.facts[i].at("address");
        if (address.empty() || address != found_.facts[j].at("address").get<std::string>() || base::resolve(address, 0).front().is_loopback())
          continue;
        found_.findings.push_back({Kind::wrong, "interface",
                                   fmt::format("{} and {} would both be reached at {} ({})", hosts_[j].entry.name, hosts_[i].entry.name, address,
                                               found_.facts[i].at("interface").get<std::string>()),
                                   "UNISONO_INTERFACE chooses the network that connects them, such as UNISONO_INTERFACE=^docker0",
                                   hosts_[i].entry.name});
      }
    }
  }

  void compare_mtus() {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].remote) continue;
      const int mtu = found_.facts[i].at("mtu");
      if (!first) first = i;
      const int other = found_.facts[*first].at("mtu");
      const bool is_loopback = found_.facts[i].at("interface") == "lo" || found_.facts[*first].at("interface") == "lo";
      if (mtu == 0 || other == 0 || mtu == other || is_loopback) continue;
      found_.findings.push_back(
          {Kind::remark, "mtu",
           fmt::format("the MTU of its {} is {}, and that of {} on {} is {}", found_.facts[i].at("interface").get<std::string>(), mtu,
                       found_.facts[*first].at("interface").get<std::string>(), hosts_[*first].entry.name, other),
           "give the interfaces of one network the same MTU: ip link set DEVICE mtu N", hosts_[i].entry.name});
    }
  }

  /// Rounds of a tournament: in round r, host i measures to host (i + r) % n, so that no two measure to the same one.
  void measure_all() {
    const std::size_t count = hosts_.size();
    const auto can = [&](std::size_t i) { return hosts_[i].remote && found_.facts[i].at("port").get<int>() != 0; };
    for (std::size_t round = 1; round < count; ++round) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t to = (i + round) % count;
        if (hosts_[i].remote) hosts_[i].answer.reset();
        if (!can(i) || !can(to)) continue;
        ask(hosts_[i], {{"do", "measure"}, {"address", found_.facts[to].at("address")}, {"port", found_.facts[to].at("port")}, {"secret", secret_}});
      }
      until(
          [&](const Peer& peer) {
            const auto i = static_cast<std::size_t>(&peer - hosts_.data());
            return peer.answer.has_value() || !can(i) || !can((i + round) % count);
          },
          2 * time_for_answer);
      for (std::size_t i = 0; i < count; ++i)
        if (hosts_[i].remote && hosts_[i].answer) note_probe(i, (i + round) % count, *hosts_[i].answer);
    }
  }

  void note_probe(std::size_t from, std::size_t to, const Json& answer) {
    const std::string where = fmt::format("{}:{}", found_.facts[to].at("address").get<std::string>(), found_.facts[to].at("port").get<int>());
    const std::string pair = hosts_[from].entry.name + " to " + hosts_[to].entry.name;
    switch (static_cast<Probe::Outcome>(answer.at("outcome").get<int>())) {
      case Probe::Outcome::no_connection:
        found_.findings.push_back({Kind::wrong, "port", fmt::format("{} cannot be reached: {}", where, answer.at("why").get<std::string>()),
                                   "ranks listen at ports of the system's choice (net.ipv4.ip_local_port_range): a firewall must let TCP pass "
                                   "between the hosts, or UNISONO_INTERFACE must name another network",
                                   pair});
        return;
      case Probe::Outcome::silent:
        found_.findings.push_back({Kind::wrong, "port", fmt::format("{} accepts a connection, and nothing comes back", where),
                                   "look for a proxy or a firewall between the two, and for packets that are lost (ping -c 100)", pair});
        return;
      case Probe::Outcome::small_only:
        found_.findings.push_back({Kind::wrong, "mtu", fmt::format("short messages to {} come through, and long ones do not", where),
                                   fmt::format("a device on the way takes only smaller packets: `ping -M do -s 1472 {}` finds the size; give all "
                                               "interfaces that MTU (ip link set DEVICE mtu N), and let ICMP pass",
                                               found_.facts[to].at("address").get<std::string>()),
                                   pair});
        break;
      case Probe::Outcome::fine: break;
    }
    found_.latency_us[from][to] = answer.at("latency_us");
    found_.mebibytes_per_s[from][to] = answer.at("mebibytes_per_s");
  }

  const launcher::DescriptorLimit limit_;
  std::string secret_;
  std::chrono::milliseconds answer_time_;
  std::vector<Peer> hosts_;
  Examination found_;
};

}  // namespace

Examination examine_hosts(const std::vector<HostEntry>& hosts, const std::string& start_command, const std::vector<std::string>& variables,
                          const base::Environment& environment) {
  return Session(hosts, start_command, variables, environment).run();
}

}  // namespace unisono::tools
