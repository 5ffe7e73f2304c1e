// A link notices that a peer is gone: goodbye, death, silence, and bytes that no rank sends.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "link_testing.h"
#include "transport/tcp/frame.h"

namespace unisono::testing {
namespace {

using transport::FrameHead;
using transport::FrameKind;

std::string refusal_of(Task& task) {
  try {
    finish(task);
  } catch (const PeerFailed& error) {
    return error.message();
  }
  return "it ended well";
}

bool is_lost(const std::shared_ptr<Link>& link, PeerFailed::Cause cause, const std::string& text) {
  if (!eventually([&] { return link->lost().has_value(); })) return false;
  const auto loss = *link->lost();
  EXPECT_EQ(loss.peer, 1);
  EXPECT_EQ(loss.cause, cause);
  EXPECT_NE(loss.text.find("rank 1 (127.0.0.1:"), std::string::npos) << loss.text;
  EXPECT_NE(loss.text.find(text), std::string::npos) << loss.text;
  EXPECT_TRUE(link->is_gone(1));
  EXPECT_FALSE(link->has_left(1));
  return !::testing::Test::HasFailure();
}

TEST(LinkEnds, AGoodbyeIsNoLoss) {
  auto links = make_links(3);
  const auto data = pattern(40'000, 1);
  const auto last = pattern(5'000'000, 2);
  std::vector<unsigned char> in(data.size());
  std::vector<unsigned char> large(last.size());
  finish(*links[1]->send(data.data(), data.size(), 0, {1, 1}));
  const auto detached = links[1]->send(last.data(), last.size(), 0, {1, 2});
  detached->detach();
  const auto recv = links[0]->recv(large.data(), large.size(), 1, {1, 2});
  const auto vain = links[0]->recv(large.data(), 1, 1, {1, 3});
  links[1]->goodbye(patience);
  finish(*recv);
  EXPECT_EQ(large, last);
  links[1].reset();
  EXPECT_TRUE(eventually([&] { return links[0]->has_left(1) && links[2]->has_left(1); }));
  EXPECT_TRUE(links[0]->is_gone(1));
  EXPECT_NE(refusal_of(*vain).find("has left (finalize)"), std::string::npos);
  finish(*links[0]->recv(in.data(), in.size(), 1, {1, 1}));  // what it sent before is still there
  EXPECT_EQ(in, data);
  EXPECT_NE(refusal_of(*links[0]->send(data.data(), 4, 1, {1, 1})).find("has left (finalize)"), std::string::npos);
  links[0]->notify(1, 1, "nobody is there");
  links[0]->goodbye(patience);
  links[2]->goodbye(patience);
  EXPECT_FALSE(links[0]->lost().has_value());
  EXPECT_FALSE(links[2]->lost().has_value());
}

TEST(LinkEnds, AConnectionThatEndsWithoutAGoodbyeIsALoss) {
  auto both = make_link_and_hand();
  char byte = 0;
  const auto recv = both.link->recv(&byte, 1, 1, {1, 1});
  const auto large = pattern(1'000'000, 1);
  const auto send = both.link->send(large.data(), large.size(), 1, {1, 1});
  EXPECT_FALSE(both.link->lost().has_value());
  both.hang_up();
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "the connection to rank 1"));
  EXPECT_NE(refusal_of(*recv).find("the connection to rank 1"), std::string::npos);
  EXPECT_NE(refusal_of(*send).find("the connection to rank 1"), std::string::npos);
  EXPECT_NE(refusal_of(*both.link->recv(&byte, 1, 1, {2, 1})).find("the connection to rank 1"), std::string::npos);
  both.link->notify(1, 1, "nobody is there");
}

TEST(LinkEnds, AResetIsALoss) {
  auto both = make_link_and_hand();
  both.say({.kind = FrameKind::eager, .length = 1, .group = 1, .channel = 1}, "x");
  char byte = 0;
  finish(*both.link->recv(&byte, 1, 1, {1, 1}));
  EXPECT_EQ(byte, 'x');
  const linger now{1, 0};
  ASSERT_EQ(::setsockopt(both.hand.fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  both.hang_up();
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "was reset"));
}

TEST(LinkEnds, AllTasksOfALinkThatIsDroppedAreLostAtItsPeers) {
  auto links = make_links(2);
  char byte = 0;
  const auto recv = links[0]->recv(&byte, 1, 1, {1, 1});
  links[1].reset();
  EXPECT_TRUE(is_lost(links[0], PeerFailed::disconnected, "the connection to rank 1"));
  EXPECT_THROW(finish(*recv), PeerFailed);
}

TEST(LinkEnds, SilenceIsALoss) {
  const ImpatientWithSilence impatient(600ms);
  std::atomic<int> notified{0};
  const auto both = make_link_and_hand([&](Link::Options& options) { options.notify = [&] { notified.fetch_add(1); }; });
  char byte = 0;
  const auto recv = both.link->recv(&byte, 1, 1, {1, 1});
  EXPECT_TRUE(is_lost(both.link, PeerFailed::silent, "nothing has come from rank 1"));  // nobody polls
  EXPECT_TRUE(eventually([&] { return notified.load() > 0; }));
  EXPECT_NE(refusal_of(*recv).find("nothing has come"), std::string::npos);
}

TEST(LinkEnds, ARankThatSendsAnythingIsNotSilent) {
  const ImpatientWithSilence impatient(1500ms);
  const auto links = make_links(2);
  const auto both = make_link_and_hand();
  // A message of which a byte comes every now and then, as over a slow line.
  both.say({.kind = FrameKind::eager, .length = 100, .group = 1, .channel = 1});
  std::vector<char> in(100);
  const auto recv = both.link->recv(in.data(), in.size(), 1, {1, 1});
  const base::Deadline time(3500ms);
  std::size_t said = 0;
  while (!time.passed()) {
    both.link->poll();
    if (static_cast<std::size_t>(time.elapsed() / 100ms) > said && said < 50) both.say_bytes(++said % 2 == 1 ? "a" : "b");
    ASSERT_FALSE(both.link->lost().has_value()) << both.link->lost()->text;
  }
  // Two links that have nothing to say to each other keep each other alive.
  EXPECT_FALSE(links[0]->lost().has_value());
  EXPECT_FALSE(links[1]->lost().has_value());
  both.say_bytes(std::string(100 - said, 'z'));
  finish(*recv);
  EXPECT_EQ(in.back(), 'z');
}

TEST(LinkEnds, FramesThatNoRankSendsEndTheConnection) {
  struct Case {
    FrameHead head;
    const char* says;
  };
  const Case cases[] = {
      {{.kind = static_cast<FrameKind>(0)}, "unknown kind 0"},
      {{.kind = static_cast<FrameKind>(200)}, "unknown kind 200"},
      {{.kind = FrameKind::notice, .length = 5, .group = 1, .channel = 6}, "a notice with more data than bytes"},
      {{.kind = FrameKind::eager, .length = 262145}, "262145"},
      {{.kind = FrameKind::eager, .length = 0x80000000U}, "2147483648"},
      {{.kind = FrameKind::data, .length = 0xffffffffU, .id = 1}, "4294967295"},
      {{.kind = FrameKind::data, .length = 8, .id = 1}, "did not offer"},
      {{.kind = FrameKind::notice, .length = 1U << 20, .group = 1}, "1048576"},
      {{.kind = FrameKind::heartbeat, .length = 1}, "heartbeat"},
      {{.kind = FrameKind::heartbeat, .group = 1}, "fields"},
      {{.kind = FrameKind::request, .group = 1, .channel = 1, .id = 2, .total = 5}, "one by one"},
      {{.kind = FrameKind::clear, .id = 1}, "not offered"},
      {{.kind = FrameKind::clear, .id = ~std::uint64_t{0}}, "not offered"},
      {{.kind = FrameKind::refused, .id = 1, .total = 1}, "not offered"},
      {{.kind = FrameKind::withdrawn, .id = 1}, "did not offer"},
      {{.kind = FrameKind::consumed, .total = std::uint64_t{1} << 63}, "more than was sent"},
  };
  for (const Case& each : cases) {
    const auto both = make_link_and_hand();
    both.say(each.head, "12345678");
    EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, each.says)) << each.says;
  }
}

