// unisono doctor looks for what would keep a job from running, on this host or on several, and says what to do about it.

#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/host.h"
#include "base/processors.h"
#include "common/commands.h"
#include "help/usage.h"
#include "doctor/session.h"
#include "hosts/host_child.h"
#include "hosts/host_list.h"
#include "hosts/options.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

struct DoctorFlags {
  HostFlags hosts;
  std::string svg;
  bool as_json = false;
};

Examination examine_this_host(const base::Environment& environment) {
  Examination found;
  found.hosts.push_back(base::host_name());
  Json facts = inspect_host(environment, std::nullopt, Reach::this_host, base::allowed_processors());
  found.findings = take_findings(facts, found.hosts.front());
  found.facts.push_back(std::move(facts));
  return found;
}

void examine(const DoctorFlags& flags) {
  const base::Environment& environment = base::Environment::process();
  auto hosts = named_hosts(flags.hosts);
  const bool are_named = !hosts.empty();
  if (!are_named) hosts = allocated_hosts(environment);
  if (hosts.size() == 1 && !are_named) hosts.clear();
  if (hosts.size() < 2 && !flags.svg.empty())
    throw CLI::ValidationError("--svg", "a picture shows pairs of hosts: name two or more with --hosts or --hostfile");
  std::ofstream picture;
  if (!flags.svg.empty()) {
    picture.open(flags.svg);
    if (!picture) throw CLI::ValidationError("--svg", "cannot write " + flags.svg);
  }
  const bool has_command = are_named || !flags.hosts.ssh.empty();
  const std::string command = has_command ? ssh_of(flags.hosts) : allocation_command(environment);
  const Examination found =
      hosts.empty() ? examine_this_host(environment) : examine_hosts(hosts, command, forwarded_variables(flags.hosts, environment), environment);
  if (flags.as_json) std::cout << json_of(found).dump(2) << std::endl;
  else std::cout << text_of(found) << std::flush;
  if (!flags.svg.empty() && !(picture << svg_of(found) << std::flush)) throw CLI::RuntimeError(1);
  if (is_anything_wrong(found)) throw CLI::RuntimeError(1);
}

void add_doctor(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = add_command(app, "doctor");
  command->footer("unisono doctor [--hosts HOSTS | --hostfile FILE] [--json] [--svg FILE]");
  add_host_options(command, flags->hosts);
  command->add_flag("--json", flags->as_json, "Print one JSON object");
  offer(command->add_option("--svg", flags->svg, "For several hosts: draw the latency and bandwidth of each pair into this file (SVG)"),
        {.kind = Values::Kind::file});
  explain(
      command,
      {.paragraphs = {"On each host it looks at limits (open files, processes, locked memory), memory, /dev/shm, the scope of ptrace, the interface "
                      "that ranks would use, and names that do not resolve. Nothing is changed.",
                      "With --hosts or --hostfile, as for `unisono run`, it does so on each of them. It compares clocks and versions, connects every "
                      "host to every other one as ranks do, and measures each pair. A blocked port, or packets that are too large for a device on "
                      "the way, are named with the two hosts.",
                      "A problem that is `wrong` keeps a job from running or ends it. A `remark` may surprise programs of other libraries."},
       .examples = {{"unisono doctor", "This host."},
                    {"unisono doctor --hosts a:4,b:4", "Two hosts, and the network between them."},
                    {"unisono doctor --hostfile hosts --svg pairs.svg", "A picture in which a slow pair stands out."}},
       .exit_codes = {{"0", "Nothing is wrong."}, {"1", "Something is wrong."}, {"2", "Wrong use."}}});
  command->callback([flags] { examine(*flags); });
}

/// Another host's doctor has started this one. Returns its exit code; nothing: a person has.
std::optional<int> serve(const CLI::App&, std::vector<std::string>& words) {
  take_conductor_off(words);
  return !words.empty() && words[0] == "__doctor" ? std::optional(serve_as_doctor()) : std::nullopt;
}

}  // namespace
}  // namespace unisono::tools

int main(int argc, char** argv) { return unisono::tools::run_program({argv + 1, argv + argc}, unisono::tools::add_doctor, unisono::tools::serve); }
