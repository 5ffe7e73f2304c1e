#include "backends/spanning/messages.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "engine/message_kind.h"
#include "unisono/error.h"

namespace unisono::backends {
namespace {

constexpr std::size_t inline_bytes = 512;

std::string elements(std::uint64_t bytes, DType dtype) {
  return fmt::format("{} × {}", to_string(dtype), bytes / std::max<std::size_t>(size_of(dtype), 1));
}

template <class T>
T field(std::string_view& text) {
  T value{};
  const auto end = std::min(text.find(' '), text.size());
  std::from_chars(text.data(), text.data() + end, value);
  text.remove_prefix(std::min(end + 1, text.size()));
  return value;
}

}  // namespace

Messages::Messages(Parts parts)
    : parts_(std::move(parts)), sent_(static_cast<std::size_t>(parts_.size), 0), arrived_(static_cast<std::size_t>(parts_.size)) {}

class Messages::SendTask final : public Task {
 public:
  SendTask(Messages& box, const MessageCall& call) : peer_(call.peer), poll_(box.parts_.poll) {
    // Channel 0 is the collectives'. A number comes again after all others.
    const auto channel = static_cast<std::uint32_t>(1 + box.sent_[static_cast<std::size_t>(call.peer)]++ % box.parts_.largest_channel);
    const std::size_t bytes = call.data.bytes();
    std::string notice = fmt::format("m{} {} {} {} ", bytes, call.tag, engine::kind_of(call), bytes <= inline_bytes ? 0 : channel);
    if (bytes <= inline_bytes) {
      notice.append(static_cast<const char*>(call.data.data()), bytes);
      box.parts_.tell(peer_, std::move(notice));
      return;
    }
    box.parts_.tell(peer_, std::move(notice));
    const void* data = call.data.data();
    if (bytes <= buffered_bytes) {  // may have to do without its caller
      own_.assign(static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes);
      data = own_.data();
    }
    task_ = box.parts_.send(data, bytes, peer_, channel);
  }
  bool advance() override {
    if (!task_) return true;
    poll_();
    if (!task_->advance()) return false;
    task_.reset();
    return true;
  }
  std::vector<int> waiting_for() const override { return task_ ? std::vector<int>{peer_} : std::vector<int>(); }
  bool is_rung_for() const override { return !task_ || task_->is_rung_for(); }
  bool detach() override { return !task_ || !own_.empty(); }

 private:
  // What the group may ask to detach is at most that large.
  static constexpr std::size_t buffered_bytes = std::size_t{64} << 10;
  int peer_;
  const std::function<void()>& poll_;
  std::vector<std::byte> own_;
  std::unique_ptr<Task> task_;
};

class Messages::RecvTask final : public Task {
 public:
  RecvTask(Messages& box, const MessageCall& call) : box_(box), call_(call) {
    const std::lock_guard lock(box_.mutex_);
    box_.posted_.push_back(this);
  }
  ~RecvTask() override {
    const std::lock_guard lock(box_.mutex_);
    std::erase(box_.posted_, this);
    // Given up before it has taken anything of the message: that is for the next one.
    if (source_ >= 0 && !begun_) box_.arrived_[static_cast<std::size_t>(source_)].push_front(std::move(header_));
  }

  bool advance() override {
    if (done_) return true;
    box_.parts_.poll();
    if (!begun_) {
      box_.match();
      if (source_ < 0) return false;
      box_.check_channel(source_, header_);
      begun_ = true;
      wrong_ = header_.bytes != call_.data.bytes() || header_.kind != engine::kind_of(call_);
      if (header_.channel != 0) {
        // A message of another kind goes away, all of it: its sender may still be sending.
        const auto bytes = static_cast<std::size_t>(header_.bytes);
        task_ = wrong_ ? box_.parts_.discard(bytes, source_, header_.channel) : box_.parts_.recv(call_.data.data(), bytes, source_, header_.channel);
      } else if (!wrong_ && header_.bytes > 0) {
        std::memcpy(call_.data.data(), header_.inlined.data(), header_.inlined.size());
      }
    }
    if (task_ && !task_->advance()) return false;
    done_ = true;
    if (wrong_) throw_mismatch();
    return true;
  }
  std::vector<int> waiting_for() const override {
    if (done_) return {};
    return source_ >= 0 ? std::vector<int>{source_} : box_.possible_sources(call_);
  }
  bool any_will_do() const override { return source_ < 0 && call_.peer < 0; }
  bool is_rung_for() const override { return !task_ || task_->is_rung_for(); }
  Arrival arrival() const override { return {.source = source_, .tag = header_.tag, .kind = header_.kind, .bytes = header_.bytes}; }

  bool wants(int source, const Header& header) const { return (call_.peer < 0 || call_.peer == source) && engine::takes_tag(call_.tag, header.tag); }
  void take(int source, Header header) {
    source_ = source;
    header_ = std::move(header);
  }

