#include "store/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

constexpr std::size_t shortest_secret = 16;
constexpr std::size_t longest_token_file = 4096;

}  // namespace

std::string token_for(std::span<const base::SocketAddress> addresses, const std::optional<std::string>& argument,
                      const base::Environment& environment) {
  const auto remote = std::ranges::find_if(addresses, [](const auto& address) { return !address.is_loopback(); });
  const bool local = remote == addresses.end();
  std::string said = argument ? *argument : said_token(environment).value_or("");
  if (said == "none") {
    if (!local)
      base::warn(fmt::format("the store at {} asks for no token: whoever reaches this address can join or disturb the job", describe(*remote)));
    return {};
  }
  if (said.empty() && !local) {
    throw InvalidArgument(
        fmt::format("the store's address {} is not a loopback address, so its connections need the job's secret", describe(*remote)),
        {.hint = "set UNISONO_TOKEN to the same random text on every rank, or UNISONO_TOKEN_FILE to a file that holds it and that only you can "
                 "read; UNISONO_TOKEN=none goes without"});
  }
  // A rank sends its first proof to whatever process listens at the address, which could then guess a short secret at leisure.
  if (!local && said.size() < shortest_secret) {
    throw InvalidArgument(fmt::format("the job's secret has {} bytes; for {}, which is not a loopback address, it takes {} at least", said.size(),
                                      describe(*remote), shortest_secret),
                          {.hint = "`openssl rand -hex 32` makes one"});
  }
  return said;
}

std::optional<std::string> said_token(const base::Environment& environment) {
  if (auto token = environment.get("UNISONO_TOKEN")) return token;
  if (const auto file = environment.get("UNISONO_TOKEN_FILE")) return token_of_file(*file);
  return std::nullopt;
}

std::string token_of_file(const std::string& path) {
  const auto refuse = [&](std::string_view why, std::string hint = {}) {
    throw InvalidArgument(fmt::format("the token file {} {}", path, why), {.hint = std::move(hint)});
  };
  // O_NONBLOCK keeps a pipe of that name from blocking this process.
  const base::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) refuse(fmt::format("cannot be read: {}", base::error_text(errno)));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) refuse(fmt::format("cannot be read: {}", base::error_text(errno)));
  if (!S_ISREG(status.st_mode)) refuse("is no regular file");
  if (status.st_uid != ::geteuid()) {
    refuse(fmt::format("belongs to user {}, and this process runs as user {}", status.st_uid, ::geteuid()),
           "the secret must be in a file of your own");
  }
  if ((status.st_mode & 077) != 0) {
    refuse(fmt::format("is open to others (mode {:04o})", status.st_mode & 07777), fmt::format("chmod 600 {}", path));
  }
  std::array<char, longest_token_file + 1> content;
  const ssize_t size = ::read(fd.get(), content.data(), content.size());
  if (size < 0) refuse(fmt::format("cannot be read: {}", base::error_text(errno)));
  if (size == static_cast<ssize_t>(content.size())) refuse(fmt::format("is longer than {} bytes", longest_token_file));
  const std::string_view text(content.data(), static_cast<std::size_t>(size));
  constexpr std::string_view white = " \t\r\n";
  const auto first = text.find_first_not_of(white);
  if (first == std::string_view::npos) refuse("is empty");
  return std::string(text.substr(first, text.find_last_not_of(white) - first + 1));
}

}  // namespace unisono::store
