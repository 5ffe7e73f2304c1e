#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coordination/group_topology.h"
#include "engines/signature.h"
#include "transport/tcp/link.h"

namespace unisono::coordination {

/// The bytes that travel with the comparison of a call: one contribution of the same length from every rank, or from a single one. All ranks have all
/// contributions when they have agreed. Where they go directly, every rank is alone on its host and sends to each of the others what is for it.
struct Carried {
  enum class Pattern : std::uint8_t {
    to_all,    ///< all ranks get all contributions
    directly,  ///< `own` goes to every other rank, or to the one that `towards` names
    blocks,    ///< directly, block by block: block r of `own` goes to rank r; the last blocks may be shorter than `each`, or empty
  };
  Pattern pattern = Pattern::to_all;
  std::span<const std::byte> own = {};  ///< this rank's contribution; empty where another rank alone contributes
  std::size_t each = 0;                 ///< bytes of a contribution
  int only = -1;                        ///< the rank that contributes alone; -1: every rank does
  int towards = -1;                     ///< directly: the rank that gets contributions alone; -1: every rank does
  const std::byte* all = nullptr;       ///< all contributions, once the ranks have agreed; valid until the next agreement of the group

  const std::vector<std::string>* arrived = nullptr;  ///< where they go directly: by host, the messages that have come; valid as long as `all`

  bool is_direct() const { return pattern != Pattern::to_all; }
  /// Returns the block of `own` that goes to a rank. All ranks contribute as much.
  std::span<const std::byte> block_of(int rank) const;
  /// Returns what of `own` goes directly to another rank.
  std::span<const std::byte> part_for(int rank) const;
  /// Returns the bytes that a rank sends directly to another one.
  std::size_t direct_bytes(int from, int to) const;
  /// Returns what came directly from another rank.
  std::span<const std::byte> from(int rank, const GroupTopology& topology) const;
  std::size_t bytes(const GroupTopology& topology) const {
    return is_direct() ? 0 : only < 0 ? each * static_cast<std::size_t>(topology.size()) : each;
  }
  /// Returns where the contributions of a host begin, and how long they are together.
  std::size_t begin_of_host(int host, const GroupTopology& topology) const;
  std::size_t bytes_of_host(int host, const GroupTopology& topology) const;
  /// Returns a rank's contribution.
  const std::byte* of(int rank, const GroupTopology& topology) const {
    return only < 0 ? all + each * static_cast<std::size_t>(topology.place_of(rank)) : all;
  }
};

/// The way of an exchange's messages.
struct ExchangeRoute {
  transport::CallMail* mail = nullptr;
  std::uint64_t group = 0;                         ///< of the messages
  const std::vector<int>* global_ranks = nullptr;  ///< of the members, in group order
};

/// A message of an exchange: to or from that host, with what the hosts first, first-1, ... contribute, `count` of them modulo the number of hosts.
struct ExchangeMove {
  int host = 0;
  int first = 0, count = 0;
};
/// A part of an exchange: the messages of `sends` are sent, then those of `receives` are waited for.
struct ExchangeRound {
  std::vector<ExchangeMove> sends = {}, receives = {};
};

/// Returns the messages of a host in an exchange among so many, by a tree or by dissemination (Exchange), where all contribute so many bytes
/// together.
std::vector<ExchangeRound> exchange_rounds(int host, int hosts, bool by_tree, std::size_t bytes);
/// Returns the only part of a direct exchange.
ExchangeRound direct_round(int host, int hosts);

/// The memory that an exchange keeps from one call to the next.
struct ExchangeMemory {
  bool is_crowded = false;                                      ///< this rank shares its processor
  std::vector<ExchangeRound> rounds = {}, rounds_of_many = {};  ///< the latter for many bytes
  std::vector<ExchangeRound> direct = {};
  bool is_settled = false;                ///< all hosts have agreed once, and know which rounds they use from then on
  std::vector<std::string> arrived = {};  ///< by host, a message that has not been used yet
  std::vector<std::byte> message = {};
  std::vector<std::byte> all = {};
};

/// The exchange between the first ranks of the hosts in which they learn that all of them have come to the same call, and all contributions to it. A
/// host goes on only with hosts that make the same call, so a message tells that all hosts in its window do. There are two patterns:
///
/// - Dissemination (Hensgen, Finkel, Manber 1988) with Bruck's windows (1997): in a round each host tells `radix - 1` others what it knows, so that
/// the
///   number of hosts that it knows of grows by the factor `radix`. Rounds: log(H) to the base `radix`. Messages of a host: radix - 1 in each round.
///   Bytes sent: a head of 32 bytes in each, and the contributions of all other hosts once.
/// - A tree towards host 0 and back, in which a host speaks for up to `tree_radix` others and itself on each level: 2 (H - 1) messages of all hosts
///   together. It is used where ranks share processors, so that the work of all messages counts instead of the longest chain; and so does each time
///   that a rank waits, which is why the tree is flat: up to `tree_radix` hosts all but the first wait once. (Among 8 ranks on two processors a
///   binomial tree took 1.2 to 1.4 times as long.) More than `few_bytes` come back on a binomial tree, so that not all of them are sent by host 0.
///   All calls have the same way to host 0, which therefore hears of a call that differs. Bytes sent: each host sends what its part of the tree
///   contributes once, and everything to each of its children.
///
/// The first of these is a dissemination. In it the hosts learn whether some of them are crowded, which is why they use the tree afterwards.
///
/// - Directly: each host sends to all others at once. Rounds: 1. Messages of a host: H - 1. It is for data that goes to the others in any case.
///
/// Hosts that make different calls may use different patterns: each host then hears of another call, or waits for a host that does. A host that sends
/// directly tells everybody, and one that uses a tree or a dissemination listens to at least one host that does not.
class Exchange {
 public:
  static constexpr int radix = 4;       ///< of the dissemination
  static constexpr int tree_radix = 8;  ///< a power of two
  static constexpr std::size_t few_bytes = 8192;
  static constexpr int least_hosts_of_tree = 3;
  enum class State { waiting, agreed, differs };

