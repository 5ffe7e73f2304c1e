// The records and the list of members that the ranks of a job read from its store. Any bytes are refused with ProtocolError or read, at a cost that
// their number bounds; what is encoded comes back.
#include "rendezvous/record.h"

#include "input.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using rendezvous::MemberList;
using rendezvous::Record;

std::string field(Input& in) {
  std::string text = in.text();
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return in.choice(3) == 0 ? "0123abcd-0123-4567-89ab-" + text.substr(0, 40) : text;
}

void check_encoded(Input& in) {
  std::vector<Record> records;
  std::vector<std::pair<std::string, std::string>> hosts;
  while (in.has_more() && records.size() < 64) {
    if (hosts.empty() || in.choice(3) == 0) {
      std::string name = field(in);
      hosts.emplace_back(std::move(name), field(in));
    }
    const auto& [host, machine] = hosts[in.choice(hosts.size() - 1)];
    const int rank = static_cast<int>(records.size());
    Record& record = records.emplace_back();
    record.member = {rank, in.number<int>() & 0x7FFFFFFF, host, machine};
    record.nonce = std::to_string(in.number<std::uint16_t>()) + "/" + std::to_string(rank);
  }
  const MemberList list(MemberList::encode(records));
  require(list.members().size() == records.size(), "all members come back");
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto &then = records[i].member, &now = list.members()[i];
    require(now.rank == then.rank && now.pid == then.pid && now.host == then.host && now.machine == then.machine, "a member comes back");
    require(list.rank_of(records[i]) == then.rank, "a member finds its rank");
    require(rendezvous::encode(rendezvous::decode(rendezvous::encode(records[i]))) == rendezvous::encode(records[i]), "a record comes back");
  }
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  if (in.flag()) return check_encoded(in);
  const std::string_view text = in.rest();
  refuses<ProtocolError>([&] { rendezvous::decode(text); });
  refuses<ProtocolError>([&] {
    const MemberList list(text);
    require(list.members().size() <= text.size(), "no list has more members than bytes");
    for (const auto& member : list.members()) require(member.pid >= 0, "a process has a number");
    list.rank_of({.member = {.rank = -1, .pid = 1, .host = "a", .machine = "b"}, .nonce = "n"});
  });
}

}  // namespace unisono::fuzz
