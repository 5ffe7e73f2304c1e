#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/tls_library.h"

// Authorities and certificates for the tests of TLS, made in memory.
namespace unisono::testing {

inline constexpr long day = 24L * 60 * 60;

class KeyPair {
 public:
  KeyPair() : key_(::EVP_EC_gen("P-256"), &::EVP_PKEY_free) {}
  EVP_PKEY* get() const { return key_.get(); }
  std::string pem() const {
    return write([&](BIO* to) { return ::PEM_write_bio_PrivateKey(to, get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }
  std::string pem_under(std::string password) const {
    return write([&](BIO* to) {
      return ::PEM_write_bio_PrivateKey(to, get(), ::EVP_aes_128_cbc(), reinterpret_cast<unsigned char*>(password.data()),
                                        static_cast<int>(password.size()), nullptr, nullptr);
    });
  }

  template <class Write>
  static std::string write(Write&& one) {
    const std::unique_ptr<BIO, decltype(&::BIO_free_all)> to(::BIO_new(::BIO_s_mem()), &::BIO_free_all);
    one(to.get());
    char* text = nullptr;
    const long size = BIO_get_mem_data(to.get(), &text);
    return {text, static_cast<std::size_t>(size)};
  }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key_;
};

/// An authority, which signs certificates that hold from yesterday on.
class Authority {
 public:
  explicit Authority(std::string name) : name_(std::move(name)), pem_(certificate(name_, key_, 30 * day, "critical,CA:TRUE", "")) {}
  const std::string& pem() const { return pem_; }

  /// `seconds`: until it expires; negative: it has. `usage`: as in extendedKeyUsage; empty: any.
  std::string sign(const std::string& name, const KeyPair& of, long seconds = 30 * day, const std::string& usage = "") const {
    return certificate(name, of, seconds, "CA:FALSE", usage);
  }
  /// What a process needs that this authority admits.
  base::TlsIdentity identity(const std::string& name, long seconds = 30 * day, const std::string& usage = "") const {
    const KeyPair key;
    base::TlsIdentity identity{.certificate = sign(name, key, seconds, usage), .private_key = key.pem(), .authority = pem_};
    identity.certificate_file = name + ".crt";
    identity.private_key_file = name + ".key";
    identity.authority_file = name_ + ".crt";
    return identity;
  }

 private:
  std::string certificate(const std::string& name, const KeyPair& of, long seconds, const char* constraints, const std::string& usage) const {
    const std::unique_ptr<X509, decltype(&::X509_free)> made(::X509_new(), &::X509_free);
    ::X509_set_version(made.get(), X509_VERSION_3);
    static long serial = 1;
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), serial++);
    ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -60 * day);
    ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), seconds);
    const auto set_name = [](X509_NAME* to, const std::string& text) {
      ::X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
    };
    set_name(::X509_get_subject_name(made.get()), name);
    set_name(::X509_get_issuer_name(made.get()), name_);
    ::X509_set_pubkey(made.get(), of.get());
    const auto extend = [&](int kind, const std::string& text) {
      const std::unique_ptr<X509_EXTENSION, decltype(&::X509_EXTENSION_free)> extension(::X509V3_EXT_conf_nid(nullptr, nullptr, kind, text.c_str()),
                                                                                        &::X509_EXTENSION_free);
      ::X509_add_ext(made.get(), extension.get(), -1);
    };
    extend(NID_basic_constraints, constraints);
    if (!usage.empty()) extend(NID_ext_key_usage, usage);
    ::X509_sign(made.get(), key_.get(), ::EVP_sha256());
    return KeyPair::write([&](BIO* to) { return ::PEM_write_bio_X509(to, made.get()); });
  }

  const std::string name_;
  const KeyPair key_;
  const std::string pem_;
};

}  // namespace unisono::testing
