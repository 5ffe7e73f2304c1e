// The store's protocol, as a server has it with two clients at once, which know its token. The input says what each of them sends: requests, several
// in one packet, malformed ones, frames that somebody on the way has changed, and ends of connections. A model on a Table says what each of them must
// get: every answer is the right one, a client that is refused changes nothing for the other, whatever waits is answered when its keys are there, and
// nothing is answered that was not asked.
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "input.h"
#include "store_client.h"

namespace unisono::fuzz {
namespace {

using store::Op;
using store::Status;
using store::Writer;

const store::ServerOptions options{
    .token = token, .limits = {.key_bytes = 40, .value_bytes = 200, .keys = 24, .total_bytes = 4096}, .most_waiting = 4, .most_waiting_bytes = 256};
constexpr std::size_t most_bequests = 16, most_missing_named = 64;

struct Answer {
  Status status = Status::ok;
  std::string fields = {};
};
using Answers = std::map<std::uint64_t, Answer>;

struct Parked {
  std::size_t client = 0;
  std::uint64_t request = 0;
  bool wants_value = false, is_expired = false;
  std::vector<std::string> keys = {};
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string& key : keys) sum += sizeof key + key.size();  // NOLINT(bugprone-sizeof-container): as the server counts
    return sum;
  }
};

/// A client, and what the model expects it to get.
struct Side {
  std::unique_ptr<StoreClient> client;
  Answers expected = {};
  std::vector<std::pair<std::string, std::string>> will = {};
};

class Game {
 public:
  explicit Game(Input& in) : in_(in), server_(options), listening_(listen_at(server_)) {}

