#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "hosts/host_list.h"

// How the command on another host is started.
namespace unisono::tools {

/// Splits a command into words as a shell does: blanks separate, '…' and "…" and \ keep together. Throws InvalidArgument for a quote that is not
/// closed.
std::vector<std::string> split_words(std::string_view text);

/// Returns the words that start `unisono __host` on the host. `command`: --ssh, such as "ssh -p 2222". Where one of its words has {host}, the host's
/// name is put there and the remote command follows as words of its own ("kubectl exec -i {host} --"); else the host and the remote command, as one
/// word, come behind it, as ssh takes them.
std::vector<std::string> start_words(const std::string& command, const HostEntry& host);

/// Tells whether the name is that of this host or of one of its addresses, so that no ssh is needed.
bool is_this_host(const std::string& name);

/// Returns what to do about an ssh, or the like, that has ended with this code and message before the other host answered.
std::string hint_for(int exit_code, const std::string& message, const std::string& host);

/// Returns the text as one word of a shell.
std::string shell_quoted(std::string_view text);

}  // namespace unisono::tools