TEST(LinkEnds, ARequestOfAnyLengthTakesNoMemory) {
  const auto both = make_link_and_hand();
  both.say({.kind = FrameKind::request, .group = 1, .channel = 1, .id = 1, .total = std::uint64_t{1} << 63});
  both.say({.kind = FrameKind::request, .group = 1, .channel = 1, .id = 2, .total = ~std::uint64_t{0}});
  char byte = 0;
  EXPECT_THROW(finish(*both.link->recv(&byte, 1, 1, {1, 1})), ProtocolError);
  EXPECT_THROW(finish(*both.link->recv(&byte, 0, 1, {1, 1})), ProtocolError);
  EXPECT_FALSE(both.link->lost().has_value());
}

TEST(LinkEnds, MoreUnreceivedMessagesThanThereIsRoomFor) {
  const auto both = make_link_and_hand();
  const std::string text(60'000, 'x');
  for (int i = 0; i < 60; ++i) both.say({.kind = FrameKind::eager, .length = 60'000, .group = 1, .channel = 1}, text);
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "room"));
}

TEST(LinkEnds, MoreDataThanAnnouncedEndsTheConnection) {
  const auto both = make_link_and_hand();
  both.say({.kind = FrameKind::request, .group = 1, .channel = 1, .id = 1, .total = 10});
  std::vector<char> in(10, '-');
  const auto recv = both.link->recv(in.data(), in.size(), 1, {1, 1});
  both.say({.kind = FrameKind::data, .length = 6, .id = 1}, "abcdef");
  both.say({.kind = FrameKind::data, .length = 6, .id = 1}, "ghijkl");
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "more data"));
  EXPECT_THROW(finish(*recv), PeerFailed);
}

