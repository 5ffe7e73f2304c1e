// The frames of a connection between two ranks, of which the input plays one that knows the keys: its frames have the right codes, but say anything.
// The other side either ends the connection or matches messages with receives: each receive that is done has the bytes of one message of its channel
// and length, in their order; memory that was given up is not touched; what it sends is well-formed and has the bytes that were to be sent.
#include <sys/socket.h>

#include <map>
#include <memory>
#include <vector>

#include "input.h"
#include "transport/tcp/peer.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using namespace transport;  // NOLINT(google-build-using-namespace)

const std::string key_of_input(16, 'i'), key_of_peer(16, 'p');
constexpr std::size_t lengths[] = {0, 1, 7, 64, 1000, 4096, 5000, 16384, 20'000, 65'537, 300'000};

/// Message `number` has these bytes, so that they tell which one it is and where each byte belongs.
std::byte byte_of(std::size_t number, std::size_t at) { return static_cast<std::byte>(at == 0 ? number : number * 31 + at * 7 + at / 251); }

std::vector<std::byte> bytes_of(std::size_t number, std::size_t from, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = byte_of(number, from + i);
  return bytes;
}

struct Owned {
  TransferPtr transfer;
  std::unique_ptr<std::byte[]> memory;  // null: given up
  bool is_send = false;
};

/// The frames of the peer, which have to be well-formed, and the payload of its messages as it was given.
class Heard final : public FrameSink {
 public:
  Target begin(const FrameHead& head) override {
    payload_.resize(head.length);
    return {nullptr, payload_.data()};
  }
  void finish(const FrameHead& head) override {
    std::size_t from = 0, number = 0;
    if (head.kind == FrameKind::data) {
      from = offsets_[head.id];
      if (from == 0) numbers_[head.id] = static_cast<std::size_t>(payload_[0]);
      number = numbers_[head.id];
      offsets_[head.id] += payload_.size();
    } else if (head.kind == FrameKind::eager) {
      number = payload_.empty() ? 0 : static_cast<std::size_t>(payload_[0]);
    } else {
      return;
    }
    require(payload_ == bytes_of(number, from, payload_.size()), "what is sent has its bytes");
  }
  bool expects_much() const override { return false; }
  bool pauses() override { return false; }

 private:
  std::vector<std::byte> payload_;
  std::map<std::uint64_t, std::size_t> offsets_, numbers_;
};

class Game {
 public:
  explicit Game(Input& in) : in_(in), peer_(1, "127.0.0.1:1", shared_) {
    int ends[2] = {-1, -1};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "there are sockets");
    own_ = base::FileDescriptor(ends[1]);
    Established established{.fd = base::FileDescriptor(ends[0])};
    established.keys = {.sending = key_of_peer, .receiving = key_of_input};
    peer_.connect(std::move(established));
  }

  void play() {
    for (int turns = 0; in_.has_more() && turns < 200; ++turns) {
      turn();
      pump();
      check_receives();
    }
    if (in_.flag()) own_.reset();  // else the peer goes first
    pump();
  }

 private:
  ChannelKey channel() { return {1 + in_.choice(1), static_cast<std::uint32_t>(in_.choice(2))}; }
  std::size_t length() { return lengths[in_.choice(std::size(lengths) - 1)]; }

  void turn() {
    switch (in_.choice(15)) {
      case 0: return post(&Peer::send, 1 + sent_by_peer_++ % 255);
      case 1:
      case 2:
      case 3: return post(&Peer::recv, 0);
      case 4: return give_up();
      case 5: return end_group(1 + in_.choice(1));
      case 6: return peer_.notify(1, in_.text());
      case 7: return take_mail();
      case 8: return write(in_.text());  // no frame at all
      default: return say();
    }
  }

  void post(void (Peer::*call)(const TransferPtr&), std::size_t number) {
    Owned owned;
    const std::size_t bytes = length();
    owned.memory = std::make_unique<std::byte[]>(bytes);
    if (number != 0) std::ranges::copy(bytes_of(number, 0, bytes), owned.memory.get());
    owned.is_send = number != 0;
    owned.transfer = std::make_shared<Transfer>(owned.memory.get(), bytes, 1, channel());
    (peer_.*call)(owned.transfer);
    owned_.push_back(std::move(owned));
  }

  /// A task that is destroyed takes its message back, and its memory goes.
  void give_up() {
    if (owned_.empty()) return;
    Owned& owned = owned_[in_.choice(std::min<std::size_t>(owned_.size() - 1, UINT8_MAX))];
    if (!owned.memory) return;
    if (owned.is_send && in_.flag()) owned.transfer->detach();
    else peer_.withdraw(owned.transfer);
    owned.memory.reset();
  }

  void end_group(std::uint64_t group) {
    shared_.groups_over.insert(group);
    peer_.end_group(group);
    for (Owned& owned : owned_) {
      if (owned.transfer->channel.first != group || !owned.memory) continue;
      require(!owned.transfer->pending(), "all tasks of a group end with it");
      owned.memory.reset();
    }
  }

  void take_mail() {
    std::string text;
    while (peer_.take_call(1, text) || peer_.take_call(2, text)) continue;
    shared_.notices.clear();
    shared_.reports.clear();
  }

  /// Sends a frame with its code.
  void say() {
    FrameHead head{.kind = static_cast<FrameKind>(1 + in_.choice(12))};
    const auto [group, channel] = this->channel();
    const bool has_channel = head.kind == FrameKind::eager || head.kind == FrameKind::request;
    if (has_channel) head.channel = channel;
    if (has_channel || head.kind == FrameKind::notice || head.kind == FrameKind::call || head.kind == FrameKind::spread) head.group = group;
    std::vector<std::byte> payload;
    switch (head.kind) {
      case FrameKind::eager: payload = bytes_of(1 + messages_++ % 255, 0, length()); break;
      case FrameKind::request:
        head.id = ++requested_ - (in_.choice(31) == 0 ? 1 : 0);
        head.total = in_.choice(15) == 0 ? in_.number<std::uint64_t>() : length();
        requests_[head.id] = {1 + messages_++ % 255, 0};
        break;
      case FrameKind::data: {
        head.id = id();
        auto& [number, from] = requests_[head.id];
        payload = bytes_of(number, from, std::max<std::size_t>(length(), 1));
        from += payload.size();
        break;
      }
      case FrameKind::clear:
      case FrameKind::withdrawn: head.id = 1 + in_.choice(7); break;
      case FrameKind::refused:
        head.id = 1 + in_.choice(7);
        head.total = in_.choice(3);
        break;
      case FrameKind::consumed: head.total = in_.flag() ? 48 + length() : in_.number<std::uint64_t>(); break;
      case FrameKind::notice:
      case FrameKind::call:
      case FrameKind::spread:
      case FrameKind::gone: payload.resize(in_.choice(64)); break;
      default: break;
    }
    head.length = static_cast<std::uint32_t>(payload.size());
    if (head.kind == FrameKind::notice) head.channel = static_cast<std::uint32_t>(in_.choice(payload.size()));
    const FrameHead sealed = head;
    if (in_.choice(63) == 0) head.length += in_.number<std::uint32_t>();
    if (head.kind == FrameKind::notice && in_.choice(63) == 0) ++head.channel;
    FrameBytes bytes = to_bytes(head);
    codes_.seal(bytes, sealed, payload);
    if (in_.choice(63) == 0) bytes[in_.choice(frame_head_size - 1)] ^= std::byte{1};
    std::string frame(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    frame.append(reinterpret_cast<const char*>(payload.data()), payload.size());
    write(frame);
  }

  std::uint64_t id() { return requested_ == 0 ? in_.choice(1) : 1 + in_.choice(std::min<std::size_t>(requested_ - 1, UINT8_MAX)); }

  void write(std::string_view bytes) {
    for (int tries = 0; !bytes.empty() && own_ && peer_.is_open() && tries < 1000; ++tries) {
      const ssize_t n = ::send(own_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      pump();
    }
  }

  void pump() {
    for (int i = 0; i < 4; ++i) {
      peer_.pump(base::Clock::now());
      if (own_) heard_.receive(Connection{.fd = own_.get()}, sink_, std::size_t{1} << 20);
    }
  }

  /// Looks at what is done; its memory goes.
  void check_receives() {
    for (Owned& owned : owned_) {
      const Transfer& transfer = *owned.transfer;
      if (!owned.memory || transfer.pending()) continue;
      const std::unique_ptr<std::byte[]> memory = std::move(owned.memory);
      if (owned.is_send || transfer.state.load() != Transfer::State::done || transfer.bytes == 0) continue;
      const std::vector<std::byte> got(memory.get(), memory.get() + transfer.bytes);
      require(got == bytes_of(static_cast<std::size_t>(got.front()), 0, got.size()), "a receive has the bytes of one message");
    }
  }

  Input& in_;
  SharedState shared_;
  std::vector<Owned> owned_;  // goes after the peer, as the memory of tasks that were not given up
  Peer peer_;
  base::FileDescriptor own_;
  FrameCodes codes_{key_of_input};
  FrameReader heard_{"", key_of_peer};
  Heard sink_;
  std::uint64_t requested_ = 0;
  std::size_t messages_ = 0, sent_by_peer_ = 0;
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> requests_;  // the number of each, and how much of it was sent
};

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  Game(in).play();
}

}  // namespace unisono::fuzz
