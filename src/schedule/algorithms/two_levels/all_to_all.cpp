// all_to_all on two levels: the ranks of a host give each other the blocks that each rail carries, the rails exchange them between the hosts, and
// ranks beyond the rails get their blocks from those that carry them. So a rank sends H-1 messages instead of P-1. With H hosts of L ranks each:
//   rounds   those of the rail's all_to_all_v
//   sent     S (H-1)/H of the S bytes that every rank gives
//   scratch  up to 7 S: the blocks are brought into another order before each exchange
// all_to_all_v has no such form: a rank does not know how much the other ranks of its host send to each rank.
#include "schedule/algorithms/two_levels/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// Returns a length for the choice of the rail's algorithm, the same on all ranks.
std::size_t typical_block(const Problem& problem, const Setting& setting) {
  const std::size_t ranks = largest_share(static_cast<std::size_t>(problem.size), setting.topology->host_count());
  return ranks * largest_share(ranks, setting.topology->rails) * problem.count;
}

/// The steps of one rank. `n` is the length of a block.
class LevelExchange {
 public:
  LevelExchange(const Problem& problem, const Setting& setting, Builder& to)
      : problem_(problem), setting_(setting), to_(to), topology_(*setting.topology), blocks_(problem, setting), n_(problem.count) {}

  void add() {
    const Slice local = exchange_in_host();
    if (blocks_.has_rail()) carried_ = exchange_on_rail(local);
    const Slice by_sender = blocks_.has_charges() ? hand_out() : carried_;
    std::size_t at = 0;
    for (const std::vector<int>& senders : blocks_.hosts()) {
      for (const int sender : senders) to_.copy(problem_.out.part(static_cast<std::size_t>(sender) * n_, n_), by_sender.part(n_ * at++, n_));
    }
    to_.next_wave();
  }

 private:
  std::size_t members() const { return topology_.members.size(); }
  /// Returns the number of the ranks of a host whose blocks a rail carries.
  std::size_t ranks_on(int rail, int host) const {
    const std::size_t size = blocks_.hosts()[static_cast<std::size_t>(host)].size(), rails = static_cast<std::size_t>(topology_.rails);
    return (size - static_cast<std::size_t>(rail) + rails - 1) / rails;
  }
  /// Gives each rank of the host what its rail carries. Returns, by sender of this host and then by host, the blocks of this rank's rail.
  Slice exchange_in_host() {
    const Counts carried = blocks_.carried();
    const std::size_t own = carried[static_cast<std::size_t>(topology_.local)];
    const Slice received = to_.scratch(own * members());
    on_host(problem_, setting_, Operation::all_to_all_v, blocks_.pack(problem_.in, to_), received, carried, -1, to_,
            same(own, static_cast<int>(members())));
    return received;
  }
  /// Returns, by host, by its sender, and by the rank of this host that they are for, the blocks that the rail has brought.
  Slice exchange_on_rail(const Slice& local) {
    const std::size_t own = blocks_.by_host().total();  // of each sender
    std::vector<std::size_t> sent, received;
    const Slice packed = to_.scratch(local.count);
    std::size_t at = 0, before = 0;
    for (int host = 0; host < topology_.host_count(); ++host) {
      const std::size_t part = ranks_on(topology_.local, host) * n_;
      for (std::size_t s = 0; s < members(); ++s) {
        to_.copy(packed.part(at, part), local.part(s * own + before, part));
        at += part;
      }
      before += part;
      sent.push_back(part * members());
      received.push_back(blocks_.hosts()[static_cast<std::size_t>(host)].size() * ranks_on(topology_.local, topology_.host()) * n_);
    }
    to_.next_wave();
    const Counts arriving(received);
    Problem rail = blocks_on_rail(problem_, setting_, Operation::all_to_all_v, packed, to_.scratch(arriving.total()), Counts(sent));
    rail.recv_counts = arriving;
    rail.count = 0;
    rail.typical_block = typical_block(problem_, setting_);
    build(rail, setting_of_rail(setting_), to_);
    return rail.out;
  }
  /// Gives the ranks of this host that have no rail their blocks. Returns those of this rank by sender.
  Slice hand_out() {
    const std::size_t all = static_cast<std::size_t>(problem_.size) * n_, rails = static_cast<std::size_t>(topology_.rails);
    const std::size_t charges = blocks_.has_rail() ? ranks_on(topology_.local, topology_.host()) : 0;
    const Slice packed = to_.scratch(charges * all), received = to_.scratch(all);
    std::vector<std::size_t> sent(members(), 0), arriving(members(), 0);
    for (std::size_t c = 0; c < charges; ++c) {
      for (std::size_t sender = 0; sender < static_cast<std::size_t>(problem_.size); ++sender) {
        to_.copy(packed.part(c * all + sender * n_, n_), carried_.part((sender * charges + c) * n_, n_));
      }
      sent[static_cast<std::size_t>(topology_.local) + c * rails] = all;
    }
    to_.next_wave();
    arriving[static_cast<std::size_t>(topology_.local) % rails] = all;
    on_host(problem_, setting_, Operation::all_to_all_v, packed, received, Counts(sent), -1, to_, Counts(arriving));
    return received;
  }

  const Problem& problem_;
  const Setting& setting_;
  Builder& to_;
  const coordination::GroupTopology& topology_;
  RailBlocks blocks_;
  std::size_t n_;
  Slice carried_ = {};
};

}  // namespace

void build_two_level_all_to_all(const Problem& problem, const Setting& setting, Builder& to) { LevelExchange(problem, setting, to).add(); }

Cost cost_two_level_all_to_all(const Problem& problem, const Setting& setting) {
  const std::size_t all = problem.count * static_cast<std::size_t>(problem.size);
  Problem rail = even_blocks_on_rail(problem, setting, Operation::all_to_all_v);
  rail.count = 0;
  rail.typical_block = typical_block(problem, setting);
  Cost cost = cost_of_levels(rail, setting, 1, all);
  cost.copied += 3 * static_cast<double>(all);
  cost.mean_copied += 3 * static_cast<double>(all);
  cost.scratch += 4 * reserved(all);
  return cost;
}

}  // namespace unisono::schedule::algorithms