TEST(LinkEnds, MoreDataThanAnnouncedBeforeItsReceiveIsPosted) {
  const auto both = make_link_and_hand();
  both.say({.kind = FrameKind::request, .group = 1, .channel = 1, .id = 1, .total = 10});
  both.say({.kind = FrameKind::data, .length = 6, .id = 1}, "abcdef");
  both.say({.kind = FrameKind::data, .length = 6, .id = 1}, "ghijkl");
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "more data"));
  std::vector<char> in(10, '-');
  EXPECT_THROW(finish(*both.link->recv(in.data(), in.size(), 1, {1, 1})), PeerFailed);
}

TEST(LinkEnds, DataThatWaitsForItsReceiveIsNotReportedAsReceived) {
  const auto both = make_link_and_hand();
  const std::vector<char> out(300'000, 'x');
  const auto send = both.link->send(out.data(), out.size(), 1, {1, 1});
  both.say({.kind = FrameKind::consumed, .total = 200'000});
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "more than was sent"));
  EXPECT_THROW(finish(*send), PeerFailed);
}

TEST(LinkEnds, AnEndInTheMiddleOfAFrameIsALossAtEveryByte) {
  for (std::size_t n = 0; n <= transport::frame_head_size + 4; ++n) {
    auto both = make_link_and_hand();
    const std::string whole = both.sealed({.kind = FrameKind::eager, .length = 4, .group = 1, .channel = 1}, "wxyz");
    both.say_bytes(std::string_view(whole).substr(0, n));
    both.hang_up();
    EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "the connection to rank 1")) << n;
    char in[4] = {};
    const auto recv = both.link->recv(in, 4, 1, {1, 1});
    if (n == whole.size()) {
      finish(*recv);
      EXPECT_EQ(std::string_view(in, 4), "wxyz");
    } else {
      EXPECT_THROW(finish(*recv), PeerFailed) << n;
    }
  }
}

