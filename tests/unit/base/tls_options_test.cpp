// UNISONO_TLS and its companions: what they may say, and the files that they name.
#include <sys/stat.h>

#include <fstream>

#include "store/authentication.h"
#include "thrown_by.h"
#include "tls_testing.h"
#include "unisono/error.h"
#include "unit/temporary_file.h"

namespace unisono::testing {
namespace {

using base::Environment;
using Variables = std::map<std::string, std::string, std::less<>>;
using Mode = base::TlsOptions::Mode;

TEST(TlsOptions, EncryptionIsOffOnOrRequired) {
  EXPECT_EQ(base::tls_options(Environment()).mode, Mode::off);
  EXPECT_EQ(base::tls_options(Environment(Variables{{"UNISONO_TLS", "off"}})).mode, Mode::off);
  EXPECT_EQ(base::tls_options(Environment(Variables{{"UNISONO_TLS", "on"}})).mode, Mode::on);
  EXPECT_EQ(base::tls_options(Environment(Variables{{"UNISONO_TLS", "required"}})).mode, Mode::required);
  const auto error = thrown_by<InvalidArgument>([] { base::tls_options(Environment(Variables{{"UNISONO_TLS", "yes"}})); });
  EXPECT_EQ(error.message(), "UNISONO_TLS=yes is unknown; it is on, required or off");
}

TEST(TlsOptions, OptionsTakeAllFilesOrNone) {
  const auto error = thrown_by<InvalidArgument>([] {
    base::tls_options(Environment(Variables{{"UNISONO_TLS", "on"}, {"UNISONO_TLS_CERT", "/c"}, {"UNISONO_TLS_CA", "/a"}}));
  });
  EXPECT_EQ(error.message(), "UNISONO_TLS_CERT, UNISONO_TLS_CA is set and UNISONO_TLS_KEY is not");
  EXPECT_TRUE(base::tls_options(
                  Environment(Variables{{"UNISONO_TLS", "on"}, {"UNISONO_TLS_CERT", "/c"}, {"UNISONO_TLS_CA", "/a"}, {"UNISONO_TLS_KEY", "/k"}}))
                  .has_certificate());
}

TEST(TlsOptions, EncryptionTakesTheTokenWithoutFiles) {
  const Environment on(Variables{{"UNISONO_TLS", "on"}});
  const auto error = thrown_by<InvalidArgument>([&] { store::tls_for("", on); });
  EXPECT_NE(error.message().find("UNISONO_TLS=on takes the job's secret"), std::string::npos) << error.message();
  EXPECT_TRUE(store::tls_for("the secret", on));
  EXPECT_FALSE(store::tls_for("the secret", Environment()));
}

/// The three files of a process, as UNISONO_TLS_CERT and the others name them.
class Files {
 public:
  explicit Files(const TlsIdentity& identity) {
    write(certificate, identity.certificate);
    write(private_key, std::string(identity.private_key.view()));
    write(authority, identity.authority);
  }
  static void write(const TemporaryFile& file, const std::string& text) { std::ofstream(file.path()) << text; }
  std::string refusal() const {
    const Environment environment(Variables{{"UNISONO_TLS", "on"},
                                            {"UNISONO_TLS_CERT", certificate.path()},
                                            {"UNISONO_TLS_KEY", private_key.path()},
                                            {"UNISONO_TLS_CA", authority.path()}});
    return thrown_by<InvalidArgument>([&] { store::tls_for("", environment); }).what();
  }
  bool are_good() const {
    return store::tls_for("", Environment(Variables{{"UNISONO_TLS", "on"},
                                                    {"UNISONO_TLS_CERT", certificate.path()},
                                                    {"UNISONO_TLS_KEY", private_key.path()},
                                                    {"UNISONO_TLS_CA", authority.path()}})) != nullptr;
  }

  TemporaryFile certificate, private_key, authority;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class TlsFiles : public ::testing::Test {
 protected:
  const Authority authority_{"the authority"};
};

TEST_F(TlsFiles, FilesInOrderAreTaken) { EXPECT_TRUE(Files(authority_.identity("host 1")).are_good()); }

TEST_F(TlsFiles, AKeyThatOthersCanReadIsRefused) {
  const Files files(authority_.identity("host 1"));
  ASSERT_EQ(::chmod(files.private_key.path().c_str(), 0640), 0);
  EXPECT_SAYS(files.refusal(), "the key file " + files.private_key.path() + " is open to others (mode 0640)");
  EXPECT_SAYS(files.refusal(), "chmod 600 " + files.private_key.path());
}

TEST_F(TlsFiles, FilesThatAreMissingOrOfAnotherKindAreRefused) {
  const Files files(authority_.identity("host 1"));
  std::filesystem::remove(files.certificate.path());
  EXPECT_SAYS(files.refusal(), "the certificate file " + files.certificate.path() + " cannot be read: No such file");
  Files::write(files.certificate, "no certificate");
  EXPECT_SAYS(files.refusal(), files.certificate.path() + " holds no certificate that can be read (PEM)");
  Files::write(files.certificate, authority_.identity("host 1").certificate);
  EXPECT_SAYS(files.refusal(), files.private_key.path() + " is not the key of the certificate in " + files.certificate.path());
  Files::write(files.private_key, "no key");
  EXPECT_SAYS(files.refusal(), files.private_key.path() + " holds no private key that can be read");
  Files::write(files.authority, "");
  const Files other(authority_.identity("host 1"));
  Files::write(other.authority, "");
  EXPECT_SAYS(other.refusal(), other.authority.path() + " holds no certificate that can be read (PEM)");
  Files::write(other.authority, std::string((1 << 20) + 1, 'x'));
  EXPECT_SAYS(other.refusal(), "is longer than 1048576 bytes");
}

// Nobody is asked for a password: a rank has no terminal.
TEST_F(TlsFiles, AKeyUnderAPasswordIsRefused) {
  const KeyPair key;
  TlsIdentity identity = authority_.identity("host 1");
  identity.certificate = authority_.sign("host 1", key);
  identity.private_key = key.pem_under("password");
  EXPECT_SAYS(Files(identity).refusal(), "holds no private key that can be read (PEM, without a password)");
}

TEST_F(TlsFiles, AnExpiredCertificateIsRefusedWhereItLies) {
  const Files files(authority_.identity("host 1", -day));
  EXPECT_SAYS(files.refusal(),
              "the certificate in " + files.certificate.path() + " is not valid under " + files.authority.path() + ": certificate has expired");
}

TEST_F(TlsFiles, ACertificateOfAnotherAuthorityIsRefusedWhereItLies) {
  TlsIdentity identity = authority_.identity("host 1");
  identity.authority = Authority("another one").pem();
  EXPECT_SAYS(Files(identity).refusal(), "unable to get local issuer certificate");
}

// A rank connects to some of the others and is connected to by the rest.
TEST_F(TlsFiles, ACertificateForOneSideAloneIsRefused) {
  EXPECT_SAYS(Files(authority_.identity("host 1", 30 * day, "serverAuth")).refusal(), "unsuitable certificate purpose");
  EXPECT_SAYS(Files(authority_.identity("host 1", 30 * day, "clientAuth")).refusal(), "unsuitable certificate purpose");
  EXPECT_TRUE(Files(authority_.identity("host 1", 30 * day, "serverAuth,clientAuth")).are_good());
}

}  // namespace
}  // namespace unisono::testing
