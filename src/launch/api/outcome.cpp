#include "launch/api/outcome.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/host.h"
#include "base/files.h"
#include "base/socket.h"
#include "launch/job/report.h"
#include "launch/process/host.h"
#include "launch/process/program.h"
#include "launch/process/signals.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// Returns the words that follow a rank's number.
std::string fate(const ProcessEnd& end) {
  if (!end.error_type.empty()) return fmt::format("threw {}{}{}", end.error_type, end.message.empty() ? "" : ": ", end.message);
  if (!end.signal.empty()) return fmt::format("was ended by {}", end.signal);
  if (!end.exit_code) return "ended before its function returned (how is not known: this process takes its children's ends itself)";
  return fmt::format("exited with code {} before its function returned", *end.exit_code);
}

ProcessEnd describe(const RankEnd& end, const Outcome& outcome) {
  ProcessEnd described{.rank = end.rank, .failed = !outcome.has_result()};
  if (end.how == RankEnd::How::signaled) described.signal = signal_name(end.code);
  if (end.how == RankEnd::How::exited && !end.is_taken) described.exit_code = end.code;
  const auto thrown = outcome.error();
  if (thrown) {
    described.error_type = thrown->type;
    described.message = thrown->message;
  }
  // A rank that throws something other than PeerFailed has a reason of its own, even after another rank's failure.
  described.is_consequence = described.failed && (end.ended_by_launcher || (thrown ? thrown->of_peer : is_consequence(end)));
  return described;
}

/// Returns the rank that failed first. The ranks' exceptions add to what the launcher has seen.
std::size_t cause_of(const JobResult& result, std::span<const Outcome> outcomes) {
  std::vector<RankEnd> ends = result.ends;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    RankEnd& end = ends[i];
    const auto thrown = outcomes[i].error();
    // A rank without a status failed while the ranks were meeting.
    if (thrown && thrown->of_peer && end.status.empty()) end.status = fmt::format("poisoned {} ", thrown->culprit);
    if (!outcomes[i].has_result() && !end.failed()) end.left_without_finalize = true;
  }
  if (const auto first = first_cause(ends)) return *first;
  const auto failed = std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) { return !outcome.has_result(); });
  return static_cast<std::size_t>(failed - outcomes.begin());
}

}  // namespace

Outcome::Outcome() : file_(static_cast<int>(::syscall(SYS_memfd_create, "unisono-outcome", MFD_CLOEXEC))) {
  if (!file_) throw StartFailed("cannot make memory for the result of a rank (memfd_create): " + error_text(errno), 1);
}

void Outcome::expect(std::string_view function) {
  put(std::as_bytes(std::span(function)), sizeof(Header));
  const Header header{.bytes = function.size()};
  put(std::as_bytes(std::span(&header, 1)), 0);
}

std::string Outcome::expected() const {
  std::string function(header().bytes, '\0');
  read(function.data(), function.size(), sizeof(Header));
  return function;
}

void Outcome::pass_on() const { ::fcntl(file_.get(), F_SETFD, 0); }

// All other outcomes, also those of this process's own ranks, are closed by exec.
std::optional<Outcome> Outcome::inherited() {
  for (const int fd : open_descriptors()) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    std::error_code error;
    const auto target = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
    if (error || target.string() != "/memfd:unisono-outcome (deleted)") continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return Outcome(base::FileDescriptor(fd));
  }
  return std::nullopt;
}

void Outcome::put(std::span<const std::byte> bytes, std::size_t at) {
  const base::NoSizeSignal no_signal;
  while (!bytes.empty()) {
    const auto done = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw LaunchFailed("cannot hand " + std::to_string(bytes.size()) + " bytes of result to the parent: " + base::error_text(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    at += static_cast<std::size_t>(done);
  }
}

void Outcome::read(void* bytes, std::size_t count, std::size_t at) const {
  auto* to = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const auto got = ::pread(file_.get(), to, count, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw LaunchFailed("cannot read the result of a rank: " + (got < 0 ? error_text(errno) : std::string("it ends too early")));
    to += got;
    at += static_cast<std::size_t>(got);
    count -= static_cast<std::size_t>(got);
  }
}

// The header is written last, so that a rank killed before it has left no result.
void Outcome::put_result(std::span<const std::byte> bytes) {
  put(bytes, sizeof(Header));
  const Header header{.kind = Kind::result, .bytes = bytes.size()};
  put(std::as_bytes(std::span(&header, 1)), 0);
}

void Outcome::put_error(const Thrown& error) {
  const std::string text = error.type + error.message;
  put(std::as_bytes(std::span(text)), sizeof(Header));
  const Header header{.kind = Kind::error, .of_peer = error.of_peer, .culprit = error.culprit, .type_bytes = error.type.size(), .bytes = text.size()};
  put(std::as_bytes(std::span(&header, 1)), 0);
}

Outcome::Header Outcome::header() const {
  Header header;
  const auto got = ::pread(file_.get(), &header, sizeof header, 0);
  return got == static_cast<ssize_t>(sizeof header) ? header : Header{};
}

bool Outcome::has_result() const { return header().kind == Kind::result; }

std::optional<Thrown> Outcome::error() const {
  const Header about = header();
  if (about.kind != Kind::error) return std::nullopt;
  std::string text(about.bytes, '\0');
  read(text.data(), text.size(), sizeof(Header));
  return Thrown{
      .type = text.substr(0, about.type_bytes), .message = text.substr(about.type_bytes), .of_peer = about.of_peer, .culprit = about.culprit};
}

std::vector<std::byte> Outcome::take_result() {
  std::vector<std::byte> bytes(header().bytes);
  read(bytes.data(), bytes.size(), sizeof(Header));
  close();
  return bytes;
}

void throw_if_failed(const JobResult& result, std::span<const Outcome> outcomes) {
  std::vector<ProcessEnd> ends;
  for (std::size_t i = 0; i < outcomes.size(); ++i) ends.push_back(describe(result.ends[i], outcomes[i]));
  if (std::none_of(ends.begin(), ends.end(), [](const ProcessEnd& end) { return end.failed; })) return;

  const std::size_t cause = cause_of(result, outcomes);
  ends[cause].is_consequence = false;
  // A rank that hung, or left early, has nothing to say by itself.
  const std::string said = outcomes[cause].error() || !is_only_named(result.ends[cause]) ? std::string() : said_of(result.ends, ends[cause].rank);
  std::string message = fmt::format("rank {}{} {}", ends[cause].rank, said.empty() ? "" : ":", said.empty() ? fate(ends[cause]) : said);
  std::vector<int> consequences;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == cause || !ends[i].failed) continue;
    if (ends[i].is_consequence) consequences.push_back(ends[i].rank);
    else message += fmt::format("; rank {} {}", ends[i].rank, fate(ends[i]));
  }
  if (!consequences.empty()) {
    message += fmt::format("; {} {} ended as a consequence", name_ranks(consequences), consequences.size() == 1 ? "was" : "were");
  }
  const int culprit = ends[cause].rank;
  throw LaunchFailed(message, {.operation = "spawn", .culprit = culprit, .host = base::host_name()}, std::move(ends));
}

}  // namespace unisono::launcher
