// The launchers of several hosts tell each other in the job's store how their ranks ended, what troubles them, and in jobs whose hosts come and go
// who is there. A text is refused, or read: when it is written again it is read as the same, and the cause of the job's end is one of its ranks.
#include "input.h"
#include "launch/hosts/admission.h"
#include "launch/hosts/host_texts.h"
#include "launch/hosts/nodes.h"
#include "launch/process/first_cause.h"
#include "unisono/error.h"

namespace unisono::fuzz {
namespace {

using launcher::RankEnd;

void check_ends(const std::vector<RankEnd>& ends) {
  const std::string text = launcher::encode_ends(ends);
  require(launcher::encode_ends(launcher::decode_ends(text)) == text, "the ends of ranks come back");
  for (const RankEnd& end : ends) {
    end.describe();
    require(end.exit_code() >= 0 || end.code < 0, "a code is a code");
    launcher::is_consequence(end);
  }
  const auto cause = launcher::first_cause(ends);
  require(!cause || *cause < ends.size(), "the cause is one of the ranks");
  launcher::fatal_mismatch(ends);
}

std::vector<RankEnd> made(Input& in) {
  static constexpr const char* statuses[] = {"", "poisoned ", "mismatch ", "mismatch 1 2 ", "running "};
  std::vector<RankEnd> ends;
  while (in.has_more() && ends.size() < 16) {
    RankEnd end;
    end.rank = static_cast<int>(ends.size());
    end.pid = in.number<int>();
    end.how = static_cast<RankEnd::How>(in.choice(static_cast<std::size_t>(RankEnd::How::signaled)));
    end.code = in.number<std::uint8_t>();
    end.dumped_core = in.flag();
    end.ended_by_launcher = in.choice(7) == 0;
    end.left_without_finalize = in.choice(7) == 0;
    end.is_survived = in.choice(7) == 0;
    end.is_well = in.choice(7) == 0;
    end.order = in.choice(7);
    end.host = in.flag() ? "a" : "";
    end.status = statuses[in.choice(std::size(statuses) - 1)] + in.text(40);
    ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  if (in.flag()) return check_ends(made(in));
  const std::string text(in.rest());
  if (const auto trouble = launcher::Trouble::parse(text)) {
    const std::string again = trouble->text();
    const auto second = launcher::Trouble::parse(again);
    require(second && second->text() == again, "a trouble comes back");
  }
  refuses<ProtocolError>([&] { check_ends(launcher::decode_ends(text)); });
  refuses<ProtocolError>([&] {
    const auto tally = launcher::decode_tally(text);
    require(launcher::decode_tally(launcher::encode_tally(tally)) == tally, "a tally comes back");
  });
  refuses<ProtocolError>([&] {
    const std::string again = launcher::encode_roster(launcher::decode_roster(text));
    require(launcher::encode_roster(launcher::decode_roster(again)) == again, "the hosts come back");
  });
  refuses<ProtocolError>([&] {
    const std::string again = launcher::encode_offer(launcher::decode_offer(text));
    require(launcher::encode_offer(launcher::decode_offer(again)) == again, "an offer comes back");
  });
  refuses<ProtocolError>([&] {
    const std::string again = launcher::encode_welcome(launcher::decode_welcome(text));
    require(launcher::encode_welcome(launcher::decode_welcome(again)) == again, "a welcome comes back");
  });
}

}  // namespace unisono::fuzz