  /// `all` has room for the contributions of all hosts, in the order of hosts, and has those of this host already.
  Exchange(const GroupTopology& topology, const ExchangeRoute& route, ExchangeMemory& memory, std::uint64_t number,
           const engines::Signature& signature, const Carried* carried, std::byte* all);

  /// Goes as far as possible without waiting.
  State advance();
  /// Takes what has come. Returns true where there is something that `advance` has not used.
  bool look();
  /// Returns true for a host that is known to have come.
  bool has_come(int host) const { return has_come_[static_cast<std::size_t>(host)]; }
  /// Marks that the callables of this host's ranks differ. Before the first `advance`.
  void note_callables_differ() { callables_differ_ = true; }
  /// Returns true where the hosts have agreed, but for their callables. All hosts come to the same answer.
  bool callables_differ() const { return callables_differ_; }
  /// Returns the host whose call was found to be another, and that call's signature.
  const std::optional<std::pair<int, engines::Signature>>& differing() const { return differing_; }

 private:
  int hosts() const { return topology_.host_count(); }
  int behind(int host, int by) const { return (host - by + hosts()) % hosts(); }
  bool is_direct() const { return carried_ != nullptr && carried_->is_direct(); }
  const std::vector<ExchangeRound>& rounds() const {
    if (is_direct()) return memory_.direct;
    return carried_ != nullptr && carried_->bytes(topology_) > few_bytes ? memory_.rounds_of_many : memory_.rounds;
  }
  const ExchangeRound& round() const { return rounds()[round_]; }
  bool is_at_end() const { return is_agreed_ || round_ == rounds().size(); }
  int first_rank_of(int host) const { return (*route_.global_ranks)[static_cast<std::size_t>(topology_.leaders[static_cast<std::size_t>(host)])]; }
  /// Puts the head of a message, and the elements that it gathers, into `memory_.message`. Returns the elements that
  /// follow it.
  std::span<const std::byte> prepare(const ExchangeMove& move);
  State receive(const ExchangeMove& move);
  bool receive_missing();
  bool fetch(int host);
  std::string& arrived(int host) { return memory_.arrived[static_cast<std::size_t>(host)]; }
  std::size_t bytes_of(int host) const { return carried_ == nullptr ? 0 : carried_->bytes_of_host(host, topology_); }
  std::byte* memory_of(int host) const { return all_ + carried_->begin_of_host(host, topology_); }

  const GroupTopology& topology_;
  const ExchangeRoute& route_;
  ExchangeMemory& memory_;
  std::uint64_t number_;
  engines::Signature signature_;
  const Carried* carried_;
  std::byte* all_;
  bool some_crowded_;      ///< as far as this host knows
  bool callables_differ_;  ///< as far as this host knows
  std::size_t round_ = 0;
  bool has_begun_ = false;  ///< the messages of this round are sent
  bool is_agreed_ = false;
  std::vector<std::size_t> missing_;  ///< the receives of this round that are waited for
  std::vector<bool> has_come_;        ///< by host
  std::optional<std::pair<int, engines::Signature>> differing_;
};

}  // namespace unisono::coordination
