#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/native/native.h"
#include "backends/spanning/place.h"
#include "engine/cooperative/ballots.h"
#include "engine/cooperative/signature.h"
#include "unisono/backend.h"

namespace unisono::backends {

/// What the first ranks of the hosts tell each other of the calls of one group: a short text for each call, by its number among the group's
/// collectives, and who is being waited for. Filled by whoever polls the Link.
class Statements {
 public:
  struct Statement {
    bool agrees = true;  // all ranks of that host call the same, namely this:
    engine::Signature signature;
    std::string label;
    std::vector<engine::Ballot> ballots;  // where they do not agree
  };
  static std::string encode(std::uint64_t call, const Statement& statement);
  static std::string encode_waiting(std::uint64_t call, const std::vector<int>& ranks);

  /// What has come from the first rank of a host.
  void take(int host, std::string_view text);
  const Statement* of(int host, std::uint64_t call);
  /// Whom that host waits for in that call, if it has said.
  std::optional<std::vector<int>> awaited_by(int host, std::uint64_t call);
  /// Nothing before this call is asked for any more.
  void forget_before(std::uint64_t call);

 private:
  std::mutex mutex_;
  std::uint64_t oldest_ = 0;
  std::map<std::pair<std::uint64_t, int>, Statement> statements_;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> awaited_;
};

/// What an agreement works with.
struct AgreementParts {
  const Place* place = nullptr;
  Native* host = nullptr;  // null: this rank is alone on its host
  Statements* statements = nullptr;
  std::function<void(int rank, std::string text)> tell = {};  // a notice to a rank on another host
  std::function<void()> poll = {};
  std::function<void()> all_but_told = {};  // called when this rank has nothing to hear from other hosts any more: who leaves now has done its part
};

/// All ranks of several hosts compare what they are about to call: those of a host among each other, then the first of each host with the
/// others, one short message to each, and what these found goes to all ranks of the host. A rank for which it is over knows that all ranks have come
/// and agree. Latency: one exchange of lines in the host, one message between hosts, one more exchange in the host.
///
/// A difference is a Mismatch on every rank, and the same ranks are to blame on all of them (see ballots.h): the first rank of a host on which they
/// differ tells every rank of the other hosts what each of its own has called, and is told by their first ranks what they have, as are its
/// neighbours; each rank of that host decides by itself then, so that none of them waits for another that has not come. Nobody waits longer than
/// ballot_time() for what others have called: what is known by then decides.
std::unique_ptr<Task> start_agreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call);

}  // namespace unisono::backends
