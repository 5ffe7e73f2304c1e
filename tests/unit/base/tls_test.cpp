// Connections over TLS: what arrives, what each side is told where it does not hold, and how they behave as sockets.
#include "tls_testing.h"

#include <sys/socket.h>

#include <algorithm>
#include <random>

namespace unisono::testing {
namespace {

std::string noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

/// Returns true where all of it gets from one end to the other, written and read in parts of these sizes, both ends in turns.
bool is_carried(TlsConnection& from, TlsConnection& to, const std::string& text, std::size_t write_size, std::size_t read_size) {
  std::string arrived, chunk(read_size, '\0');
  std::string_view rest = text;
  for (int idle = 0; (arrived.size() < text.size() || from.has_unsent()) && idle < 3; ++idle) {
    const std::size_t before = arrived.size() + text.size() - rest.size();
    const ssize_t written = rest.empty() ? 0 : write_to(from, rest.substr(0, write_size));
    EXPECT_TRUE(written >= 0 || errno == EAGAIN) << from.error();
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    EXPECT_TRUE(from.flush());
    for (ssize_t n = 1; n > 0;) {
      n = read_from(to, chunk.data(), chunk.size());
      EXPECT_TRUE(n >= 0 || errno == EAGAIN) << to.error();
      if (n > 0) arrived.append(chunk, 0, static_cast<std::size_t>(n));
    }
    if (arrived.size() + text.size() - rest.size() != before) idle = 0;
  }
  return arrived == text;
}

class EveryIdentity : public ::testing::TestWithParam<bool> {
 protected:
  TlsIdentity identity(const std::string& name) const { return GetParam() ? authority_.identity(name) : key_of('k'); }
  const Authority authority_{"the authority"};
};

TEST_P(EveryIdentity, BothSidesHearEachOther) {
  const TlsPair pair(*context_of(identity("one")), *context_of(identity("other")));
  ASSERT_TRUE(pair.is_open()) << pair.connecting->error() << " | " << pair.accepting->error();
  EXPECT_EQ(write_to(*pair.connecting, "question"), 8);
  EXPECT_EQ(heard(*pair.accepting), "question");
  EXPECT_EQ(write_to(*pair.accepting, "answer"), 6);
  EXPECT_EQ(heard(*pair.connecting), "answer");
  char byte = 0;
  EXPECT_EQ(read_from(*pair.connecting, &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(pair.connecting->description(),
            GetParam() ? "TLSv1.3 TLS_AES_128_GCM_SHA256 (certificates)" : "TLSv1.3 TLS_AES_128_GCM_SHA256 (pre-shared key)");
}

TEST_P(EveryIdentity, WhatBindsAProofIsOfThisConnectionAlone) {
  const auto one = context_of(identity("one")), other = context_of(identity("other"));
  const TlsPair pair(*one, *other), again(*one, *other);
  ASSERT_TRUE(pair.is_open() && again.is_open());
  EXPECT_EQ(pair.connecting->binding().size(), 32U);
  EXPECT_EQ(pair.connecting->binding(), pair.accepting->binding());
  EXPECT_NE(pair.connecting->binding(), again.connecting->binding());
}

TEST_P(EveryIdentity, BytesOfEverySizeAroundARecordArrive) {
  const TlsPair pair(*context_of(identity("one")), *context_of(identity("other")));
  ASSERT_TRUE(pair.is_open());
  unsigned seed = 0;
  for (const std::size_t size : {1, 40, 1000, 16383, 16384, 16385, 65535, 65536, 65537, 99991, 300007}) {
    const std::string text = noise(size, ++seed);
    EXPECT_TRUE(is_carried(*pair.connecting, *pair.accepting, text, text.size(), std::size_t{1} << 16)) << size;
    EXPECT_TRUE(is_carried(*pair.accepting, *pair.connecting, text, 7919, 4093)) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Tls, EveryIdentity, ::testing::Bool(), [](const auto& with) { return with.param ? "certificates" : "key"; });

TEST(Tls, AFullSocketTakesNothingAndLosesNothing) {
  const TlsPair pair(key_of('k'));
  ASSERT_TRUE(pair.is_open());
  const int little = 4096;
  for (const auto* fd : {&pair.ends.first, &pair.ends.second}) {
    ASSERT_EQ(::setsockopt(fd->get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
  }
  const std::string text = noise(3'000'017, 5);
  std::size_t sent = 0;
  while (!pair.connecting->has_unsent()) {
    const ssize_t n = write_to(*pair.connecting, std::string_view(text).substr(sent));
    ASSERT_GT(n, 0);
    sent += static_cast<std::size_t>(n);
  }
  EXPECT_EQ(write_to(*pair.connecting, "x"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(pair.connecting->flush());
  EXPECT_TRUE(pair.connecting->has_unsent());
  // While one direction stands, the other goes on.
  EXPECT_EQ(write_to(*pair.accepting, "against the stream"), 18);
  EXPECT_EQ(heard(*pair.connecting), "against the stream");
  std::string arrived = heard(*pair.accepting, sent);
  while (arrived.size() < sent) {
    ASSERT_TRUE(pair.connecting->flush());
    const std::string more = heard(*pair.accepting);
    ASSERT_TRUE(!more.empty() || pair.connecting->has_unsent());
    arrived += more;
  }
  EXPECT_TRUE(arrived == text.substr(0, sent));
  EXPECT_TRUE(is_carried(*pair.connecting, *pair.accepting, text.substr(sent), 50'000, 60'000));
}

TEST(Tls, AHeadAndWhatFollowsItShareARecord) {
  const TlsPair pair(key_of('k'));
  ASSERT_TRUE(pair.is_open());
  for (const std::size_t size : {0, 1, 8, 16343, 16344, 16345, 40000, 100000}) {
    const std::string head = noise(40, 1), payload = noise(size, 2);
    const iovec parts[] = {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(payload.data()), payload.size()}};
    const ssize_t n = pair.connecting->write(parts, 2);
    ASSERT_GE(n, static_cast<ssize_t>(std::min<std::size_t>(40 + size, 65536)));
    // Read into two places as well, the second of which is larger than there is to read.
    std::string first(33, '\0'), second(200'000, '\0');
    const iovec places[] = {{first.data(), first.size()}, {second.data(), second.size()}};
    ASSERT_EQ(pair.accepting->read(places, 2), n);
    second.resize(static_cast<std::size_t>(n) - first.size());
    EXPECT_TRUE(first + second == (head + payload).substr(0, static_cast<std::size_t>(n))) << size;
  }
  // On the wire: 5 bytes of a record's head, 1 for its kind and 16 for its code, once.
  const std::string head = noise(40, 1), payload = noise(8, 2);
  const iovec parts[] = {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(payload.data()), payload.size()}};
  ASSERT_EQ(pair.connecting->write(parts, 2), 48);
  char raw[200];
  EXPECT_EQ(::recv(pair.ends.second.get(), raw, sizeof raw, MSG_DONTWAIT), 48 + 22);
}

TEST(Tls, WhatWasReadAheadIsSaidToBeThere) {
  const TlsPair pair(key_of('k'));
  ASSERT_TRUE(pair.is_open());
  const std::string text = noise(40'000, 3);
  ASSERT_EQ(write_to(*pair.connecting, text), 40'000);
  std::string arrived;
  // Nobody polls between two reads: what is there is all in the memory of the connection, after the first of them.
  do arrived += heard(*pair.accepting, 100);
  while (pair.accepting->has_unread());
  EXPECT_TRUE(arrived == text) << arrived.size();
}

TEST(Tls, KeysAreRenewedOnTheWay) {
  TlsIdentity identity = key_of('k');
  identity.renew_after = 20'000;
  const TlsPair pair(identity);
  ASSERT_TRUE(pair.is_open());
  const std::string text = noise(1'000'003, 4);
  EXPECT_TRUE(is_carried(*pair.connecting, *pair.accepting, text, 9973, 8191));
  EXPECT_TRUE(is_carried(*pair.accepting, *pair.connecting, text, 65536, 65536));
}

TEST(Tls, TheEndOfAStreamIsToldFromALoss) {
  {
    const TlsPair pair(key_of('k'));
    ASSERT_TRUE(pair.is_open());
    EXPECT_EQ(write_to(*pair.connecting, "last words"), 10);
    pair.connecting->close();
    EXPECT_EQ(heard(*pair.accepting), "last words");
    EXPECT_TRUE(pair.accepting->has_unread());  // the end itself
    char byte = 0;
    EXPECT_EQ(read_from(*pair.accepting, &byte, 1), 0);
    EXPECT_FALSE(pair.accepting->has_unread());
  }
  TlsPair pair(key_of('k'));
  ASSERT_TRUE(pair.is_open());
  pair.ends.first.reset();
  char byte = 0;
  EXPECT_EQ(read_from(*pair.accepting, &byte, 1), 0);
  // No signal ends this process, and the reason is an errno.
  EXPECT_EQ(write_to(*pair.accepting, "into the void"), -1);
  EXPECT_EQ(errno, EPIPE);
}

// ---- who does not belong here --------------------------------------------------------------------------------

TEST(TlsRefusals, AnotherKeyIsRefused) {
  const TlsPair pair(*context_of(key_of('a')), *context_of(key_of('b')));
  EXPECT_EQ(pair.shake_hands(), std::pair(Progress::failed, Progress::failed));
  EXPECT_EQ(pair.accepting->error(), "its token is not the token of this process");
  EXPECT_TRUE(pair.connecting->error().starts_with("it refused this process's token")) << pair.connecting->error();
}

TEST(TlsRefusals, AnotherAuthorityIsRefused) {
  const Authority ours("ours"), theirs("theirs");
  const TlsPair pair(*context_of(ours.identity("one")), *context_of(theirs.identity("other")));
  EXPECT_EQ(pair.shake_hands(), std::pair(Progress::failed, Progress::failed));
  EXPECT_EQ(pair.connecting->error(), "its certificate is not valid: unable to get local issuer certificate");
  EXPECT_EQ(pair.accepting->error(), "it refused this process (tlsv1 alert unknown ca)");
}

// The connecting side is done before the accepting one has seen its certificate: it reads that it was refused.
TEST(TlsRefusals, TheAcceptorAsksForACertificateToo) {
  const Authority ours("ours"), theirs("theirs");
  TlsIdentity stranger = theirs.identity("stranger");
  TlsIdentity credulous = stranger;
  const KeyPair key;
  credulous.authority = stranger.authority + ours.pem();  // it takes ours, and ours does not take it
  const TlsPair pair(*context_of(credulous), *context_of(ours.identity("member")));
  EXPECT_EQ(pair.shake_hands(), std::pair(Progress::done, Progress::failed));
  EXPECT_EQ(pair.accepting->error(), "its certificate is not valid: unable to get local issuer certificate");
  char byte = 0;
  EXPECT_EQ(read_from(*pair.connecting, &byte, 1), -1);
  EXPECT_EQ(errno, EBADMSG);
  EXPECT_EQ(pair.connecting->error(), "it refused this process (tlsv1 alert unknown ca)");
}

TEST(TlsRefusals, AKeyOnOneSideAndACertificateOnTheOtherAreRefused) {
  const Authority authority("the authority");
  {
    const TlsPair pair(*context_of(key_of('k')), *context_of(authority.identity("member")));
    const auto [connecting, accepting] = pair.shake_hands();
    EXPECT_EQ(connecting, Progress::failed);
    EXPECT_EQ(accepting, Progress::failed);
    EXPECT_EQ(pair.connecting->error(), "it presents a certificate, and this process has only a token");
  }
  const TlsPair pair(*context_of(authority.identity("member")), *context_of(key_of('k')));
  EXPECT_EQ(pair.shake_hands(), std::pair(Progress::failed, Progress::failed));
  EXPECT_EQ(pair.accepting->error(), "it does not offer the job's token");
  EXPECT_TRUE(pair.connecting->error().starts_with("it refused this process")) << pair.connecting->error();
}

TEST(TlsRefusals, PlainTextAndNoiseAreRefused) {
  const auto context = context_of(key_of('k'));
  std::string why;
  for (const std::string& text :
       {std::string("UNISTORE\3\0\0\0\1\0\0\0", 16), std::string("GET / HTTP/1.1\r\n\r\n"), noise(3000, 9), std::string(1 << 16, '\0')}) {
    const auto ends = base::make_socket_pair();
    const auto accepting = context->open(ends.second.get(), TlsSide::accepting, why);
    [[maybe_unused]] const auto sent = ::send(ends.first.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    EXPECT_EQ(accepting->shake_hands(), Progress::failed);
    EXPECT_EQ(accepting->met_plain_text(), text.starts_with("UNI"));
    EXPECT_EQ(accepting->error() == "it does not encrypt its connections, and this process does", text.starts_with("UNI")) << accepting->error();
    EXPECT_FALSE(accepting->error().empty());
  }
  // The other way round: the answer of a side that does not encrypt.
  const auto ends = base::make_socket_pair();
  const auto connecting = context->open(ends.first.get(), TlsSide::connecting, why);
  EXPECT_EQ(connecting->shake_hands(), Progress::waits);
  ASSERT_EQ(::send(ends.second.get(), base::no_tls_here.data(), base::no_tls_here.size(), 0), static_cast<ssize_t>(base::no_tls_here.size()));
  EXPECT_EQ(connecting->shake_hands(), Progress::failed);
  EXPECT_EQ(connecting->error(), "it does not encrypt its connections, and this process does");
}

TEST(TlsRefusals, HalfAHandshakeWaitsAndItsEndIsALoss) {
  const auto context = context_of(key_of('k'));
  std::string why, hello(4096, '\0');
  auto ends = base::make_socket_pair();
  const auto connecting = context->open(ends.first.get(), TlsSide::connecting, why);
  EXPECT_EQ(connecting->shake_hands(), Progress::waits);
  const ssize_t size = ::recv(ends.second.get(), hello.data(), hello.size(), MSG_DONTWAIT);
  ASSERT_GT(size, 100);
  for (ssize_t n = 0; n < size; n += 37) {
    auto other = base::make_socket_pair();
    const auto accepting = context->open(other.second.get(), TlsSide::accepting, why);
    ASSERT_EQ(::send(other.first.get(), hello.data(), static_cast<std::size_t>(n), 0), n);
    EXPECT_EQ(accepting->shake_hands(), Progress::waits) << n;
    char byte = 0;
    EXPECT_EQ(::recv(other.first.get(), &byte, 1, MSG_DONTWAIT), -1) << "a stranger gets nothing to look at";
    other.first.reset();
    EXPECT_EQ(accepting->shake_hands(), Progress::lost) << n;
    EXPECT_EQ(accepting->error(), "it closed the connection");
  }
}

// A hello that was recorded opens nothing: its sender cannot answer.
TEST(TlsRefusals, NothingCanBeReplayed) {
  const auto context = context_of(key_of('k'));
  std::string why, recorded(1 << 16, '\0');
  std::size_t size = 0;
  {
    // Somebody in between writes down what the connecting side says.
    const auto left = base::make_socket_pair(), right = base::make_socket_pair();
    const auto connecting = context->open(left.first.get(), TlsSide::connecting, why);
    const auto accepting = context->open(right.second.get(), TlsSide::accepting, why);
    for (int i = 0; i < 6; ++i) {
      connecting->shake_hands();
      char chunk[8192];
      ssize_t n = ::recv(left.second.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (n > 0) {
        std::copy_n(chunk, n, recorded.begin() + static_cast<std::ptrdiff_t>(size));
        size += static_cast<std::size_t>(n);
        ASSERT_EQ(::send(right.first.get(), chunk, static_cast<std::size_t>(n), 0), n);
      }
      accepting->shake_hands();
      n = ::recv(right.first.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (n > 0) {
        ASSERT_EQ(::send(left.second.get(), chunk, static_cast<std::size_t>(n), 0), n);
      }
    }
    ASSERT_EQ(accepting->shake_hands(), Progress::done);
  }
  const auto ends = base::make_socket_pair();
  const auto accepting = context->open(ends.second.get(), TlsSide::accepting, why);
  ASSERT_EQ(::send(ends.first.get(), recorded.data(), size, 0), static_cast<ssize_t>(size));
  EXPECT_EQ(accepting->shake_hands(), Progress::failed);
}

TEST(TlsRefusals, AChangedByteEndsTheConnection) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{9}, std::size_t{30}}) {
    const TlsPair pair(key_of('k'));
    ASSERT_TRUE(pair.is_open());
    ASSERT_EQ(write_to(*pair.connecting, "an order to pay 100"), 19);
    char raw[200];
    const ssize_t n = ::recv(pair.ends.second.get(), raw, sizeof raw, MSG_DONTWAIT);
    ASSERT_GT(n, 40);
    raw[at] ^= 1;
    ASSERT_EQ(::send(pair.ends.first.get(), raw, static_cast<std::size_t>(n), 0), n);  // to the accepting side again
    char byte = 0;
    ssize_t got = read_from(*pair.accepting, &byte, 1);
    if (got == -1 && errno == EAGAIN) continue;  // a longer record was announced, which never comes whole
    EXPECT_EQ(got, -1) << at;
    EXPECT_EQ(errno, EBADMSG) << at;
    EXPECT_FALSE(pair.accepting->error().empty());
    got = read_from(*pair.accepting, &byte, 1);  // for good
    EXPECT_EQ(errno, EBADMSG);
    EXPECT_EQ(write_to(*pair.accepting, "x"), -1);
    EXPECT_EQ(errno, EBADMSG);
  }
}

TEST(TlsRefusals, ARecordCannotComeTwice) {
  const TlsPair pair(key_of('k'));
  ASSERT_TRUE(pair.is_open());
  ASSERT_EQ(write_to(*pair.connecting, "an order"), 8);
  char raw[200];
  const ssize_t n = ::recv(pair.ends.second.get(), raw, sizeof raw, MSG_DONTWAIT);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(::send(pair.ends.first.get(), raw, static_cast<std::size_t>(n), 0), n);
  EXPECT_EQ(heard(*pair.accepting, 8), "an order");
  char byte = 0;
  EXPECT_EQ(read_from(*pair.accepting, &byte, 1), -1);
  EXPECT_EQ(errno, EBADMSG);
}

}  // namespace
}  // namespace unisono::testing
