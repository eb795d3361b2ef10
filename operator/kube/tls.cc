#include "operator/kube/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/c_ptr.h"
#include "base/status_macros.h"

namespace kube {
namespace {

using Certificate = base::CPtr<X509, X509_free>;
using Key = base::CPtr<EVP_PKEY, EVP_PKEY_free>;
using Store = base::CPtr<X509_STORE, X509_STORE_free>;
using Bio = base::CPtr<BIO, BIO_free_all>;
using Address = base::CPtr<ASN1_OCTET_STRING, ASN1_OCTET_STRING_free>;

std::string OpenSslError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "no PEM block found";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown error";
}

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The certificates of `pem`, in its order.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const char* what,
                                                          const std::string& pem) {
  ERR_clear_error();
  std::vector<Certificate> out;
  const Bio bio = Reader(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    out.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!out.empty() && at_end) {
    ERR_clear_error();
    return out;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": not a readable PEM certificate: ", OpenSslError()));
}

// Never asks a terminal for the passphrase of an encrypted key.
int NoPassphrase(char*, int, int, void*) { return 0; }

struct Identity {
  KeyPair pem;
  std::vector<Certificate> chain;  // the first is ours
  Key key;
};

absl::StatusOr<std::shared_ptr<const Identity>> ReadIdentity(const KeyPair& pair) {
  auto identity = std::make_shared<Identity>();
  identity->pem = pair;
  ASSIGN_OR_RETURN(identity->chain, ReadCertificates("client certificate", pair.certificate_pem));
  const Bio bio = Reader(pair.key_pem);
  identity->key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (identity->key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "client key: not a readable PEM private key without passphrase: ", OpenSslError()));
  }
  if (X509_check_private_key(identity->chain.front().get(), identity->key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("client key: it does not belong to the client certificate");
  }
  return identity;
}

bool IsAddress(const std::string& name) {
  const bool is_address = Address(a2i_IPADDRESS(name.c_str())) != nullptr;
  ERR_clear_error();
  return is_address;
}

class TlsImpl : public Tls {
 public:
  TlsImpl(std::string server_name, bool insecure, Store store)
      : server_name_(std::move(server_name)),
        is_address_(IsAddress(server_name_)),
        insecure_(insecure),
        store_(std::move(store)) {}

  absl::Status SetKeyPair(const KeyPair& pair) override ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (identity_ != nullptr && identity_->pem.key_pem == pair.key_pem &&
          identity_->pem.certificate_pem == pair.certificate_pem) {
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const Identity> identity, ReadIdentity(pair));
    absl::MutexLock lock(&mutex_);
    identity_ = std::move(identity);
    return absl::OkStatus();
  }

  void Configure(SSL_CTX* context) override ABSL_LOCKS_EXCLUDED(mutex_) {
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // idle watches keep no 34 KiB each
    if (store_ != nullptr) SSL_CTX_set1_cert_store(context, store_.get());
    if (!insecure_) SSL_CTX_set_cert_verify_callback(context, Verify, this);
    std::shared_ptr<const Identity> identity;
    {
      absl::MutexLock lock(&mutex_);
      identity = identity_;
    }
    if (identity == nullptr) return;
    SSL_CTX_use_certificate(context, identity->chain.front().get());
    for (size_t i = 1; i < identity->chain.size(); ++i) {
      SSL_CTX_add1_chain_cert(context, identity->chain[i].get());
    }
    SSL_CTX_use_PrivateKey(context, identity->key.get());
  }

  void NameServer(SSL* connection) override {
    if (is_address_ || SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name) != nullptr) return;
    SSL_set_tlsext_host_name(connection, server_name_.c_str());
  }

  std::string last_error() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return last_error_;
  }

 private:
  // In place of OpenSSL's own chain check, so that the expected name may differ from the URL's
  // host.
  static int Verify(X509_STORE_CTX* chain, void* self) {
    return static_cast<TlsImpl*>(self)->VerifyChain(chain);
  }

  int VerifyChain(X509_STORE_CTX* chain) ABSL_LOCKS_EXCLUDED(mutex_) {
    X509_VERIFY_PARAM* expected = X509_STORE_CTX_get0_param(chain);
    if (is_address_) {
      X509_VERIFY_PARAM_set1_ip_asc(expected, server_name_.c_str());
    } else {
      X509_VERIFY_PARAM_set_hostflags(
          expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
      X509_VERIFY_PARAM_set1_host(expected, server_name_.c_str(), 0);
    }
    X509_STORE_CTX_set_verify_cb(chain, [](int ok, X509_STORE_CTX*) { return ok; });
    const int ok = X509_verify_cert(chain);
    absl::MutexLock lock(&mutex_);
    last_error_.clear();
    if (ok <= 0) {
      last_error_ =
          absl::StrCat("the server's certificate is not accepted for ", server_name_, ": ",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain)));
    }
    return ok;
  }

  // Constant.
  const std::string server_name_;
  const bool is_address_;
  const bool insecure_;
  const Store store_;  // nullptr = the system's

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Identity> identity_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<Tls>> Tls::Create(const Config& config, std::string server_name) {
  Store store;
  if (!config.ca_pem.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Certificate> authorities,
                     ReadCertificates("certificate authority", config.ca_pem));
    store.reset(X509_STORE_new());
    for (const Certificate& authority : authorities) {
      X509_STORE_add_cert(store.get(), authority.get());
    }
    ERR_clear_error();  // a certificate that is given twice is no error
  }
  auto tls = std::make_shared<TlsImpl>(std::move(server_name), config.insecure, std::move(store));
  if (!config.client_certificate_pem.empty()) {
    RETURN_IF_ERROR(tls->SetKeyPair({config.client_certificate_pem, config.client_key_pem}));
  }
  return tls;
}

}  // namespace kube
