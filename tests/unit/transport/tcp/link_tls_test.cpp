// Connections between ranks of which some encrypt otherwise than the others.
#include <fstream>
#include <future>

#include "link_testing.h"
#include "store/authentication.h"
#include "unit/temporary_file.h"
#include "thrown_by.h"
#include "unit/base/tls_testing.h"

namespace unisono::testing {
namespace {

using base::TlsOptions;

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

/// The files of one rank.
class Files {
 public:
  explicit Files(const TlsIdentity& identity) {
    std::ofstream(certificate_.path()) << identity.certificate;
    std::ofstream(private_key_.path()) << identity.private_key.view();
    std::ofstream(authority_.path()) << identity.authority;
  }
  TlsOptions options() const {
    return {.mode = TlsOptions::Mode::on, .certificate = certificate_.path(), .private_key = private_key_.path(), .authority = authority_.path()};
  }

 private:
  TemporaryFile certificate_, private_key_, authority_;
};

const TlsOptions off, by_secret{.mode = TlsOptions::Mode::on, .certificate = {}, .private_key = {}, .authority = {}};

/// A store that tells this rank that rank 0 encrypts as it does itself, so that the connections have to find out.
class Agreeing final : public Store {
 public:
  Agreeing(std::shared_ptr<Store> inner, std::string word) : inner_(std::move(inner)), word_(std::move(word)) {}
  void set(std::string_view key, std::string_view value) override { inner_->set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override {
    return key == "link/encryption" ? word_ : inner_->get(key, timeout);
  }
  std::optional<std::string> try_get(std::string_view key) override { return inner_->try_get(key); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { inner_->wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return inner_->erase(key); }
  std::int64_t num_keys() override { return inner_->num_keys(); }

 private:
  std::shared_ptr<Store> inner_;
  std::string word_;
};

/// What rank 0, which connects, and rank 1, which accepts, come to; "" where they connect.
struct Attempted {
  std::string connecting, accepting;
};
Attempted attempt(const TlsOptions& first, const TlsOptions& second, const std::string& word_for_second = {},
                  std::chrono::milliseconds timeout = patience) {
  const auto store = std::make_shared<MemoryStore>();
  const auto one = [&](int rank, const TlsOptions& tls) {
    auto options = link_options(rank, 2, store, timeout);
    if (rank == 1 && !word_for_second.empty()) options.store = std::make_shared<Agreeing>(store, word_for_second);
    options.tls = tls;
    try {
      Link::connect(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto accepting = std::async(std::launch::async, one, 1, second);
  const std::string connecting = one(0, first);
  return {connecting, accepting.get()};
}

TEST(LinkTls, ConnectionsAreEncryptedByTheSecretAndByCertificates) {
  const Authority authority("the authority");
  const Files one(authority.identity("one")), other(authority.identity("other"));
  EXPECT_EQ(attempt(by_secret, by_secret).connecting, "");
  EXPECT_EQ(attempt(one.options(), other.options()).accepting, "");
}

TEST(LinkTls, RanksThatDifferLearnItFromTheStoreAtOnce) {
  const Authority authority("the authority");
  const Files files(authority.identity("rank"));
  const struct {
    TlsOptions first, second;
    const char* says;
  } cases[] = {{off, by_secret, "the encryption between the ranks is with the job's secret on rank 1 and off on rank 0"},
               {by_secret, off, "the encryption between the ranks is off on rank 1 and with the job's secret on rank 0"},
               {by_secret, files.options(), "is with certificates on rank 1 and with the job's secret on rank 0"}};
  for (const auto& each : cases) {
    const auto store = std::make_shared<MemoryStore>();
    auto options = link_options(1, 2, store);
    options.tls = each.second;
    auto first = std::async(std::launch::async, [&] {
      auto of_first = link_options(0, 2, store, 200ms);
      of_first.tls = each.first;
      EXPECT_THROW(Link::connect(of_first), Error);
    });
    EXPECT_SAYS(thrown_by<ProtocolError>([&] { Link::connect(options); }).message(), each.says);
    first.get();
  }
}

// Whoever connects is told at once even where the store says nothing.
TEST(LinkTls, TheConnectionsFindOutAsWell) {
  const auto encrypted_and_not = attempt(by_secret, off, "off", 2000ms);
  EXPECT_SAYS(encrypted_and_not.connecting, "the process that answers for rank 1 at 127.0.0.1:");
  EXPECT_SAYS(encrypted_and_not.connecting, "it does not encrypt its connections, and this process does");
  const auto plain_and_encrypted = attempt(off, by_secret, "with the job's secret", 2000ms);
  EXPECT_SAYS(plain_and_encrypted.connecting, "rank 0 at 127.0.0.1");
  EXPECT_SAYS(plain_and_encrypted.accepting, "could not connect with rank 0");
  EXPECT_SAYS(plain_and_encrypted.accepting, "`unisono doctor --hosts A,B` shows what a firewall drops");
}

TEST(LinkTls, AnotherAuthorityIsAnErrorAtOnce) {
  const Authority ours("ours"), theirs("theirs");
  const Files one(ours.identity("one")), other(theirs.identity("other"));
  const auto attempted = attempt(one.options(), other.options(), {}, 2000ms);
  EXPECT_SAYS(attempted.connecting, "its certificate is not valid: unable to get local issuer certificate");
}

TEST(LinkTls, NothingOnTheWireIsInTheClear) {
  for (const bool encrypts : {false, true}) {
    const auto both = make_link_and_hand({}, encrypts ? by_secret : off);
    both.link->notify(1, 7, "an order in the clear");
    // The raw bytes that the peer's socket gets, below its TLS.
    std::string raw(4096, '\0');
    ASSERT_TRUE(base::wait_for(both.hand.fd.get(), POLLIN, base::Deadline(patience)));
    const ssize_t n = ::recv(both.hand.fd.get(), raw.data(), raw.size(), MSG_DONTWAIT);
    ASSERT_GT(n, 48);
    EXPECT_EQ(raw.find("in the clear") == std::string::npos, encrypts);
  }
}

}  // namespace
}  // namespace unisono::testing
