#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launch/hosts/host_texts.h"
#include "store/client.h"

namespace unisono::launcher {

// How the launchers of a job of MIN to MAX hosts meet in the store of host 0, and how further ones come in while it runs.
//
//   a launcher   takes a ticket, whose number is its own from then on, writes what it brings, and waits for an answer
//   host 0       answers the first ones together, once MAX have come, or MIN and no more for a while; later ones while fewer than MAX are there
//
// A number is used once: a launcher that comes back has another, and its ranks are in other places of the job.

/// The offer of a launcher that asks for a place.
struct HostOffer {
  int ranks = 0, least = 0;  ///< -n
  std::string where = {};    ///< "host:pid"
};
std::string encode_offer(const HostOffer& offer);
/// Throws ProtocolError if the text is no offer.
HostOffer decode_offer(const std::string& text);

/// The answer to a launcher that is taken in. `world_size`: as many ranks as have been started by then, places that are empty now as well. The number
/// of the host and the address are not told.
std::string encode_welcome(const JobTerms& welcome);
/// Throws ProtocolError if the text is no welcome.
JobTerms decode_welcome(const std::string& text);

/// The key of the hosts of the job.
inline constexpr const char* hosts_key = "launchers/hosts";

/// Takes a number.
int take_ticket(store::Client& store);
/// Asks host 0 for a place. Throws InvalidArgument if it refuses, Timeout if it does not answer, PeerFailed if it ends first.
JobTerms ask_for_place(store::Client& store, int number, const HostOffer& offer, const base::Deadline& deadline);

/// Takes in the launchers of a job of MIN to MAX hosts; on host 0.
class Admission {
 public:
  struct Parts {
    std::shared_ptr<store::Client> store;
    int least_hosts = 1, most_hosts = 1;
    HostOffer own = {};
    JobTerms terms = {};  ///< for all: least_ranks, max_restarts, master_port, job_name
  };
  Admission(Parts parts, HostRoster& hosts);

  /// Waits until enough launchers have come, and takes them in. `last_call`: how long the least number of them waits for more. Throws Timeout.
  void gather(const base::Deadline& deadline, std::chrono::milliseconds last_call);
  /// Returns how many launchers wait or have come so far.
  int present() const { return hosts_.present(); }
  /// Takes in or refuses those that have come meanwhile. Returns what has happened, as sentences.
  std::vector<std::string> admit();
  /// No launcher is taken in any more.
  void close();
  /// Tells all launchers what hosts there are.
  void publish();
  int world_size() const { return next_rank_; }

 private:
  /// Returns the next launcher that asks, and what it brings. Refuses those that bring something else than this one.
  std::optional<JobHost> next_offer();
  void answer(int host, const std::string& text);
  void welcome(const JobHost& host);

  const Parts parts_;
  HostRoster& hosts_;
  int next_rank_;
  std::set<int> answered_;
  std::mutex mutex_;  // guards the next one, and that nobody comes in once it is set
  bool is_closed_ = false;
};

}  // namespace unisono::launcher
