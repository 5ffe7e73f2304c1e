#include "engine/cooperative/mailbox.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "engine/message_kind.h"
#include "kernels/copy.h"

namespace unisono::engine {
namespace {

constexpr std::size_t stride = std::size_t{32} << 10;  // what is copied before the other side may see it
constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 15) & ~std::uint64_t{15}; }

// Copies between a ring and plain memory, at a position that wraps.
void into_ring(std::byte* ring, std::size_t capacity, std::uint64_t position, const void* from, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  if (first > 0) kernels::copy(ring + at, from, first);
  if (bytes > first) kernels::copy(ring, static_cast<const std::byte*>(from) + first, bytes - first);
}
void out_of_ring(void* to, const std::byte* ring, std::size_t capacity, std::uint64_t position, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  if (first > 0) kernels::copy(to, ring + at, first);
  if (bytes > first) kernels::copy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

std::string elements(std::uint64_t bytes, DType dtype) {
  const std::size_t size = std::max<std::size_t>(size_of(dtype), 1);
  return std::string(to_string(dtype)) + " × " + std::to_string(bytes / size);
}

}  // namespace

class Mailbox::SendTask final : public Task {
 public:
  SendTask(Mailbox& box, const MessageCall& call) : box_(box), call_(call), data_(static_cast<const std::byte*>(call.data.data())) {
    header_ = {call.data.bytes(), call.tag, kind_of(call)};
    queue().push_back(this);
  }
  ~SendTask() override {
    if (!done_) std::erase(queue(), this);
  }

  bool advance() override {
    if (done_) return true;
    if (queue().front() != this) return false;
    Segment& segment = *box_.segment_;
    RingControl& ring = segment.ring(box_.rank_, call_.peer);
    std::byte* memory = segment.ring_data(box_.rank_, call_.peer);
    const std::size_t capacity = segment.ring_bytes();
    std::uint64_t written = ring.written.load(std::memory_order_relaxed);
    std::uint64_t space = capacity - (written - ring.read.load(std::memory_order_acquire));
    bool moved = false;
    if (!header_sent_) {
      if (space < sizeof(Header)) return false;
      into_ring(memory, capacity, written, &header_, sizeof header_);
      written += sizeof header_;
      space -= sizeof header_;
      header_sent_ = moved = true;
    }
    for (;;) {
      const std::uint64_t left = header_.bytes - sent_;
      const std::uint64_t padding = padded(header_.bytes) - header_.bytes;
      if (left == 0 || space == 0) {
        if (left == 0 && space >= padding) {
          written += padding;
          done_ = true;
        }
        break;
      }
      const auto part = static_cast<std::size_t>(std::min({left, space, static_cast<std::uint64_t>(stride)}));
      into_ring(memory, capacity, written, data_ + (sent_ - moved_), part);
      sent_ += part;
      written += part;
      space -= part;
      moved = true;
      if (left > part) publish(ring, written);
    }
    if (moved || done_) publish(ring, written);
    if (done_) queue().pop_front();
    return done_;
  }
  std::vector<int> waiting_for() const override {
    if (done_) return {};
    return {call_.peer};
  }
  bool detach() override {
    if (done_) return true;
    std::vector<std::byte> rest(data_ + (sent_ - moved_), data_ + (header_.bytes - moved_));
    own_ = std::move(rest);
    data_ = own_.data();
    moved_ = sent_;
    return true;
  }

 private:
  std::deque<SendTask*>& queue() { return box_.outgoing_[static_cast<std::size_t>(call_.peer)]; }
  void publish(RingControl& ring, std::uint64_t written) {
    ring.written.store(written, std::memory_order_seq_cst);
    box_.segment_->bell(call_.peer).ring();
  }

  Mailbox& box_;
  MessageCall call_;
  const std::byte* data_;
  std::vector<std::byte> own_;
  Header header_;
  std::uint64_t sent_ = 0;
  std::uint64_t moved_ = 0;  // where in the message data_ begins
  bool header_sent_ = false;
  bool done_ = false;
};

class Mailbox::RecvTask final : public Task {
 public:
  RecvTask(Mailbox& box, const MessageCall& call) : box_(box), call_(call) {
    if (!match_stored()) box_.posted_.push_back(this);
  }
  ~RecvTask() override {
    box_.posted_.remove(this);
    for (Source& source : box_.sources_) {
      if (source.incoming.receiver == this) source.incoming.receiver = nullptr;
    }
  }