  void play() {
    for (std::size_t i = 0; i < sides_.size(); ++i) join(i);
    while (in_.has_more() && turns_++ < 64) turn(in_.choice(1));
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      std::string packet = seal(i, request(Op::num_keys));
      sides_[i].expected[last_request_] = {Status::ok, number(table_.size())};
      settle(i, packet);
    }
    require(server_.counts().keys == table_.size() && server_.counts().waiting == parked_.size(), "the server holds what the model does");
  }

 private:
  void join(std::size_t i) {
    Side& side = sides_[i];
    side = {};
    side.client = in_.choice(3) == 0 ? StoreClient::connect(listening_) : StoreClient::adopt(server_);
  }

  static std::string number(std::uint64_t value) { return base::ByteWriter().put(value).take(); }
  static std::string text(std::string_view value) { return base::ByteWriter().text(value).take(); }
  std::string key() { return in_.choice(15) == 0 ? in_.text() : std::string(1 + in_.choice(1), static_cast<char>('a' + in_.choice(3))); }
  std::string value() { return in_.choice(3) == 0 ? std::to_string(in_.number<std::int64_t>()) : in_.text(); }
  Writer request(Op op) { return Writer(op, ++last_request_); }
  std::string seal(std::size_t i, Writer writer) { return sides_[i].client->seal(writer.finish()); }

  void turn(std::size_t i) {
    switch (in_.choice(15)) {
      case 0: return hang_up(i);
      case 1: return malformed(i);
      case 2: return changed(i);
      default: break;
    }
    std::string packet;
    for (std::size_t requests = 1 + in_.choice(3); requests > 0; --requests) packet += ask(i);
    settle(i, packet);
  }

  /// Returns a request, and does in the model what it does in the server.
  std::string ask(std::size_t i) {
    static constexpr Op ops[] = {Op::set,         Op::get,   Op::try_get,  Op::add,  Op::wait,
                                 Op::compare_set, Op::erase, Op::num_keys, Op::will, Op::try_get_all};
    const Op op = ops[in_.choice(std::size(ops) - 1)];
    Writer out = request(op);
    Answer answer;
    const bool is_refused = refuses<InvalidArgument>([&] { answer = carry_out(i, op, out); });
    if (is_refused) answer = {Status::invalid, {}};
    if (answer.status != Status::challenge) sides_[i].expected[last_request_] = answer;  // of those that are parked the answer comes later
    return seal(i, std::move(out));
  }

  Answer carry_out(std::size_t i, Op op, Writer& out) {
    if (op == Op::get || op == Op::wait) return park(i, op, out);
    if (op == Op::num_keys) return {Status::ok, number(table_.size())};
    if (op == Op::will) return leave_will(i, out);
    if (op == Op::try_get_all) return read_all(out);
    const std::string name = key();
    out.text(name);
    const std::string* const now = table_.find(name);
    if (op == Op::try_get) return now == nullptr ? Answer{Status::absent} : Answer{Status::ok, text(*now)};
    if (op == Op::erase) return {Status::ok, number(table_.erase(name) ? 1 : 0)};
    if (op == Op::add) {
      const auto amount = in_.number<std::int64_t>();
      out.integer(static_cast<std::uint64_t>(amount));
      return {Status::ok, number(static_cast<std::uint64_t>(table_.add(name, amount)))};
    }
    const std::string given = value();
    out.text(given);
    if (op == Op::set) {
      table_.set(name, given);
      return {};
    }
    const std::string desired = value();
    out.text(desired);
    return {Status::ok, text(table_.compare_set(name, given, desired))};
  }

  Answer read_all(Writer& out) {
    const std::size_t count = 1 + in_.choice(7);
    std::string values = number(count);
    out.integer(count);
    for (std::size_t k = 0; k < count; ++k) {
      const std::string name = key();
      out.text(name);
      const std::string* const now = table_.find(name);
      values += number(now == nullptr ? 0 : 1) + text(now == nullptr ? std::string_view() : *now);
    }
    return {Status::ok, values};
  }

  Answer leave_will(std::size_t i, Writer& out) {
    decltype(Side::will) will(in_.choice(most_bequests + 1));
    out.integer(will.size());
    for (auto& [name, given] : will) {
      name = key();
      given = value();
      out.text(name).text(given);
    }
    if (will.size() > most_bequests) return {Status::invalid};
    for (const auto& [name, given] : will) store::Table::check(options.limits, name, given);
    sides_[i].will = std::move(will);
    return {};
  }

  Answer park(std::size_t i, Op op, Writer& out) {
    Parked parked{.client = i, .request = last_request_, .wants_value = op == Op::get, .is_expired = in_.choice(3) == 0};
    out.integer(parked.is_expired ? static_cast<std::uint64_t>(-std::int64_t{in_.number<std::uint8_t>()})
                                  : std::uint64_t{1} << (32 + in_.choice(31)) >> 1);
    const std::size_t count = op == Op::get ? 1 : in_.choice(5);
    if (op == Op::wait) out.integer(count);
    for (std::size_t k = 0; k < count; ++k) out.text(parked.keys.emplace_back(key()));
    if (is_complete(parked)) return {Status::ok, parked.wants_value ? text(*table_.find(parked.keys.front())) : std::string()};
    std::size_t waiting = 0, bytes = 0;
    for (const Parked& each : parked_) {
      if (each.client != i) continue;
      ++waiting;
      bytes += each.bytes();
    }
    if (waiting >= options.most_waiting || bytes + parked.bytes() > options.most_waiting_bytes) return {Status::invalid};
    parked_.push_back(std::move(parked));
    return {Status::challenge};
  }

  bool is_complete(const Parked& parked) const {
    return std::ranges::all_of(parked.keys, [&](const std::string& each) { return table_.find(each) != nullptr; });
  }

  /// Acts as the server when it has handled all that has come: it answers those whose time is over, and those whose keys are there.
  void wake() {
    std::erase_if(parked_, [&](const Parked& parked) {
      Answers& expected = sides_[parked.client].expected;
      if (parked.is_expired) {
        std::string missing;
        std::size_t named = 0;
        for (const std::string& each : parked.keys) {
          if (table_.find(each) == nullptr && named++ < most_missing_named) missing += text(each);
        }
        expected[parked.request] = {Status::expired, missing};
        return true;
      }
      if (!is_complete(parked)) return false;
      expected[parked.request] = {Status::ok, parked.wants_value ? text(*table_.find(parked.keys.front())) : std::string()};
      return true;
    });
  }

  void settle(std::size_t i, const std::string& packet) {
    sides_[i].client->send(packet);
    wake();
    for (Side& side : sides_) hear_all(side);
  }

  static void hear_all(Side& side) {
    while (!side.expected.empty()) {
      const StoreClient::Heard heard = side.client->hear();
      const auto found = side.expected.find(heard.request);
      require(found != side.expected.end(), "an answer is to a request");
      require(found->second.status == heard.status, "an answer has the right status");
      require(heard.status == Status::invalid || found->second.fields == heard.fields, "an answer has the right content");
      side.expected.erase(found);
    }
  }

  /// The connection ends: what waited there is forgotten, and what it has left behind is set.
  void hang_up(std::size_t i) {
    Side& side = sides_[i];
    side.client.reset();
    require(eventually([&] { return server_.counts().connections == sides_.size() - 1; }), "the server notices the end of a connection");
    std::erase_if(parked_, [&](const Parked& parked) { return parked.client == i; });
    for (const auto& [name, given] : side.will) {
      if (table_.find(name) == nullptr) refuses<InvalidArgument>([&] { table_.set(name, given); });
    }
    side = {};
    wake();
    for (Side& other : sides_) hear_all(other);
    join(i);
  }

  void refused(std::size_t i, const std::string& packet) {
    sides_[i].client->send(packet);
    require(sides_[i].client->hear().status == Status::refused, "a client that breaks the protocol is refused");
    hang_up(i);
  }

  /// A request of no kind, one that ends within its head, or one with something behind its end.
  void malformed(std::size_t i) {
    constexpr std::uint8_t first_unknown = static_cast<std::uint8_t>(Op::relay) + 1;
    const std::size_t way = in_.choice(2);
    const auto known = static_cast<Op>(static_cast<std::size_t>(Op::set) +
                                       in_.choice(static_cast<std::size_t>(Op::try_get_all) - static_cast<std::size_t>(Op::set)));
    const auto unknown = static_cast<Op>(first_unknown + in_.choice(UINT8_MAX - first_unknown));
    Writer out(way == 0 ? unknown : known, ++last_request_);
    std::string frame = out.text("k").text("v").finish() + "x";
    if (way == 1) frame.resize(store::frame_head + in_.choice(8));
    if (way == 0) frame += in_.text();
    base::store_little_endian(static_cast<std::uint32_t>(frame.size() - store::frame_head), frame.data());
    refused(i, sides_[i].client->seal(frame));
  }

  void changed(std::size_t i) {
    std::string packet = seal(i, request(Op::num_keys));
    if (!sides_[i].client->has_codes()) return hang_up(i);  // nobody stands between two ends of one host
    packet[in_.number<std::uint8_t>() % packet.size()] ^= static_cast<char>(1 << in_.choice(7));
    refused(i, packet);
  }

  Input& in_;
  store::StoreServer server_;
  base::SocketAddress listening_;
  store::Table table_{options.limits};
  std::vector<Parked> parked_;
  std::array<Side, 2> sides_;
  std::uint64_t last_request_ = 0;
  int turns_ = 0;
};

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  Game(in).play();
}

}  // namespace unisono::fuzz
