#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/thread.h"
#include "store/client.h"
#include "store/forwarder.h"
#include "store/server.h"
#include "store/wire.h"

namespace unisono::store {

/// Carries the requests of a server's clients to another store, over one connection. So a host of 64 ranks has one connection to the store of the
/// job, on which many requests travel together, and a value that all of them wait for comes once.
///
/// Requests go in the order in which they came. Those that wait for one key (`get`) are kept here with their deadlines, and the other store is asked
/// for it once. Whoever asks while that question is on its way is answered by another one, which is sent when the first has come back: a value is
/// never older than the request for it. A host so asks at most twice, however many of its ranks wait.
class Relay final : public Forwarder {
 public:
  /// `other` is used by this object alone.
  Relay(std::shared_ptr<Client> other, Owner owner);
  ~Relay() override;

  void forward(std::uint64_t session, std::string_view frame) override;
  void forget(std::uint64_t session) override;

 private:
  using Time = base::Clock::time_point;
  struct Asker {
    std::uint64_t session = 0, request = 0;
    Time expires = Time::max();
  };
  /// Those who wait for a key.
  struct Awaited {
    std::vector<Asker> asked;  ///< before the question on its way was sent
    std::vector<Asker> later;
  };

  /// Ends the sender, and lets the reader end.
  void end();
  void wait_for(const std::string& key, Asker asker);
  void ask_for(const std::string& key);
  void send_requests();
  void expire(Time now, std::vector<std::pair<Asker, std::string>>& expired);
  Time next_expiry() const;
  void take_answers();
  void take(std::string_view answer);
  void take_value(const std::string& key, Status status, std::string_view fields);

  const std::shared_ptr<Client> other_;
  const Owner owner_;
  std::mutex mutex_;  ///< guards the members below; the owner's functions are called without it
  std::condition_variable changed_;
  std::vector<std::string> requests_;                         ///< to be sent
  std::unordered_map<std::uint64_t, Asker> asked_;            ///< by the number of the request there
  std::unordered_map<std::uint64_t, std::string> questions_;  ///< keys, by the number of the request there
  std::map<std::string, Awaited, std::less<>> awaited_;
  std::uint64_t next_ = 1;
  bool stop_ = false;
  base::Thread sender_, reader_;
};

/// Has a server hand the requests of those clients that ask for it on to another store. They see their connections end with the one to that store.
void relay_to(StoreServer& server, std::shared_ptr<Client> other);

}  // namespace unisono::store