  bool advance() override {
    if (!done_) box_.pump();
    if (stored_ && stored_->complete) take_stored();
    if (done_ && wrong_) {
      wrong_ = false;
      throw_mismatch();
    }
    return done_;
  }
  std::vector<int> waiting_for() const override {
    if (done_) return {};
    return source_ >= 0 ? std::vector<int>{source_} : box_.possible_sources(call_);
  }
  bool any_will_do() const override { return source_ < 0 && call_.peer < 0; }
  Arrival arrival() const override { return {.source = source_, .tag = arrived_.tag, .kind = arrived_.kind, .bytes = arrived_.bytes}; }

  bool wants(int source, const Header& header) const { return could_come_from(source) && takes_tag(call_.tag, header.tag); }
  bool could_come_from(int source) const { return call_.peer < 0 || call_.peer == source; }
  /// Takes a message. One that is not of the length and dtype that was asked for goes away, all of it: its sender may still be sending.
  void take(int source, const Header& header) {
    source_ = source;
    arrived_ = header;
    wrong_ = header.bytes != call_.data.bytes() || header.kind != kind_of(call_);
  }
  bool is_wrong() const { return wrong_; }
  std::byte* data() const { return static_cast<std::byte*>(call_.data.data()); }
  void complete() { done_ = true; }

 private:
  bool match_stored() {
    const int n = box_.segment_->ranks();
    for (int s = 0; s < n; ++s) {
      if (!could_come_from(s)) continue;
      auto& stored = box_.sources_[static_cast<std::size_t>(s)].stored;
      const auto found = std::find_if(stored.begin(), stored.end(), [&](const auto& m) { return wants(s, m->header); });
      if (found == stored.end()) continue;
      take(s, (*found)->header);
      Incoming& incoming = box_.sources_[static_cast<std::size_t>(s)].incoming;
      if (incoming.storage == *found) {  // it is still coming: the rest goes where it belongs
        if (!wrong_) std::copy(incoming.storage->data.begin(), incoming.storage->data.end(), data());
        incoming.receiver = this;
        incoming.storage = nullptr;
      } else {
        stored_ = *found;
      }
      stored.erase(found);
      return true;
    }
    return false;
  }
  void take_stored() {
    if (!wrong_) std::copy(stored_->data.begin(), stored_->data.end(), data());
    stored_ = nullptr;
    done_ = true;
  }
  [[noreturn]] void throw_mismatch() const {
    ErrorInfo info;
    info.operation = call_.label.empty() ? "recv" : call_.label;
    info.sequence = call_.sequence;
    info.rank = box_.segment_->name_of(box_.rank_);
    info.culprit = box_.segment_->name_of(source_);
    info.hint = "the message is gone, the group stays usable";
    const std::uint32_t own = kind_of(call_);
    const char* other_call = arrived_.kind != own && (((arrived_.kind | own) & labelled_kind) != 0) ? ", and by another kind of call" : "";
    throw Mismatch("rank " + std::to_string(box_.segment_->name_of(source_)) + " sent " + elements(arrived_.bytes, dtype_of_kind(arrived_.kind)) +
                       ", but the receive is of " + elements(call_.data.bytes(), call_.data.dtype()) + other_call,
                   std::move(info));
  }

  Mailbox& box_;
  MessageCall call_;
  Header arrived_;
  std::shared_ptr<Stored> stored_;
  int source_ = -1;
  bool wrong_ = false;
  bool done_ = false;
};

class Mailbox::ProbeTask final : public Task {
 public:
  ProbeTask(Mailbox& box, const MessageCall& call) : box_(box), call_(call) { box_.probes_.push_back(this); }
  ~ProbeTask() override { box_.probes_.remove(this); }

  bool advance() override {
    if (arrival_.source >= 0) return true;
    box_.pump();
    // What is kept aside is what no receive has asked for.
    for (int s = 0; s < box_.segment_->ranks(); ++s) {
      if (!could_come_from(s)) continue;
      for (const auto& message : box_.sources_[static_cast<std::size_t>(s)].stored) {
        const Header& header = message->header;
        if (!takes_tag(call_.tag, header.tag)) continue;
        arrival_ = {.source = s, .tag = header.tag, .kind = header.kind, .bytes = header.bytes};
        box_.probes_.remove(this);
        return true;
      }
    }
    return false;
  }
  std::vector<int> waiting_for() const override { return arrival_.source >= 0 ? std::vector<int>() : box_.possible_sources(call_); }
  bool any_will_do() const override { return call_.peer < 0; }
  Arrival arrival() const override { return arrival_; }
  bool could_come_from(int source) const { return call_.peer < 0 || call_.peer == source; }

