#include "launch/output/output.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

/// Returns class, byte order and machine of an ELF file; empty text for any other file, such as a script.
std::string architecture(const std::string& file) {
  std::array<char, EI_NIDENT + 4> head{};
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(head.data(), head.size()) || std::string_view(head.data(), SELFMAG) != ELFMAG) return {};
  return {head[EI_CLASS], head[EI_DATA], head[EI_NIDENT + 2], head[EI_NIDENT + 3]};
}

/// Tells whether the loader accepts our library. It would print a message for a library of another architecture, once for each process.
bool can_load(const std::string& program) {
  const std::string other = architecture(program);
  static const auto& own = *new const std::string(architecture("/proc/self/exe"));
  return other.empty() || other == own;
}

void append(EnvironmentBlock& environment, std::string_view name, const std::string& value) {
  const std::string before = environment.get(name);
  environment.set(name, before.empty() ? value : before + ":" + value);
}

constexpr std::string_view tag = "[unisono] ";
/// Lines this close to the end of the output are still on the screen and are not repeated.
constexpr std::uint64_t lines_in_view = 20;
constexpr std::size_t bytes_per_read = 64u << 10;

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::size_t prefix_width(int world_size) { return std::to_string(world_size - 1).size() + 3; }

}  // namespace

std::optional<PseudoTerminal> open_pseudo_terminal(const winsize& size) {
  PseudoTerminal terminal;
  terminal.reading.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 64> name{};
  const int reading = terminal.reading.get();
  if (reading < 0 || ::grantpt(reading) != 0 || ::unlockpt(reading) != 0 || ::ptsname_r(reading, name.data(), name.size()) != 0) return std::nullopt;
  terminal.writing.reset(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes{};
  if (!terminal.writing || ::tcgetattr(terminal.writing.get(), &modes) != 0) return std::nullopt;
  ::cfmakeraw(&modes);
  if (::tcsetattr(terminal.writing.get(), TCSANOW, &modes) != 0) return std::nullopt;
  ::ioctl(reading, TIOCSWINSZ, &size);
  return terminal;
}

void write_line_by_line(EnvironmentBlock& environment, int pipe, const std::string& program) {
  if (!environment.has("PYTHONUNBUFFERED")) environment.set("PYTHONUNBUFFERED", 1);
  static const auto& library = *new const std::string(find_helper("libunisono-lines.so"));
  struct stat about {};
  // LD_PRELOAD separates libraries by colons and blanks, without quoting.
  if (library.empty() || library.find_first_of(": ") != std::string::npos || ::fstat(pipe, &about) != 0) return;
  if (environment.has("_STDBUF_O") || !can_load(program)) return;
  environment.set("UNISONO_OUTPUT_PIPE", "pipe:[" + std::to_string(about.st_ino) + "]");
  append(environment, "LD_PRELOAD", library);
  // AddressSanitizer refuses to run after an unknown library. This one replaces no function, so its check is switched off.
  append(environment, "ASAN_OPTIONS", "verify_asan_link_order=0");
}

Console::Console(const base::Environment& environment, Verbosity verbosity, int conductor)
    : out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      shared_(same_file(STDOUT_FILENO, STDERR_FILENO)),
      colour_(!environment.has("NO_COLOR")),
      silent_(verbosity == Verbosity::silent),
      conductor_(conductor) {}

std::string Console::prefix(int rank, int world_size, const Sink& sink) const {
  const std::string plain = fmt::format("[{:>{}}]", rank, prefix_width(world_size) - 3);
  if (!colour_ || !sink.is_terminal()) return plain + " ";
  constexpr std::array colours{36, 33, 32, 35, 34, 31};
  return fmt::format("\x1b[{}m{}\x1b[0m ", colours[static_cast<std::size_t>(rank) % colours.size()], plain);
}

void Console::put(std::string_view text, std::string_view begin, std::string_view end) {
  std::string whole = std::string(tag).append(text);
  if (err().is_terminal()) whole = wrap_to_width(whole, err().columns(), tag.size());
  if (silent_) return;
  err().line(std::string(begin).append(whole).append(end));
}

/// One write for each line, which a pipe takes whole up to PIPE_BUF bytes; the conductor reads at all times. A conductor that is gone needs no
/// message.
void Console::tell_conductor(std::string_view how, Topic topic, std::string_view text) const {
  if (conductor_ < 0) return;
  std::string line = fmt::format("{} {} {}", how, static_cast<int>(topic), text);
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto done = ::write(conductor_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
}

void Console::say(std::string_view text, Topic topic) {
  if (conductor_ >= 0) return tell_conductor("say", topic, text);
  put(text, "", "");
}

void Console::shout(std::string_view text, Topic topic) {
  if (conductor_ >= 0) return tell_conductor("shout", topic, text);
  const bool coloured = colour_ && err().is_terminal();
  put(text, coloured ? "\x1b[1;31m" : "", coloured ? "\x1b[0m" : "");
}

void Console::quote(std::string_view line) {
  if (conductor_ >= 0) return tell_conductor("quote", Topic::other, line);
  if (!silent_) err().line(std::string(tag).append("| ").append(line));
}

void Console::set_footer(std::string_view text) {
  if (silent_ || conductor_ >= 0) return;
  if (text.empty() || !colour_) return err().set_footer(text);
  err().set_footer(std::string("\x1b[7m").append(text).append("\x1b[0m"));  // set off from the output
}

void Console::resize() {
  out_.resize();
  err_.resize();
}

void Console::note_typed() {
  out_.note_typed();
  err_.note_typed();
}

void Console::flush() {
  out_.flush();
  if (out_.error() != 0 && !shared_ && !std::exchange(told_loss_, true)) {
    say("standard output: " + error_text(out_.error()) + "; the output that follows is lost");
  }
  err_.flush();
}

void Console::wait_for(PollSet& set) {
  out_.wait_for(set);
  err_.wait_for(set);
}

OutputMultiplexer::OutputMultiplexer(Console& console, OutputPlan plan) : console_(&console), plan_(std::move(plan)) {
  channels_.reserve(2 * static_cast<std::size_t>(plan_.ranks));
  for (int rank = plan_.first_rank; rank < plan_.first_rank + plan_.ranks; ++rank) {
    logs_.push_back(plan_.log_folder.empty() ? std::make_unique<RankLog>() : std::make_unique<RankLog>(plan_.log_folder, rank, plan_.attempt));
    RankLog& log = *logs_.back();
    for (Sink* sink : {&console.out(), &console.err()}) {
      channels_.push_back({sink, &log, RankStream(*sink, log, console.prefix(rank, plan_.world_size, *sink), rank)});
    }
  }
}

winsize OutputMultiplexer::size_of_ranks(const Sink& sink) const {
  winsize size{};
  ::ioctl(sink.fd(), TIOCGWINSZ, &size);
  // A row that fits the rank's terminal must fit ours with the prefix in front.
  const auto taken = static_cast<unsigned short>(prefix_width(plan_.world_size));
  if (size.ws_col > 2 * taken) size.ws_col = static_cast<unsigned short>(size.ws_col - taken);
  return size;
}

OutputMultiplexer::WritingEnds OutputMultiplexer::open(int rank) {
  WritingEnds ends;
  for (std::size_t stream = 0; stream < 2; ++stream) {
    Channel& channel = channels_[2 * static_cast<std::size_t>(rank) + stream];
    base::FileDescriptor& writing = stream == 0 ? ends.out : ends.err;
    auto terminal = plan_.terminals && channel.sink->is_terminal() ? open_pseudo_terminal(size_of_ranks(*channel.sink)) : std::nullopt;
    if (terminal) {
      channel.source = std::move(terminal->reading);
      writing = std::move(terminal->writing);
      ends.out_is_terminal = ends.out_is_terminal || stream == 0;
    } else {
      int pipe[2];
      if (::pipe2(pipe, O_CLOEXEC) != 0) throw StartFailed("cannot make a pipe for rank " + std::to_string(rank) + ": " + error_text(errno), 1);
      channel.source.reset(pipe[0]);
      writing.reset(pipe[1]);
    }
    ::fcntl(channel.source.get(), F_SETFL, O_NONBLOCK);
  }
  return ends;
}

bool OutputMultiplexer::read_some(Channel& channel) {
  std::array<char, bytes_per_read> bytes;
  const auto got = ::read(channel.source.get(), bytes.data(), bytes.size());
  if (got > 0) {
    channel.stream.feed({bytes.data(), static_cast<std::size_t>(got)});
    // The reader has left. The rank then gets a closed pipe, as it would without the launcher.
    if (channel.sink->reader_left() && !channel.log->is_open()) channel.source.reset();
    return channel.source.valid();
  }
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  channel.stream.finish();
  channel.source.reset();
  return false;
}

bool OutputMultiplexer::may_read(const Channel& channel) const { return channel.source.valid() && !channel.sink->is_full(); }

void OutputMultiplexer::wait_for(PollSet& set) {
  for (Channel& channel : channels_) {
    if (may_read(channel)) set.add(channel.source.get(), POLLIN, [this, &channel](short) { read_some(channel); });
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

void OutputMultiplexer::drain(Channel& channel) {
  constexpr int terminal_capacity = 1 << 20;  // more than the kernel buffers for a terminal
  constexpr int least_per_read = 4096;        // a pipe's buffers are pages
  // Draining stops after the pipe's capacity, so that an escaped process that writes for ever cannot hold up the launcher.
  int capacity = channel.source.valid() ? ::fcntl(channel.source.get(), F_GETPIPE_SZ) : 0;
  if (capacity < 0) capacity = terminal_capacity;
  for (int read = 0; channel.source.valid() && read <= capacity; read += least_per_read) {
    if (!read_some(channel)) break;
  }
  if (channel.source.valid()) channel.stream.finish();
  channel.source.reset();
}

void OutputMultiplexer::drain() {
  for (Channel& channel : channels_) drain(channel);
  tick();
}

void OutputMultiplexer::close(int rank) {
  for (std::size_t stream = 0; stream < 2; ++stream) drain(channels_[2 * static_cast<std::size_t>(rank) + stream]);
}

void OutputMultiplexer::settle_live_lines() {
  for (Channel& channel : channels_) channel.stream.settle();
}

void OutputMultiplexer::resize() {
  for (const Channel& channel : channels_) {
    if (!channel.source || !channel.sink->is_terminal()) continue;
    const winsize size = size_of_ranks(*channel.sink);
    ::ioctl(channel.source.get(), TIOCSWINSZ, &size);  // fails for a pipe, without harm
  }
}

const std::deque<std::string>& OutputMultiplexer::unseen_last_lines(std::size_t rank) const {
  static const auto& none = *new const std::deque<std::string>;
  const Channel& error = channels_[2 * rank + 1];
  const Channel& channel = error.stream.tail().empty() ? channels_[2 * rank] : error;
  const bool same_place = channel.sink == &console_->err() || (channel.sink->is_terminal() && console_->err().is_terminal());
  const bool just_shown = same_place && !channel.sink->broken() && channel.stream.lines_since_its_last() <= lines_in_view;
  return just_shown ? none : channel.stream.tail();
}

}  // namespace unisono::launcher
