#include "transport/tcp/addresses.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/interruption.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t address_group = base::stable_hash("addresses of the link");  ///< of the notices
constexpr std::size_t bytes_in_a_notice = std::size_t{60} << 10;
constexpr auto look_period = 100ms;
constexpr auto time_to_be_told = 1s;  ///< who waits for a rank that waits for others lets that one tell whom
constexpr const char* key_to_look_at = "link/secret";

/// What has come and was not read yet.
struct Inbox {
  std::mutex mutex;
  std::condition_variable condition;
  std::vector<std::pair<int, std::string>> texts;  ///< with their senders
};

/// Reads entries into the list, and returns true where they are the sender's last.
bool read_entries(std::string_view text, std::vector<std::string>& addresses) {
  base::ByteReader entries(text);
  const bool is_last = entries.get<std::uint8_t>() != 0;
  while (entries.ok() && !entries.rest().empty()) {
    const auto rank = entries.get<std::uint32_t>();
    const std::string_view address = entries.text();
    if (!entries.ok() || rank >= addresses.size() || address.find(' ') == std::string_view::npos)
      throw ProtocolError("a malformed list of addresses");
    addresses[rank] = address;
  }
  return is_last;
}

std::vector<std::string> notices_with(const std::vector<std::string>& addresses) {
  std::vector<std::string> notices;
  base::ByteWriter entries;
  const auto end = [&](bool is_last) {
    base::ByteWriter notice;
    notices.push_back(notice.put(static_cast<std::uint8_t>(is_last ? 1 : 0)).raw(entries.take()).take());
    entries = {};
  };
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    if (addresses[rank].empty()) continue;
    entries.put(static_cast<std::uint32_t>(rank)).text(addresses[rank]);
    if (entries.bytes().size() > bytes_in_a_notice) end(false);
  }
  end(true);
  return notices;
}

}  // namespace

std::vector<std::string> exchange_addresses(Link& link, const Link::Options& options, const WatchTree& tree, std::vector<std::string> addresses,
                                            const base::Deadline& deadline,
                                            const std::function<void(int rank, std::uint64_t group, std::string_view text)>& notify) {
  const int parent = tree.parent(options.rank);
  std::set<int> silent(tree.children(options.rank).begin(), tree.children(options.rank).end());
  const auto inbox = std::make_shared<Inbox>();
  link.listen(address_group, [inbox](int from, std::string_view text) {
    const std::lock_guard lock(inbox->mutex);
    inbox->texts.emplace_back(from, text);
    inbox->condition.notify_one();
  });
  bool has_told_parent = false, is_complete = false;
  while (!is_complete) {
    if (silent.empty() && !std::exchange(has_told_parent, true)) {
      is_complete = parent < 0;
      for (const std::string& notice : parent < 0 ? std::vector<std::string>() : notices_with(addresses)) notify(parent, address_group, notice);
      continue;
    }
    std::unique_lock lock(inbox->mutex);
    inbox->condition.wait_for(lock, look_period, [&] { return !inbox->texts.empty(); });
    const auto texts = std::exchange(inbox->texts, {});
    lock.unlock();
    for (const auto& [from, text] : texts) {
      if (!read_entries(text, addresses)) continue;
      if (from == parent) is_complete = true;
      else silent.erase(from);
    }
    if (!texts.empty()) continue;
    base::check_interruption();
    if (const auto loss = link.lost()) throw PeerFailed(loss->text, {.culprit = loss->peer}, loss->cause);
    static_cast<void>(options.store->try_get(key_to_look_at));  // a watched store throws here if one of the ranks will not come
    const std::vector<int> missing = silent.empty() ? std::vector<int>{parent} : std::vector<int>(silent.begin(), silent.end());
    if (deadline.elapsed() < deadline.timeout() + time_to_be_told) continue;
    throw Timeout(fmt::format("rank {} was connected with rank {}, which did not tell within {} ms where the others are", options.rank,
                              fmt::join(missing, ", "), options.timeout.count()),
                  {}, missing);
  }
  link.listen(address_group, {});
  for (const int child : tree.children(options.rank)) {
    for (const std::string& notice : notices_with(addresses)) notify(child, address_group, notice);
  }
  return addresses;
}

}  // namespace unisono::transport