 private:
  Mailbox& box_;
  MessageCall call_;
  Arrival arrival_;
};

Mailbox::Mailbox(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)),
      rank_(rank),
      sources_(static_cast<std::size_t>(segment_->ranks())),
      outgoing_(static_cast<std::size_t>(segment_->ranks())) {}

std::unique_ptr<Task> Mailbox::send(const MessageCall& call) { return std::make_unique<SendTask>(*this, call); }
std::unique_ptr<Task> Mailbox::recv(const MessageCall& call) { return std::make_unique<RecvTask>(*this, call); }
std::unique_ptr<Task> Mailbox::probe(const MessageCall& call) { return std::make_unique<ProbeTask>(*this, call); }

std::vector<int> Mailbox::possible_sources(const MessageCall& call) const {
  if (call.peer >= 0) return {call.peer};
  std::vector<int> anybody;
  for (int r = 0; r < segment_->ranks(); ++r) {
    if (r != rank_) anybody.push_back(r);
  }
  return anybody;
}

void Mailbox::pump() {
  for (int source = 0; source < segment_->ranks(); ++source) {
    if (source == rank_) continue;
    while (pump(source)) {
    }
  }
}

bool Mailbox::wanted_from(int source) const {
  const auto could_come = [&](const auto* task) { return task->could_come_from(source); };
  return std::ranges::any_of(posted_, could_come) || std::ranges::any_of(probes_, could_come);
}

bool Mailbox::accept(int source, const Header& header) {
  Incoming& incoming = sources_[static_cast<std::size_t>(source)].incoming;
  incoming = Incoming{.active = true, .header = header, .received = 0, .receiver = nullptr, .storage = nullptr};
  const auto task = std::find_if(posted_.begin(), posted_.end(), [&](const RecvTask* t) { return t->wants(source, header); });
  if (task != posted_.end()) {
    RecvTask* receiver = *task;
    posted_.erase(task);
    receiver->take(source, header);
    incoming.receiver = receiver;
    return true;
  }
  incoming.storage = std::make_shared<Stored>();
  incoming.storage->header = header;
  sources_[static_cast<std::size_t>(source)].stored.push_back(incoming.storage);
  return true;
}

// Moves what is in the ring of one source; true if it may be worth another look.
bool Mailbox::pump(int source) {
  RingControl& ring = segment_->ring(source, rank_);
  Incoming& incoming = sources_[static_cast<std::size_t>(source)].incoming;
  const std::uint64_t written = ring.written.load(std::memory_order_acquire);
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  const std::byte* memory = segment_->ring_data(source, rank_);
  const std::size_t capacity = segment_->ring_bytes();
  if (!incoming.active) {
    if (written - read < sizeof(Header) || !wanted_from(source)) return false;
    Header header;
    out_of_ring(&header, memory, capacity, read, sizeof header);
    read += sizeof header;
    accept(source, header);
    ring.read.store(read, std::memory_order_seq_cst);
    segment_->bell(source).ring();  // a message of nothing frees no more than this
  }
  const std::uint64_t total = padded(incoming.header.bytes);
  bool moved = false;
  while (incoming.received < total && written != read) {
    const auto part = static_cast<std::size_t>(std::min({total - incoming.received, written - read, static_cast<std::uint64_t>(stride)}));
    // The padding at the end goes away.
    const auto useful =
        static_cast<std::size_t>(std::min<std::uint64_t>(part, incoming.header.bytes - std::min(incoming.received, incoming.header.bytes)));
    if (useful > 0 && incoming.receiver != nullptr && !incoming.receiver->is_wrong()) {
      out_of_ring(incoming.receiver->data() + incoming.received, memory, capacity, read, useful);
    } else if (useful > 0 && incoming.storage) {
      // Grows with what has come, not with what was announced.
      auto& data = incoming.storage->data;
      data.resize(static_cast<std::size_t>(incoming.received) + useful);
      out_of_ring(data.data() + incoming.received, memory, capacity, read, useful);
    }
    incoming.received += part;
    read += part;
    ring.read.store(read, std::memory_order_seq_cst);
    segment_->bell(source).ring();
    moved = true;
  }
  if (incoming.received == total) {
    if (incoming.receiver != nullptr) incoming.receiver->complete();
    if (incoming.storage) incoming.storage->complete = true;
    incoming = Incoming{};
    return true;
  }
  return moved;
}

}  // namespace unisono::engine
