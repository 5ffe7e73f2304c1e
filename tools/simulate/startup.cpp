// The start of a job: how often the store is asked, how many bytes leave it, how many connections each rank makes. The store's server is one thread,
// so its requests follow each other; what a rank asks for one after the other takes a round trip each. A phase ends for all ranks together.
#include "simulate/startup.h"

#include <algorithm>
#include <cmath>

namespace unisono::simulate {
namespace {

constexpr double us_in_s = 1e6, ns_in_us = 1000;
// Requests of a rank that are no more with more ranks (rendezvous/join.cpp, context/engines.cpp, coordination/host_ranks.cpp).
constexpr double requests_to_join = 6, requests_about_engines = 2, requests_on_host = 8;
constexpr double trips_of_connection = 3;  // for the connection, for greeting and challenge, and for the proofs

/// A phase as the sum of parts, of which it names the largest.
class Sum {
 public:
  Sum& add(double us, std::string_view part) {
    us_ += us;
    if (us > largest_) {
      largest_ = us;
      part_ = part;
    }
    return *this;
  }
  Phase phase(std::string_view name) const { return {name, us_ / us_in_s, part_}; }

 private:
  double us_ = 0, largest_ = 0;
  std::string_view part_;
};

class Start {
 public:
  Start(const Call& call, const Parameters& parameters, const StartupCosts& costs, Design design, const Outcome& barrier)
      : parameters_(parameters),
        costs_(costs),
        design_(design),
        barrier_(barrier),
        ranks_(call.ranks),
        hosts_(call.hosts()),
        per_host_(call.ranks_per_host),
        trip_us_(2 * (parameters.network.latency_us + 2 * parameters.network.overhead_us)),
        local_trip_us_(2 * (parameters.host.latency_us + 2 * parameters.host.overhead_us)) {}

  Startup all() {
    const bool by_store = design_ == Design::present;
    result_.phases.push_back(by_store ? join_by_store() : join_by_tree());
    result_.phases.push_back(exchange_on_hosts());
    if (by_store) result_.phases.push_back(agree_on_engines());
    if (by_store) result_.phases.push_back(learn_addresses());
    result_.phases.push_back(connect());
    result_.phases.push_back({"first barrier", barrier_.us / us_in_s, "its rounds"});
    result_.memory_bytes = result_.connections * costs_.connection_bytes + ranks_ * costs_.member_bytes;
    const double beats = design_ == Design::on_demand ? std::min(costs_.fan_out + 1.0, result_.connections) : result_.connections;
    result_.heartbeats = beats / costs_.heartbeat_period_s;
    result_.heartbeat_work = 2 * result_.heartbeats * costs_.heartbeat_us / us_in_s;
    return result_;
  }

 private:
  double others() const { return ranks_ - per_host_; }
  double port() const { return parameters_.bytes_per_us(); }
  double requests(double count) {
    result_.requests += count;
    return count * costs_.request_us;
  }
  double bytes_of_store(double bytes) {
    result_.store_bytes += bytes;
    return bytes / port();
  }
  /// Every rank looks for the host of each member among those that it knows.
  double find_hosts() const { return ranks_ * hosts_ * costs_.compare_ns / ns_in_us; }

  // The process that completes the job reads every seat, one after the other; then everybody reads the list of all.
  Phase join_by_store() {
    return Sum()
        .add(ranks_ * costs_.accept_us, "the store's connections")
        .add(requests(ranks_ * requests_to_join), "requests to the store")
        .add(requests(ranks_) + ranks_ * trip_us_, "the last rank, which reads every seat")
        .add(bytes_of_store(ranks_ * ranks_ * costs_.record_bytes), "the list of members, once for each rank")
        .add(ranks_ * costs_.parse_us, "reading the list")
        .add(find_hosts(), "comparing the names of hosts")
        .phase("join");
  }

  // A host's first rank sends what its ranks say in one request, which tells it its parent; the list comes down the tree.
  Phase join_by_tree() {
    const double depth = hosts_ > 1 ? std::ceil(std::log(hosts_) / std::log(costs_.fan_out)) : 0;
    const double list = hosts_ * costs_.record_bytes + ranks_ * 8;
    const double children = std::min<double>(costs_.fan_out, hosts_ - 1);
    return Sum()
        .add(hosts_ * costs_.accept_us, "the store's connections")
        .add(requests(hosts_) + bytes_of_store(hosts_ * costs_.record_bytes + children * list), "requests to the store")
        .add(children * costs_.connect_us + trips_of_connection * trip_us_, "the tree's connections")
        .add(depth * (trip_us_ / 2 + children * list / port()), "the list of members, down the tree")
        .add(hosts_ * costs_.parse_us, "reading the list")
        .phase("join");
  }

  Phase exchange_on_hosts() {
    if (per_host_ < 2) return {"host exchange", 0, "one rank on each host"};
    if (design_ == Design::present) return Sum().add(requests(ranks_ * requests_on_host), "requests to the store").phase("host exchange");
    return Sum().add(per_host_ * (local_trip_us_ + costs_.request_us), "the host's first rank").phase("host exchange");
  }

  Phase agree_on_engines() {
    return Sum()
        .add(requests(ranks_ * requests_about_engines), "requests to the store")
        .add(requests(ranks_) + ranks_ * local_trip_us_, "rank 0, which reads every rank's answer")
        .phase("choice of engines");
  }

  Phase learn_addresses() {
    const double asked = ranks_ * others() / 2;  // the lower rank of each pair connects
    const double server = requests(3 * ranks_ + asked) + ranks_ * ranks_ * costs_.key_us + bytes_of_store(ranks_ * ranks_ * costs_.key_bytes);
    const double one_rank = others() * trip_us_;
    return server > one_rank ? Sum().add(server, "requests to the store").phase("addresses")
                             : Sum().add(one_rank, "rank 0, which asks for every address").phase("addresses");
  }

  Phase connect() {
    if (design_ != Design::on_demand) {
      result_.connections = others();
      return Sum()
          .add(others() * costs_.connect_us + trips_of_connection * trip_us_, "a rank's work for its connections")
          .add(others() * others() * costs_.attempt_us, "a rank's looks at all of its attempts")
          .phase("connections");
    }
    const double used = barrier_.connections;
    result_.connections = used + std::min<double>(costs_.fan_out, hosts_ - 1) + (hosts_ > 1 ? 1 : 0);
    return Sum()
        .add(used * costs_.connect_us, "a rank's work for its connections")
        .add(barrier_.rounds * trips_of_connection * trip_us_, "round trips of each round's first messages")
        .phase("connections");
  }

  const Parameters& parameters_;
  const StartupCosts& costs_;
  const Design design_;
  const Outcome& barrier_;
  const double ranks_, hosts_, per_host_, trip_us_, local_trip_us_;
  Startup result_;
};

}  // namespace

double Startup::seconds() const {
  double sum = 0;
  for (const Phase& phase : phases) sum += phase.seconds;
  return sum;
}

Startup start_up(const Call& call, const Parameters& parameters, const StartupCosts& costs, Design design, const Outcome& barrier) {
  return Start(call, parameters, costs, design, barrier).all();
}

}  // namespace unisono::simulate