 private:
  [[noreturn]] void throw_mismatch() const {
    ErrorInfo info;
    info.operation = call_.label.empty() ? "recv" : call_.label;
    info.sequence = call_.sequence;
    info.rank = box_.parts_.rank;
    info.culprit = source_;
    info.hint = "the message is gone, the group stays usable";
    const std::uint32_t own = engine::kind_of(call_);
    const char* other_call = header_.kind != own && (((header_.kind | own) & engine::labelled_kind) != 0) ? ", and by another kind of call" : "";
    throw Mismatch(fmt::format("rank {} sent {}, but the receive is of {}{}", source_, elements(header_.bytes, engine::dtype_of_kind(header_.kind)),
                               elements(call_.data.bytes(), call_.data.dtype()), other_call),
                   std::move(info));
  }

  Messages& box_;
  MessageCall call_;
  Header header_;
  std::unique_ptr<Task> task_;
  int source_ = -1;
  bool begun_ = false;
  bool wrong_ = false;
  bool done_ = false;
};

class Messages::ProbeTask final : public Task {
 public:
  ProbeTask(Messages& box, const MessageCall& call) : box_(box), call_(call) {}
  bool advance() override {
    if (arrival_.source >= 0) return true;
    box_.parts_.poll();
    box_.match();
    // What is left is what no receive has asked for.
    const std::lock_guard lock(box_.mutex_);
    for (std::size_t s = 0; s < box_.arrived_.size(); ++s) {
      if (call_.peer >= 0 && static_cast<std::size_t>(call_.peer) != s) continue;
      for (const Header& header : box_.arrived_[s]) {
        if (!engine::takes_tag(call_.tag, header.tag)) continue;
        arrival_ = {.source = static_cast<int>(s), .tag = header.tag, .kind = header.kind, .bytes = header.bytes};
        return true;
      }
    }
    return false;
  }
  std::vector<int> waiting_for() const override { return arrival_.source >= 0 ? std::vector<int>() : box_.possible_sources(call_); }
  bool any_will_do() const override { return call_.peer < 0; }
  Arrival arrival() const override { return arrival_; }

 private:
  Messages& box_;
  MessageCall call_;
  Arrival arrival_;
};

std::unique_ptr<Task> Messages::send(const MessageCall& call) { return std::make_unique<SendTask>(*this, call); }
std::unique_ptr<Task> Messages::recv(const MessageCall& call) { return std::make_unique<RecvTask>(*this, call); }
std::unique_ptr<Task> Messages::probe(const MessageCall& call) { return std::make_unique<ProbeTask>(*this, call); }

std::vector<int> Messages::possible_sources(const MessageCall& call) const {
  if (call.peer >= 0) return {call.peer};
  std::vector<int> anybody;
  for (int r = 0; r < parts_.size; ++r) {
    if (parts_.is_remote(r)) anybody.push_back(r);
  }
  return anybody;
}

void Messages::take(int peer, std::string_view text) {
  text.remove_prefix(1);
  Header header;
  header.bytes = field<std::uint64_t>(text);
  header.tag = field<std::int32_t>(text);
  header.kind = field<std::uint32_t>(text);
  header.channel = field<std::uint32_t>(text);
  if (header.channel == 0) {
    if (header.bytes != text.size()) return;  // not ours
    header.inlined = text;
  }
  const std::lock_guard lock(mutex_);
  header.number = noticed_++;
  arrived_[static_cast<std::size_t>(peer)].push_back(std::move(header));
}

// The bytes of a channel come in the order of the messages: those of an earlier message, which nobody has received, would be taken for this one's.
void Messages::check_channel(int source, const Header& header) {
  if (header.channel == 0) return;
  const std::lock_guard lock(mutex_);
  for (const Header& other : arrived_[static_cast<std::size_t>(source)]) {
    if (other.channel != header.channel || other.number > header.number) continue;
    throw ProtocolError(fmt::format("a message of rank {} with tag {} has waited to be received while {} others came after it", source, other.tag,
                                    header.number - other.number),
                        {.operation = "recv", .rank = parts_.rank, .culprit = source, .hint = "receive it first"});
  }
}

void Messages::match() {
  const std::lock_guard lock(mutex_);
  std::erase_if(posted_, [&](RecvTask* task) {
    for (std::size_t s = 0; s < arrived_.size(); ++s) {
      auto& queue = arrived_[s];
      const auto found = std::find_if(queue.begin(), queue.end(), [&](const Header& h) { return task->wants(static_cast<int>(s), h); });
      if (found == queue.end()) continue;
      task->take(static_cast<int>(s), std::move(*found));
      queue.erase(found);
      return true;
    }
    return false;
  });
}

}  // namespace unisono::backends