// Nobody on the way can change what the libraries say to each other, nor which message is which.
TEST(LinkEnds, AFrameThatWasChangedIsALoss) {
  const FrameHead notice{.kind = FrameKind::notice, .length = 5, .group = 1},
      message{.kind = FrameKind::eager, .length = 5, .group = 1, .channel = 1};
  FrameHead call = notice, with_data = notice;
  call.kind = FrameKind::call;
  with_data.channel = 2;  // of its bytes are the ranks' own
  for (const FrameHead& head : {notice, with_data, message, call}) {
    const std::size_t covered = transport::frame_head_size + transport::covered_bytes(head);
    for (std::size_t at = 0; at < covered; ++at) {
      auto both = make_link_and_hand();
      both.link->listen(1, [&](int, std::string_view text) { ADD_FAILURE() << "it was told \"" << text << "\", changed at " << at; });
      std::string bytes = both.sealed(head, "words");
      bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
      both.say_bytes(bytes);
      both.hang_up();  // a greater length may have been announced than ever comes
      EXPECT_TRUE(eventually([&] { return both.link->lost().has_value(); })) << at;
      char in[5] = {};
      EXPECT_THROW(finish(*both.link->recv(in, sizeof in, 1, {1, 1})), PeerFailed) << at;
      std::string taken;
      EXPECT_FALSE(both.link->take(1, 1, taken)) << at;
      both.link->listen(1, {});
    }
  }
}

// A rank may be in hundreds of groups whose calls carry elements, and come to all of them late.
TEST(LinkEnds, CallsOfManyGroupsAreKeptAndTooManyOfOneAreALoss) {
  constexpr std::uint64_t groups = 200;  // 25 MiB
  const auto both = make_link_and_hand();
  const auto call = [&](std::uint64_t group) {
    const FrameHead head{.kind = FrameKind::call, .length = static_cast<std::uint32_t>(transport::longest_call), .group = group};
    both.say(head, std::string(transport::longest_call, static_cast<char>('a' + group % 26)));
  };
  for (std::uint64_t group = 1; group <= groups; ++group) call(group);
  for (std::uint64_t group = 1; group <= groups; ++group) {
    std::string taken;
    ASSERT_TRUE(eventually([&] { return both.link->take(1, group, taken) || both.link->lost(); })) << group;
    EXPECT_EQ(taken, std::string(transport::longest_call, static_cast<char>('a' + group % 26))) << group;
  }
  ASSERT_FALSE(both.link->lost());
  std::thread sender([&] {
    for (int i = 0; i < 129; ++i) call(1);  // more than 16 MiB
  });
  EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "more messages of calls than anybody makes"));
  sender.join();
}

TEST(LinkEnds, AFrameThatComesTwiceOrNotAtAllOrLateIsALoss) {
  const FrameHead notice{.kind = FrameKind::notice, .length = 5, .group = 1};
  for (const char* const order : {"11", "2", "21", "132"}) {
    const auto both = make_link_and_hand();
    const std::string frames[] = {both.sealed(notice, "first"), both.sealed(notice, "secnd"), both.sealed(notice, "third")};
    std::string heard;
    std::mutex mutex;
    both.link->listen(1, [&](int, std::string_view text) {
      const std::lock_guard lock(mutex);
      heard += text;
    });
    for (const char* which = order; *which != 0; ++which) both.say_bytes(frames[*which - '1']);
    EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "a frame that was changed on the way")) << order;
    const std::string_view expected = order[0] == '1' ? "first" : "";
    EXPECT_TRUE(eventually([&] {  // the notice may be handed on a moment after the loss is known
      const std::lock_guard lock(mutex);
      return heard == expected;
    })) << order;
    both.link->listen(1, {});
  }
}

TEST(LinkEnds, RandomBytesAreALossAndNothingElse) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 40; ++round) {
    auto both = make_link_and_hand();
    std::string bytes(1 + random() % 4000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (round % 2 == 0) bytes[0] = static_cast<char>(1 + random() % 10), bytes[1] = bytes[2] = bytes[3] = 0;
    both.say_bytes(bytes);
    both.hang_up();
    EXPECT_TRUE(is_lost(both.link, PeerFailed::disconnected, "rank 1"));
  }
}

}  // namespace
}  // namespace unisono::testing
