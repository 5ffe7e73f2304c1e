#include "launch/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "launch/program.h"

namespace unisono::launcher {
namespace {

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

Console::Console(const ground::Environment& environment, Talk talk)
    : out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      shared_(same_file(STDOUT_FILENO, STDERR_FILENO)),
      colour_(!environment.has("NO_COLOR")),
      silent_(talk == Talk::silent) {}

std::string Console::prefix(int rank, const Sink& sink) const {
  const std::string plain = fmt::format("[{}]", rank);
  if (!colour_ || !sink.is_terminal()) return plain + " ";
  constexpr std::array colours{36, 33, 32, 35, 34, 31};
  return fmt::format("\x1b[{}m{}\x1b[0m ", colours[static_cast<std::size_t>(rank) % colours.size()], plain);
}

void Console::say(std::string_view text) {
  if (!silent_) err().line("[unisono] " + std::string(text));
}

void Console::flush() {
  out_.flush();
  err_.flush();
}

void Console::wait_for(PollSet& set) {
  out_.wait_for(set);
  err_.wait_for(set);
}

OutputMultiplexer::OutputMultiplexer(Console& console, int first_rank, int ranks, const std::string& log_directory, int attempt)
    : console_(&console) {
  channels_.reserve(2 * static_cast<std::size_t>(ranks));
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    logs_.push_back(log_directory.empty() ? std::make_unique<RankLog>() : std::make_unique<RankLog>(log_directory, rank, attempt));
    RankLog& log = *logs_.back();
    for (Sink* sink : {&console.out(), &console.err()}) {
      channels_.push_back({sink, &log, RankStream(*sink, log, console.prefix(rank, *sink))});
    }
  }
}

OutputMultiplexer::WritingEnds OutputMultiplexer::open(int rank) {
  WritingEnds ends;
  for (int stream = 0; stream < 2; ++stream) {
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) throw StartFailed("cannot make a pipe for rank " + std::to_string(rank) + ": " + error_text(errno), 1);
    ground::FileDescriptor& reading = channels_[2 * static_cast<std::size_t>(rank) + static_cast<std::size_t>(stream)].pipe;
    reading.reset(pipe[0]);
    ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
    (stream == 0 ? ends.out : ends.err).reset(pipe[1]);
  }
  return ends;
}

bool OutputMultiplexer::read_some(Channel& channel) {
  std::array<char, 64 << 10> bytes;
  const auto got = ::read(channel.pipe.get(), bytes.data(), bytes.size());
  if (got > 0) {
    channel.stream.feed({bytes.data(), static_cast<std::size_t>(got)});
    // Nobody listens any more: let the rank see a closed pipe, as it would without us.
    if (channel.sink->broken() && !channel.log->is_open()) channel.pipe.reset();
    return channel.pipe.valid();
  }
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  channel.stream.finish();
  channel.pipe.reset();
  return false;
}

bool OutputMultiplexer::may_read(const Channel& channel) const { return channel.pipe.valid() && !channel.sink->is_full(); }

void OutputMultiplexer::wait_for(PollSet& set) {
  for (Channel& channel : channels_) {
    if (may_read(channel)) set.add(channel.pipe.get(), POLLIN, [this, &channel](short) { read_some(channel); });
    if (const auto rest = channel.stream.rests_for()) set.wake_within(*rest);
  }
}

void OutputMultiplexer::tick() {
  for (Channel& channel : channels_) channel.stream.show_rested();
  for (const auto& log : logs_) {
    const std::string warning = log->take_warning();
    if (!warning.empty() && !std::exchange(warned_, true)) console_->say("warning: " + warning);
  }
}

void OutputMultiplexer::drain() {
  for (Channel& channel : channels_) {
    // At most what a pipe holds: a process that has escaped us and writes for ever must not keep us.
    const int capacity = channel.pipe.valid() ? ::fcntl(channel.pipe.get(), F_GETPIPE_SZ) : 0;
    for (int read = 0; channel.pipe.valid() && read <= capacity; read += 4096) {
      if (!read_some(channel)) break;
    }
    if (channel.pipe.valid()) channel.stream.finish();
    channel.pipe.reset();
  }
  tick();
}

bool OutputMultiplexer::all_closed() const {
  for (const Channel& channel : channels_) {
    if (channel.pipe.valid()) return false;
  }
  return true;
}

void OutputMultiplexer::settle_live_lines() {
  for (Channel& channel : channels_) channel.stream.settle();
}

std::vector<int> OutputMultiplexer::descriptors() const {
  std::vector<int> all;
  for (const Channel& channel : channels_) {
    if (channel.pipe.valid()) all.push_back(channel.pipe.get());
  }
  return all;
}

}  // namespace unisono::launcher
