#include "hosts/host_output.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace unisono::tools {

using launcher::Topic;

HostOutput::HostOutput(launcher::Console& console, std::size_t hosts, int world_size)
    : console_(&console), world_size_(world_size), unfinished_(hosts), is_restarting_(hosts), states_(hosts) {}

/// The launchers there write to pipes, so a prefix gets its colour here.
void HostOutput::show_line(bool is_error, std::string line) {
  launcher::Sink& sink = is_error ? console_->err() : console_->out();
  const auto end = line.find("] ");
  if (sink.is_terminal() && line.starts_with('[') && end != std::string::npos) {
    const auto begin = std::min(line.find_first_not_of(' ', 1), end);
    int rank = 0;
    const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, rank);
    if (error == std::errc() && stop == line.data() + end) line.replace(0, end + 2, console_->prefix(rank, world_size_, sink));
  }
  sink.line(line);
}

void HostOutput::take(std::size_t host, bool is_error, std::string_view bytes) {
  std::string& line = unfinished_[host][is_error ? 1 : 0];
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    line += bytes.substr(0, end);
    show_line(is_error, std::move(line));
    line.clear();
    bytes.remove_prefix(end + 1);
  }
  line += bytes;
}

void HostOutput::finish(std::size_t host) {
  for (const bool is_error : {false, true}) {
    std::string& line = unfinished_[host][is_error ? 1 : 0];
    if (!line.empty()) show_line(is_error, std::move(line));
    line.clear();
  }
}

void HostOutput::take_message(std::size_t host, std::string_view line) {
  std::istringstream fields{std::string(line)};
  Message message;
  int topic = 0;
  fields >> message.how >> topic;
  fields.get();
  std::getline(fields, message.text);
  message.topic = static_cast<Topic>(topic);
  if (message.how == "state") {
    states_.take(host, message.text);
    return console_->set_footer(states_.line(base::Clock::now() - begun_, console_->err().columns() - 1));
  }
  switch (message.topic) {
    case Topic::interrupt: return;  // the conductor says it itself
    case Topic::failing:
      if (!std::exchange(has_failed_, true)) show(message);
      return;
    case Topic::logs:
      if (std::exchange(logs_, message.text) != message.text) show(message);
      return;
    case Topic::metrics: return show(message);  // each host has its own
    case Topic::lost: loss_ = loss_.empty() ? message.text : loss_; return;
    case Topic::restart:
      is_restarting_[host] = true;
      if (!std::ranges::all_of(is_restarting_, [](bool restarts) { return restarts; })) return;
      show_held();
      is_restarting_.assign(is_restarting_.size(), false);
      has_failed_ = false;
      return show(message);
    case Topic::other: held_.push_back(std::move(message)); return;
  }
}

void HostOutput::show(const Message& message) {
  if (message.how == "quote") console_->quote(message.text);
  else if (message.how == "shout") console_->shout(message.text);
  else console_->say(message.text);
}

void HostOutput::show_held() {
  for (const Message& message : held_) show(message);
  held_.clear();
}

void HostOutput::show_accounts(bool with_losses) {
  console_->set_footer({});
  show_held();
  if (with_losses && !loss_.empty()) console_->shout(loss_);
}

}  // namespace unisono::tools
