#include "hosts/start_words.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/host.h"
#include "base/interfaces.h"
#include "base/socket.h"
#include "common/child.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr std::string_view place_of_host = "{host}";

/// Ours come behind the user's: of an option that is there twice ssh takes the first, except that -a, no forwarding of the agent, wins at the end.
const std::vector<std::string> options_of_ssh = {
    "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-a"};

bool is_openssh(const std::string& program) { return std::filesystem::path(program).filename() == "ssh"; }

/// Returns the owners of the file and of the folders above it.
std::set<uid_t> owners_of(std::filesystem::path path) {
  std::set<uid_t> owners;
  for (struct stat about{}; ::stat(path.c_str(), &about) == 0; path = path.parent_path()) {
    owners.insert(about.st_uid);
    if (path == path.parent_path()) break;
  }
  return owners;
}

/// The command may be at the same place there, as on a shared file system; else the PATH of a shell that is not interactive decides. Another user may
/// have put something there (/tmp/unisono): so the file and all folders above it belong to the user, to root, or to those to whom they belong here,
/// and nobody else can write there. It is a single line without "!", which csh replaces even in quotes.
std::string remote_script() {
  return fmt::format(
      "p={}; [ -x \"$p\" ] || exec unisono __host; p=$(readlink -f \"$p\" || echo \"$p\"); "
      "owner() {{ ls -ldn \"$1\" | {{ read -r mode links owner rest; case $mode in ????????wt*) ;; ????????w*) owner=-;; esac; echo \"$owner\"; }}; "
      "}}; "
      "trusted=\" {} $(id -u) $(owner /) \"; f=$p; "
      "while case $trusted in *\" $(owner \"$f\") \"*) ;; *) false;; esac; do "
      "[ \"$f\" = / ] && exec \"$p\" __host; f=${{f%/*}}; f=${{f:-/}}; done; "
      "command -v unisono >/dev/null && exec unisono __host; echo \"$p is not run: $f there belongs to another user, or all may write to it\" >&2; "
      "exit 126",
      shell_quoted(path_of_command()), fmt::join(owners_of(path_of_command()), " "));
}

}  // namespace

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      is_word = true;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
      else word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (is_word) words.push_back(std::move(word));
      word.clear();
      is_word = false;
    } else {
      word += c;
      is_word = true;
    }
  }
  if (quote != 0) throw InvalidArgument(fmt::format("--ssh: a quote is not closed in: {}", text));
  if (is_word) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> start_words(const std::string& command, const HostEntry& host) {
  std::vector<std::string> words = split_words(command);
  if (words.empty()) throw InvalidArgument("--ssh: the command is empty");
  bool has_place = false;
  for (std::string& word : words) {
    for (auto at = word.find(place_of_host); at != std::string::npos; at = word.find(place_of_host, at + host.name.size())) {
      word.replace(at, place_of_host.size(), host.name);
      has_place = true;
    }
  }
  if (has_place) {
    words.insert(words.end(), {"sh", "-c", remote_script()});
    return words;
  }
  if (is_openssh(words.front())) words.insert(words.end(), options_of_ssh.begin(), options_of_ssh.end());
  words.push_back(host.name);
  // A login shell that is no sh (csh, fish) takes this, too.
  words.push_back("exec sh -c " + shell_quoted(remote_script()));
  return words;
}

bool is_this_host(const std::string& name) {
  if (name.find('@') != std::string::npos) return false;  // another user, who has another environment
  const std::string own = base::host_name();
  if (name == "localhost" || name == own || name == own.substr(0, own.find('.'))) return true;
  std::vector<base::SocketAddress> addresses;
  try {
    addresses = base::resolve(name, 0);
  } catch (const InvalidArgument&) {  // ssh may know it by its settings
    return false;
  }
  const auto interfaces = base::interface_addresses();
  return std::ranges::any_of(addresses, [&](const auto& address) {
    return address.is_loopback() || std::ranges::any_of(interfaces, [&](const auto& each) { return each.address.host() == address.host(); });
  });
}

std::string hint_for(int exit_code, const std::string& message, const std::string& host) {
  const auto says = [&](std::string_view text) { return message.find(text) != std::string::npos; };
  if (exit_code == launcher::exit_not_found || says("unisono: not found") || says("unisono: command not found")) {
    return fmt::format("install unisono on {}, at {} or in the PATH that `ssh {} 'echo $PATH'` shows", host, path_of_command(), host);
  }
  if (says(" is not run: "))
    return fmt::format("put unisono on {} where only you or root can write, or into the PATH that `ssh {} 'echo $PATH'` shows", host, host);
  if (says("Permission denied") || says("Too many authentication failures"))
    return fmt::format("`ssh-copy-id {}` puts your key there; `--ssh \"ssh -i KEY\"` names another one", host);
  if (says("Host key verification failed")) return fmt::format("`ssh {}` once by hand shows its key and keeps it", host);
  if (says("Could not resolve hostname")) return "correct the name, or add it to /etc/hosts or ~/.ssh/config";
  if (says("Connection refused")) return fmt::format("no sshd listens there: start it, or name its port: --ssh \"ssh -p PORT\"");
  if (says("timed out") || says("No route to host") || says("unreachable")) return "the host is down, or a firewall drops what is sent to it";
  return fmt::format("`ssh {} true` shows whether the host can be reached without a password", host);
}

}  // namespace unisono::tools
