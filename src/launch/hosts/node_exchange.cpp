#include "launch/hosts/node_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "store/requests.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

/// The time between two questions whether the wait should go on.
constexpr auto slice = std::chrono::milliseconds(1000);
/// Texts that are longer together are not written as one value, of which a store takes 8 MiB: every node reads them one by one.
constexpr std::size_t most_together = std::size_t{4} << 20;

/// Returns false where the wait was given up.
bool in_slices(const base::Deadline& deadline, const std::function<bool()>& goes_on,
               const std::function<void(std::chrono::milliseconds at_most)>& attempt) {
  while (goes_on()) {
    try {
      attempt(std::min<std::chrono::milliseconds>(slice, deadline.left()));
      return true;
    } catch (const Timeout&) {
      if (deadline.passed()) throw;
    }
  }
  return false;
}

std::vector<std::string> read_all(Store& store, const std::vector<std::string>& keys) {
  std::vector<std::string> all;
  const auto values = store::try_get_all(store, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!values[i]) throw ProtocolError(fmt::format("the launchers' store has lost \"{}\"", keys[i]));
    all.push_back(*values[i]);
  }
  return all;
}

/// Without texts where they are too long: whoever reads that reads them one by one.
std::string encode(const std::vector<std::string>& all) {
  std::size_t bytes = 0;
  for (const std::string& text : all) bytes += text.size();
  base::ByteWriter together;
  if (bytes > most_together) return together.put(std::uint32_t{0}).take();
  together.put(static_cast<std::uint32_t>(all.size()));
  for (const std::string& text : all) together.text(text);
  return together.take();
}

std::vector<std::string> decode(Store& store, const std::vector<std::string>& keys, std::string_view together) {
  base::ByteReader in(together);
  const auto count = in.get<std::uint32_t>();
  if (in.complete() && count == 0) return read_all(store, keys);
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) all.emplace_back(in.text());
  if (!in.complete() || count != keys.size()) throw ProtocolError("the launchers' store holds texts that are not of all hosts");
  return all;
}

}  // namespace

std::optional<std::string> await_value(Store& store, const std::string& key, const base::Deadline& deadline, const std::function<bool()>& goes_on) {
  std::string value;
  return in_slices(deadline, goes_on, [&](auto at_most) { value = store.get(key, at_most); }) ? std::optional(value) : std::nullopt;
}

std::optional<std::vector<std::string>> gather_texts(Store& store, const TextsOfNodes& texts, int own_node, std::string_view own,
                                                     const base::Deadline& deadline, const std::function<bool()>& goes_on) {
  const std::string place_of_all = texts.prefix + "/all";
  std::vector<std::string> keys;
  for (const int node : texts.nodes) keys.push_back(texts.key(node));
  store.set(texts.key(own_node), own);
  if (own_node != texts.nodes.front()) {
    const auto together = await_value(store, place_of_all, deadline, goes_on);
    return together ? std::optional(decode(store, keys, *together)) : std::nullopt;
  }
  if (!in_slices(deadline, goes_on, [&](auto at_most) { store.wait(keys, at_most); })) return std::nullopt;
  std::vector<std::string> all = read_all(store, keys);
  store.set(place_of_all, encode(all));
  return all;
}

NodeExchange::~NodeExchange() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (Exchange& exchange : exchanges_) exchange.thread.join();
}

void NodeExchange::begin(const std::string& name, const std::vector<int>& nodes, std::string own, Done done) {
  Exchange& exchange = exchanges_.emplace_back(Exchange{.done = std::move(done)});
  exchange.thread = base::Thread("the exchange with other hosts", [this, &exchange, name, nodes, text = std::move(own)] {
    try {
      gather(exchange, name, nodes, text);
    } catch (const std::exception& error) {  // the store is lost, which the launchers' heartbeat sees as well
      base::log(base::LogLevel::debug, error.what());
    }
  });
}

void NodeExchange::gather(Exchange& exchange, const std::string& name, const std::vector<int>& nodes, const std::string& own) {
  const auto goes_on = [this] {
    const std::lock_guard lock(mutex_);
    return !stop_;
  };
  // Ranks may take any time until they come to it.
  auto texts = gather_texts(*store_, {fmt::format("{}/{}", prefix_, name), nodes}, node_, own, base::Deadline(base::longest_timeout), goes_on);
  if (!texts) return;
  const std::lock_guard lock(mutex_);
  exchange.texts = std::move(*texts);
  exchange.is_complete = true;
  notifier_.notify();
}

void NodeExchange::wait_for(PollSet& set) {
  set.add(notifier_.fd(), POLLIN, [this](short) { take(); });
}

void NodeExchange::take() {
  notifier_.clear();
  std::list<Exchange> complete;
  {
    const std::lock_guard lock(mutex_);
    for (auto next = exchanges_.begin(); next != exchanges_.end();) {
      const auto exchange = next++;
      if (exchange->is_complete) complete.splice(complete.end(), exchanges_, exchange);
    }
  }
  for (Exchange& exchange : complete) {
    exchange.thread.join();
    exchange.done(exchange.texts);  // which may begin another
  }
}

}  // namespace unisono::launcher
