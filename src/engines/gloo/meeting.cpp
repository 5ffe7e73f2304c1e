#include "engines/gloo/meeting.h"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <gloo/rendezvous/store.h>
#include <gloo/types.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <system_error>

#include "unisono/error.h"

namespace unisono::engines {
namespace {

namespace tcp = gloo::transport::tcp;

using Token = std::array<char, 16>;

std::vector<Token> random_tokens(int count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (Token& token : tokens) {
    if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
      throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return tokens;
}

/// The group's store as Gloo's store. Gloo's ports accept any process, but only members can read the store. So each rank's addresses come with a
/// token for every peer, by which that peer recognises this rank on the connection.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(unisono::Store& store, int rank, int size, Clock::time_point deadline)
      : store_(store), rank_(rank), deadline_(deadline), tokens_(random_tokens(size)), expected_(static_cast<std::size_t>(size)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    std::string value(data.begin(), data.end());
    if (is_rank(key)) {
      for (const Token& token : tokens_) value.append(token.data(), token.size());
    }
    store_.set(key, value);
  }

  std::vector<char> get(const std::string& key) override {
    std::string value = store_.get(key, left());
    if (is_rank(key)) {
      const std::size_t peer = std::stoul(key);
      const std::size_t all = tokens_.size() * sizeof(Token);
      if (peer >= tokens_.size() || value.size() < all)
        throw ProtocolError("the store's entry \"" + key + "\" of a gloo group is not one of its members'");
      std::memcpy(expected_[peer].data(), value.data() + value.size() - all + static_cast<std::size_t>(rank_) * sizeof(Token), sizeof(Token));
      value.resize(value.size() - all);
    }
    return {value.begin(), value.end()};
  }

  void wait(const std::vector<std::string>& keys) override { store_.wait(keys, left()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

  /// Returns, by rank, the token that this rank sends to it.
  std::vector<Token>& tokens() { return tokens_; }
  /// Returns the token that must come from a rank.
  const Token& expected(int peer) const { return expected_[static_cast<std::size_t>(peer)]; }

 private:
  // The key of a rank's addresses is its number.
  static bool is_rank(const std::string& key) {
    return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  }
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()), std::chrono::milliseconds(0));
  }

  unisono::Store& store_;
  const int rank_;
  const Clock::time_point deadline_;
  std::vector<Token> tokens_;
  std::vector<Token> expected_;
};

/// Blocks all signals in this thread, and in the threads that it starts, during its lifetime.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Gloo's device, which has the thread; it makes our meshes.
class NetworkDevice final : public tcp::Device {
 public:
  NetworkDevice(const tcp::attr& attributes, Clock::time_point deadline) : tcp::Device(attributes), deadline_(deadline) {}

  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override {
    auto mesh = std::make_shared<Mesh>(shared_from_this(), rank, size, deadline_);
    mesh_ = mesh;
    return mesh;
  }
  std::shared_ptr<Mesh> mesh() const { return mesh_.lock(); }

 private:
  const Clock::time_point deadline_;
  std::weak_ptr<Mesh> mesh_;  // keeps this device
};

tcp::attr attributes_of(const std::string& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (const int problem = ::getaddrinfo(address.c_str(), nullptr, &hints, &found); problem != 0) {
    throw BackendUnavailable("gloo cannot use the address \"" + address + "\": " + ::gai_strerror(problem));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  tcp::attr attributes;
  attributes.ai_family = found->ai_family;
  attributes.ai_socktype = SOCK_STREAM | SOCK_CLOEXEC;
  attributes.ai_protocol = 0;
  std::memset(&attributes.ai_addr, 0, sizeof attributes.ai_addr);
  std::memcpy(&attributes.ai_addr, found->ai_addr, found->ai_addrlen);
  attributes.ai_addrlen = static_cast<int>(found->ai_addrlen);
  return attributes;
}

constexpr std::uint8_t token_slot = 0x55;  // used by no collective of Gloo

/// Sends every rank the token that stood beside this rank's address, and checks those received.
void show_tokens(gloo::Context& context, GlooStore& board) {
  std::vector<Token> shown(board.tokens().size());
  const std::size_t bytes = shown.size() * sizeof(Token);
  const auto in = context.createUnboundBuffer(board.tokens().data(), bytes);
  const auto out = context.createUnboundBuffer(shown.data(), bytes);
  const std::uint64_t slot = gloo::Slot::build(token_slot, 0);
  for (int r = 0; r < context.size; ++r) {
    if (r == context.rank) continue;
    const std::size_t offset = static_cast<std::size_t>(r) * sizeof(Token);
    out->recv(r, slot, offset, sizeof(Token));
    in->send(r, slot, offset, sizeof(Token));
  }
  for (int i = 1; i < context.size; ++i) {
    in->waitSend();
    out->waitRecv();
  }
  for (int r = 0; r < context.size; ++r) {
    if (r != context.rank && shown[static_cast<std::size_t>(r)] != board.expected(r)) {
      throw ProtocolError("the process that connected to gloo's port in the place of rank " + std::to_string(r) + " does not belong to the job",
                          {.culprit = r, .hint = "see that only the job's hosts reach its ports"});
    }
  }
}

void connect(Meeting& meeting, const EngineOptions& options, Clock::time_point deadline) {
  std::shared_ptr<NetworkDevice> network;
  {
    const NoSignals in_gloos_thread;
    network = std::make_shared<NetworkDevice>(attributes_of(options.address), deadline);
  }
  auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size());
  GlooStore board(*options.store, options.rank, options.size(), deadline);
  std::shared_ptr<gloo::transport::Device> device = network;
  context->connectFullMesh(board, device);
  meeting.mesh = network->mesh();
  meeting.context = std::move(context);
  show_tokens(*meeting.context, board);
  meeting.mesh->set_connected();
}

}  // namespace

std::string text_of(const std::exception& error) {
  std::string text = error.what();
  if (const std::size_t end = text.find("] "); text.starts_with("[/") && end != std::string::npos) text.erase(0, end + 2);
  return text;
}

Meeting meet(const EngineOptions& options) {
  const Clock::time_point deadline = Clock::now() + options.timeout;
  const auto fail = [&](const std::exception& error) {
    const ErrorInfo info{.operation = "initialize", .group = options.group_name, .rank = options.rank};
    if (Clock::now() >= deadline) {
      throw Timeout("gloo did not connect within " + std::to_string(options.timeout.count()) + " ms: " + text_of(error), info);
    }
    throw BackendUnavailable("gloo cannot connect the group from " + options.address + ": " + text_of(error), info);
  };
  Meeting meeting;
  try {
    connect(meeting, options, deadline);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(error);
  }
  return meeting;
}

}  // namespace unisono::engines
