// tcp:// at one host's address, and URLs: T-05 … T-07, T-42, TS-42.
#include "rendezvous_testing.h"

#include "rendezvous/url.h"

namespace unisono::rendezvous {
namespace {

TEST(TcpMeeting, at_numbers_and_names) {  // T-42
  for (const std::string host : {"127.0.0.1", "[::1]", "localhost"}) {
    const int port = free_port();
    const std::string url = fmt::format("tcp://{}:{}", host, port);
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
  }
}

TEST(TcpMeeting, the_url_may_carry_rank_and_size) {  // TS-42
  const int port = free_port();
  const auto outcomes =
      together(2, [&](int rank) { return attempt({.init_method = fmt::format("tcp://127.0.0.1:{}?rank={}&world_size=2", port, rank)}); });
  expect_a_job(outcomes, 2);
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9?rank=0&world_size=2", .rank = 1}).text<InvalidArgument>(), "0 by init_method");
}

TEST(TcpMeeting, needs_rank_and_size) {  // T-06, T-07
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 0}).text<InvalidArgument>(), "world_size is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .world_size = 2}).text<InvalidArgument>(), "rank is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 2, .world_size = 2}).text<InvalidArgument>(), "rank 2");
}

TEST(Url, bad_ones_are_refused) {  // T-05
  for (const std::string text : {"127.0.0.1:9", "foo://x", "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65536",
                                 "tcp://host:12x", "tcp://:12", "tcp://::1:12", "tcp://[::1]12", "tcp://[::1", "file://relative", "file:///",
                                 "env://x", "tcp://h:1?rank", "tcp://h:1?size=2", "tcp://h:1?rank=x", ""}) {
    EXPECT_THROW(parse_url(text), InvalidArgument) << text;
  }
  const Url url = parse_url("tcp://[fe80::1]:77?world_size=5&rank=3");
  EXPECT_EQ(url.host, "fe80::1");
  EXPECT_EQ(url.port, 77);
  EXPECT_EQ(url.rank, 3);
  EXPECT_EQ(url.world_size, 5);
  EXPECT_EQ(parse_url("file:///a/b").path, "/a/b");
}

}  // namespace
}  // namespace unisono::rendezvous
